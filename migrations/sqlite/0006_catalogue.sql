-- Counts the changes of what is sold, from where, and whether it is paused, so that a process that has
-- read it can tell at a glance whether what it knows still holds. Triggers count, so that whoever writes
-- is counted.

CREATE TABLE catalogue (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO catalogue (one, version) VALUES (1, 1);

CREATE TRIGGER skus_inserted AFTER INSERT ON skus
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER skus_updated AFTER UPDATE ON skus
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER skus_deleted AFTER DELETE ON skus
BEGIN UPDATE catalogue SET version = version + 1; END;

CREATE TRIGGER sku_sources_inserted AFTER INSERT ON sku_sources
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER sku_sources_updated AFTER UPDATE ON sku_sources
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER sku_sources_deleted AFTER DELETE ON sku_sources
BEGIN UPDATE catalogue SET version = version + 1; END;

CREATE TRIGGER sku_aliases_inserted AFTER INSERT ON sku_aliases
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER sku_aliases_updated AFTER UPDATE ON sku_aliases
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER sku_aliases_deleted AFTER DELETE ON sku_aliases
BEGIN UPDATE catalogue SET version = version + 1; END;

-- Only the stop switches: what syncs leave there changes nothing that is sold.
CREATE TRIGGER suppliers_inserted AFTER INSERT ON suppliers
WHEN NEW.selling_paused_at IS NOT NULL OR NEW.buying_paused_at IS NOT NULL
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER suppliers_updated AFTER UPDATE ON suppliers
WHEN NEW.selling_paused_at IS NOT OLD.selling_paused_at
    OR NEW.selling_paused_reason IS NOT OLD.selling_paused_reason
    OR NEW.buying_paused_at IS NOT OLD.buying_paused_at
    OR NEW.buying_paused_reason IS NOT OLD.buying_paused_reason
BEGIN UPDATE catalogue SET version = version + 1; END;
CREATE TRIGGER suppliers_deleted AFTER DELETE ON suppliers
BEGIN UPDATE catalogue SET version = version + 1; END;
