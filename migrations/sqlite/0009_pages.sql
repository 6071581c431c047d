-- Indexes whose new entries lie together. Each page that is changed is copied into the log: an entry for
-- each level, on a page of its own, cost more than all the rest of an order.

-- A level's entries by stretches of the ledger, 1,024 entries each: new ones are all in the last. Who reads
-- a level's goes from stretch to stretch.
DROP INDEX ledger_level;
CREATE INDEX ledger_level ON ledger (seq >> 10, level_id);

-- What counts on a supplier's level is asked for whenever it is judged.
DROP INDEX holds_level;
CREATE INDEX holds_level ON holds (level_id, order_id)
    WHERE kind = 'supplier' AND (state IN ('active', 'committed') OR undone_at IS NOT NULL OR lost > 0
       OR surplus > 0);
-- Open holds, for lists; and for what is asked of a warehouse's level when its count is corrected below what
-- is promised, or its figures cannot be right: then all that is open is looked through.
CREATE INDEX holds_open ON holds (order_id, line, part, level_id)
    WHERE state IN ('active', 'committed');
