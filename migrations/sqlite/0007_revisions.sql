-- Counts the changes of each level, whatever is changed of it, so that who has read it can tell by one
-- figure whether it still is as it was read. A writer that does not count is counted by a trigger.

ALTER TABLE levels ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER levels_updated AFTER UPDATE ON levels
WHEN NEW.revision = OLD.revision
BEGIN UPDATE levels SET revision = OLD.revision + 1 WHERE id = NEW.id; END;
