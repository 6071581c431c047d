-- What is sold, where it comes from, and every figure's history.

CREATE TABLE skus (
    key            TEXT NOT NULL PRIMARY KEY,
    title          TEXT NOT NULL,
    class          TEXT NOT NULL CHECK (class IN ('normal', 'hot', 'flash')),
    -- The watermark; NULL means the policy's default.
    low            INTEGER CHECK (low >= 0),
    recover        INTEGER CHECK (recover >= 0),
    selling_paused_at     INTEGER,
    selling_paused_reason TEXT,
    buying_paused_at      INTEGER,
    buying_paused_reason  TEXT,
    CONSTRAINT skus_pauses_whole CHECK (
        (selling_paused_at IS NULL) = (selling_paused_reason IS NULL)
        AND (buying_paused_at IS NULL) = (buying_paused_reason IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE sku_sources (
    sku          TEXT    NOT NULL,
    -- Order of preference, from 1.
    position     INTEGER NOT NULL CHECK (position > 0),
    source       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('warehouse', 'supplier')),
    level_id     TEXT    NOT NULL,
    offer_id     TEXT,
    spec_id      TEXT,
    cost         INTEGER CHECK (cost >= 0),
    currency     TEXT,
    min_quantity INTEGER NOT NULL CHECK (min_quantity > 0),
    pack_size    INTEGER NOT NULL CHECK (pack_size > 0),
    buffer       INTEGER CHECK (buffer >= 0),
    PRIMARY KEY (sku, position),
    CONSTRAINT sku_sources_once UNIQUE (sku, source),
    CONSTRAINT sku_sources_item CHECK ((kind = 'supplier') = (offer_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX sku_sources_level ON sku_sources (level_id);

CREATE TABLE sku_aliases (
    alias TEXT NOT NULL PRIMARY KEY,
    sku   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sku_aliases_sku ON sku_aliases (sku);

CREATE TABLE suppliers (
    id                    TEXT NOT NULL PRIMARY KEY,
    selling_paused_at     INTEGER,
    selling_paused_reason TEXT,
    buying_paused_at      INTEGER,
    buying_paused_reason  TEXT,
    last_sync_at          INTEGER,
    last_sync_outcome     TEXT,
    last_sync_detail      TEXT,
    suspect_since         INTEGER,
    -- JSON: what the adapter keeps (access tokens).
    tokens                TEXT,
    CONSTRAINT suppliers_pauses_whole CHECK (
        (selling_paused_at IS NULL) = (selling_paused_reason IS NULL)
        AND (buying_paused_at IS NULL) = (buying_paused_reason IS NULL))
) STRICT, WITHOUT ROWID;

-- One item at one source.
CREATE TABLE levels (
    id          TEXT    NOT NULL PRIMARY KEY,
    source      TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('warehouse', 'supplier')),
    offer_id    TEXT,
    spec_id     TEXT,
    quantity    INTEGER NOT NULL CHECK (quantity BETWEEN 0 AND 1000000000000),
    held        INTEGER NOT NULL CHECK (held BETWEEN 0 AND 1000000000000),
    committed   INTEGER NOT NULL CHECK (committed BETWEEN 0 AND 1000000000000),
    version     INTEGER NOT NULL CHECK (version >= 0),
    listing     TEXT    NOT NULL CHECK (listing IN ('listed', 'missing', 'unread')),
    as_of       INTEGER,
    feed_as_of  INTEGER,
    -- JSON: the last lag samples, microseconds, oldest first.
    lag_samples TEXT    NOT NULL,
    closed_from INTEGER,
    closed_since INTEGER,
    blocked_at  INTEGER,
    lock_token  INTEGER NOT NULL CHECK (lock_token >= 0),
    lock_until  INTEGER,
    lock_owner  TEXT,
    CONSTRAINT levels_never_oversold CHECK (
        kind <> 'warehouse' OR held + committed <= quantity),
    CONSTRAINT levels_item CHECK ((kind = 'supplier') = (offer_id IS NOT NULL)),
    CONSTRAINT levels_closed_whole CHECK ((closed_from IS NULL) = (closed_since IS NULL))
) STRICT;
CREATE INDEX levels_source ON levels (source, id);

-- Append-only: a level's figures are the sums of its entries.
CREATE TABLE ledger (
    seq          INTEGER NOT NULL PRIMARY KEY,
    at           INTEGER NOT NULL,
    level_id     TEXT    NOT NULL,
    sku          TEXT,
    order_id     TEXT,
    line         INTEGER,
    part         INTEGER,
    event        TEXT    NOT NULL,
    by_quantity  INTEGER NOT NULL,
    by_held      INTEGER NOT NULL,
    by_committed INTEGER NOT NULL,
    note         TEXT    NOT NULL,
    CONSTRAINT ledger_hold_whole CHECK ((line IS NULL) = (part IS NULL))
) STRICT;
CREATE INDEX ledger_level ON ledger (level_id, seq);
CREATE INDEX ledger_order ON ledger (order_id, seq) WHERE order_id IS NOT NULL;
