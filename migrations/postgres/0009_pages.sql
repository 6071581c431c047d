-- Indexes whose new entries lie together: an entry for each level, on a page of its own, cost much of an
-- order.

-- What counts on a supplier's level is asked for whenever it is judged.
DROP INDEX holds_level;
CREATE INDEX holds_level ON holds (level_id, order_id)
    WHERE kind = 'supplier' AND (state IN ('active', 'committed') OR undone_at IS NOT NULL OR lost > 0
       OR surplus > 0);
-- Open holds, for lists; and for what is asked of a warehouse's level when its count is corrected below what
-- is promised, or its figures cannot be right: then all that is open is looked through.
CREATE INDEX holds_open ON holds (order_id, line, part, level_id)
    WHERE state IN ('active', 'committed');
