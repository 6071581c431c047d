-- Counts the changes of each level, whatever is changed of it, so that who has read it can tell by one
-- figure whether it still is as it was read. A writer that does not count, as a replica of an earlier
-- version, is counted by a trigger.

ALTER TABLE levels ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;

CREATE FUNCTION level_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;

CREATE TRIGGER levels_updated BEFORE UPDATE ON levels FOR EACH ROW
    WHEN (NEW.revision = OLD.revision)
    EXECUTE FUNCTION level_changed();
