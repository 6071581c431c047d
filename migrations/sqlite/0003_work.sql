-- Work that is owed, what ops are told, and what makes a repeat harmless.

CREATE TABLE jobs (
    id          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    -- Unique among live jobs: a second request for the same work finds the first.
    key         TEXT    NOT NULL UNIQUE,
    kind        TEXT    NOT NULL,
    -- JSON: job::Job
    payload     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('ready', 'running', 'dead')),
    run_at      INTEGER NOT NULL,
    -- The earliest time asked for since it was claimed.
    wake_at     INTEGER,
    -- Claims since it last made progress.
    attempts    INTEGER NOT NULL CHECK (attempts >= 0),
    -- How often it was asked for; a rise while it runs puts it back.
    wakes       INTEGER NOT NULL CHECK (wakes >= 0),
    -- Rises with every claim; a write with an older one is refused.
    lease_token INTEGER NOT NULL CHECK (lease_token >= 0),
    lease_until INTEGER,
    worker      TEXT,
    last_error  TEXT,
    created_at  INTEGER NOT NULL,
    CONSTRAINT jobs_lease CHECK ((state = 'running') = (lease_until IS NOT NULL))
) STRICT;
CREATE INDEX jobs_due ON jobs (coalesce(lease_until, run_at), id) WHERE state <> 'dead';
CREATE INDEX jobs_dead ON jobs (id) WHERE state = 'dead';

CREATE TABLE schedules (
    name             TEXT    NOT NULL PRIMARY KEY,
    -- The newest slot (whole seconds, in microseconds) for which a job was made.
    last_slot        INTEGER NOT NULL,
    last_started_at  INTEGER,
    last_finished_at INTEGER,
    last_outcome     TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE alerts (
    id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    kind            TEXT    NOT NULL,
    subject         TEXT    NOT NULL,
    detail          TEXT    NOT NULL,
    opened_at       INTEGER NOT NULL,
    closed_at       INTEGER,
    acknowledged_at INTEGER,
    last_told_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX alerts_open ON alerts (kind, subject) WHERE closed_at IS NULL;

-- Answers kept under an Idempotency-Key (an order's own is a column of the order).
CREATE TABLE idempotency (
    api_key    TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    body_hash  TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    -- NULL: for ever.
    keep_until INTEGER,
    PRIMARY KEY (key, path, api_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keep_until ON idempotency (keep_until) WHERE keep_until IS NOT NULL;

-- Groups of commands that were committed: a repeat of one finds its id here.
CREATE TABLE command_groups (
    id TEXT    NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX command_groups_at ON command_groups (at);
