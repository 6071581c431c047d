-- Orders and what belongs to them. Times are microseconds since the epoch, money minor units.
-- No foreign keys between hot tables: they halve throughput, and reconciliation proves the rest.

CREATE TABLE orders (
    id                      TEXT    NOT NULL PRIMARY KEY,
    channel                 TEXT    NOT NULL,
    external_id             TEXT    NOT NULL,
    content_hash            TEXT    NOT NULL,
    idempotency_key         TEXT,
    idempotency_hash        TEXT,
    state                   TEXT    NOT NULL,
    currency                TEXT    NOT NULL,
    total                   INTEGER NOT NULL CHECK (total >= 0),
    shipping                INTEGER NOT NULL CHECK (shipping >= 0),
    discount                INTEGER NOT NULL CHECK (discount >= 0),
    short_policy            TEXT    NOT NULL CHECK (short_policy IN ('cancel_order', 'cancel_lines')),
    cancel_reason           TEXT,
    cancel_requested_at     INTEGER,
    cancel_requested_reason TEXT,
    created_at              INTEGER NOT NULL,
    expires_at              INTEGER NOT NULL,
    grace_used              INTEGER NOT NULL CHECK (grace_used IN (0, 1)),
    paid_at                 INTEGER,
    deadline_at             INTEGER,
    attention               TEXT,
    -- JSON: order::Customer, supply::Address, [order::Shipment]
    customer                TEXT,
    ship_to                 TEXT,
    shipments               TEXT    NOT NULL,
    -- The number of the last event; 0 before the first.
    event_seq               INTEGER NOT NULL CHECK (event_seq >= 0),
    CONSTRAINT orders_state CHECK (state IN ('pending_payment', 'paid', 'confirming', 'confirmed',
        'shipped', 'completed', 'attention', 'cancelled', 'expired')),
    CONSTRAINT orders_waiting_has_deadline CHECK (
        state IN ('completed', 'cancelled', 'expired') OR deadline_at IS NOT NULL),
    CONSTRAINT orders_idempotency_whole CHECK (
        (idempotency_key IS NULL) = (idempotency_hash IS NULL)),
    CONSTRAINT orders_cancel_request_whole CHECK (
        (cancel_requested_at IS NULL) = (cancel_requested_reason IS NULL))
) STRICT;
CREATE UNIQUE INDEX orders_external ON orders (channel, external_id);
CREATE UNIQUE INDEX orders_idempotency ON orders (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX orders_deadline ON orders (deadline_at, id) WHERE deadline_at IS NOT NULL;
CREATE INDEX orders_attention ON orders (id) WHERE state = 'attention';

CREATE TABLE order_lines (
    order_id   TEXT    NOT NULL,
    no         INTEGER NOT NULL CHECK (no > 0),
    sku        TEXT    NOT NULL,
    quantity   INTEGER NOT NULL CHECK (quantity > 0),
    unit_price INTEGER NOT NULL CHECK (unit_price >= 0),
    cancelled  INTEGER NOT NULL CHECK (cancelled >= 0),
    shipped    INTEGER NOT NULL CHECK (shipped >= 0),
    returned   INTEGER NOT NULL CHECK (returned >= 0),
    PRIMARY KEY (order_id, no),
    CONSTRAINT order_lines_units CHECK (cancelled + shipped <= quantity AND returned <= shipped)
) STRICT, WITHOUT ROWID;

-- A share of a line at one source.
CREATE TABLE holds (
    order_id     TEXT    NOT NULL,
    line         INTEGER NOT NULL CHECK (line > 0),
    part         INTEGER NOT NULL CHECK (part > 0),
    sku          TEXT    NOT NULL,
    level_id     TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('warehouse', 'supplier')),
    quantity     INTEGER NOT NULL CHECK (quantity > 0),
    state        TEXT    NOT NULL,
    confirmation TEXT,
    asked_at     INTEGER,
    purchase_id  TEXT,
    counted_at   INTEGER,
    undone_at    INTEGER,
    lost         INTEGER NOT NULL CHECK (lost >= 0),
    surplus      INTEGER NOT NULL CHECK (surplus >= 0),
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    PRIMARY KEY (order_id, line, part),
    CONSTRAINT holds_state CHECK (
        state IN ('active', 'committed', 'settled', 'released', 'reversed')),
    CONSTRAINT holds_confirmation CHECK (confirmation IS NULL OR (kind = 'supplier' AND confirmation
        IN ('not_due', 'waiting', 'confirmed', 'unknown', 'short', 'refused')))
) STRICT, WITHOUT ROWID;
-- What still counts on a level: open, or undone, lost or in surplus upstream.
CREATE INDEX holds_level ON holds (level_id, order_id)
    WHERE state IN ('active', 'committed') OR undone_at IS NOT NULL OR lost > 0
       OR surplus > 0;

CREATE TABLE payments (
    payment_id  TEXT    NOT NULL,
    channel     TEXT    NOT NULL,
    order_id    TEXT    NOT NULL,
    -- Position within the order, from 1.
    no          INTEGER NOT NULL CHECK (no > 0),
    amount      INTEGER NOT NULL CHECK (amount > 0),
    paid_at     INTEGER,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (payment_id, channel)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX payments_order ON payments (order_id, no);

CREATE TABLE refunds (
    id          TEXT    NOT NULL PRIMARY KEY,
    order_id    TEXT    NOT NULL,
    no          INTEGER NOT NULL CHECK (no > 0),
    cause       TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    payment_id  TEXT    NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount > 0),
    state       TEXT    NOT NULL CHECK (state IN ('pending', 'succeeded', 'needs_attention')),
    attempt     INTEGER NOT NULL CHECK (attempt >= 0),
    asked_at    INTEGER,
    reference   TEXT,
    note        TEXT,
    created_at  INTEGER NOT NULL,
    deadline_at INTEGER,
    CONSTRAINT refunds_waiting_has_deadline CHECK (
        state = 'succeeded' OR deadline_at IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX refunds_order ON refunds (order_id, no);
CREATE INDEX refunds_deadline ON refunds (deadline_at, id) WHERE deadline_at IS NOT NULL;

CREATE TABLE purchase_orders (
    -- Also the reference given to the supplier.
    id                  TEXT    NOT NULL PRIMARY KEY,
    order_id            TEXT    NOT NULL,
    no                  INTEGER NOT NULL CHECK (no > 0),
    supplier            TEXT    NOT NULL,
    generation          INTEGER NOT NULL CHECK (generation > 0),
    state               TEXT    NOT NULL,
    supplier_order_id   TEXT,
    cost                INTEGER CHECK (cost >= 0),
    currency            TEXT    NOT NULL,
    attempts            INTEGER NOT NULL CHECK (attempts >= 0),
    attempt_until       INTEGER,
    cancel_requested_at INTEGER,
    placed_at           INTEGER,
    paid_at             INTEGER,
    ended_at            INTEGER,
    end_reason          TEXT,
    deadline_at         INTEGER,
    created_at          INTEGER NOT NULL,
    -- JSON: purchase::Trail
    trail               TEXT    NOT NULL,
    CONSTRAINT purchase_orders_once UNIQUE (order_id, supplier, generation),
    CONSTRAINT purchase_orders_state CHECK (state IN ('pending', 'placing', 'unknown', 'placed',
        'paid', 'shipped', 'received', 'failed', 'cancelled')),
    CONSTRAINT purchase_orders_waiting_has_deadline CHECK (
        -- What was shipped is read back for a time only.
        state IN ('shipped', 'received', 'failed', 'cancelled') OR deadline_at IS NOT NULL)
) STRICT;
CREATE INDEX purchase_orders_deadline ON purchase_orders (deadline_at, id)
    WHERE deadline_at IS NOT NULL;
-- What a pause of buying keeps waiting.
CREATE INDEX purchase_orders_pending ON purchase_orders (created_at, id) WHERE state = 'pending';
-- What is read back before an item is short.
CREATE INDEX purchase_orders_placed ON purchase_orders (supplier, order_id) WHERE state = 'placed';
-- A supplier's push names its own order.
CREATE INDEX purchase_orders_supplier_order ON purchase_orders (supplier_order_id)
    WHERE supplier_order_id IS NOT NULL;

-- Timeline, outgoing webhooks and server-sent events: each receiver reads it with its own cursor.
CREATE TABLE events (
    seq      INTEGER NOT NULL PRIMARY KEY,
    order_id TEXT    NOT NULL,
    -- Number within the order, from 1.
    n        INTEGER NOT NULL CHECK (n > 0),
    at       INTEGER NOT NULL,
    event    TEXT    NOT NULL,
    detail   TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_order ON events (order_id, n);
