-- Leases that ended without a word since the job's last report: its worker died under it.
ALTER TABLE jobs ADD COLUMN lapses BIGINT NOT NULL DEFAULT 0 CHECK (lapses >= 0);
