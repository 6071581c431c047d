-- Counts the changes of what is sold, from where, and whether it is paused, so that a process that has
-- read it can tell at a glance whether what it knows still holds. Triggers count, so that whoever writes
-- is counted, also a replica of an earlier version.

CREATE TABLE catalogue (
    one     BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL
);
INSERT INTO catalogue (one, version) VALUES (1, 1);

CREATE FUNCTION catalogue_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE catalogue SET version = version + 1;
    RETURN NULL;
END $$;

CREATE TRIGGER skus_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON skus
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue_changed();
CREATE TRIGGER sku_sources_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON sku_sources
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue_changed();
CREATE TRIGGER sku_aliases_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON sku_aliases
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue_changed();

-- Only the stop switches: what syncs leave there changes nothing that is sold.
CREATE TRIGGER suppliers_inserted AFTER INSERT ON suppliers FOR EACH ROW
    WHEN (NEW.selling_paused_at IS NOT NULL OR NEW.buying_paused_at IS NOT NULL)
    EXECUTE FUNCTION catalogue_changed();
CREATE TRIGGER suppliers_updated AFTER UPDATE ON suppliers FOR EACH ROW
    WHEN (NEW.selling_paused_at IS DISTINCT FROM OLD.selling_paused_at
        OR NEW.selling_paused_reason IS DISTINCT FROM OLD.selling_paused_reason
        OR NEW.buying_paused_at IS DISTINCT FROM OLD.buying_paused_at
        OR NEW.buying_paused_reason IS DISTINCT FROM OLD.buying_paused_reason)
    EXECUTE FUNCTION catalogue_changed();
CREATE TRIGGER suppliers_deleted AFTER DELETE ON suppliers FOR EACH ROW
    EXECUTE FUNCTION catalogue_changed();
