-- Orders and what belongs to them. Times are microseconds since the epoch, money minor units.
-- No foreign keys between hot tables: they halve throughput, and reconciliation proves the rest.

CREATE TABLE orders (
    id                      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    channel                 TEXT COLLATE "C" NOT NULL,
    external_id             TEXT COLLATE "C" NOT NULL,
    content_hash            TEXT COLLATE "C" NOT NULL,
    idempotency_key         TEXT COLLATE "C",
    idempotency_hash        TEXT COLLATE "C",
    state                   TEXT COLLATE "C" NOT NULL,
    currency                TEXT COLLATE "C" NOT NULL,
    total                   BIGINT  NOT NULL CHECK (total >= 0),
    shipping                BIGINT  NOT NULL CHECK (shipping >= 0),
    discount                BIGINT  NOT NULL CHECK (discount >= 0),
    short_policy            TEXT COLLATE "C" NOT NULL CHECK (short_policy IN ('cancel_order', 'cancel_lines')),
    cancel_reason           TEXT COLLATE "C",
    cancel_requested_at     BIGINT,
    cancel_requested_reason TEXT COLLATE "C",
    created_at              BIGINT  NOT NULL,
    expires_at              BIGINT  NOT NULL,
    grace_used              BIGINT  NOT NULL CHECK (grace_used IN (0, 1)),
    paid_at                 BIGINT,
    deadline_at             BIGINT,
    attention               TEXT COLLATE "C",
    -- JSON: order::Customer, supply::Address, [order::Shipment]
    customer                TEXT COLLATE "C",
    ship_to                 TEXT COLLATE "C",
    shipments               TEXT COLLATE "C" NOT NULL,
    -- The number of the last event; 0 before the first.
    event_seq               BIGINT  NOT NULL CHECK (event_seq >= 0),
    CONSTRAINT orders_state CHECK (state IN ('pending_payment', 'paid', 'confirming', 'confirmed',
        'shipped', 'completed', 'attention', 'cancelled', 'expired')),
    CONSTRAINT orders_waiting_has_deadline CHECK (
        state IN ('completed', 'cancelled', 'expired') OR deadline_at IS NOT NULL),
    CONSTRAINT orders_idempotency_whole CHECK (
        (idempotency_key IS NULL) = (idempotency_hash IS NULL)),
    CONSTRAINT orders_cancel_request_whole CHECK (
        (cancel_requested_at IS NULL) = (cancel_requested_reason IS NULL))
);
CREATE UNIQUE INDEX orders_external ON orders (channel, external_id);
CREATE UNIQUE INDEX orders_idempotency ON orders (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX orders_deadline ON orders (deadline_at, id) WHERE deadline_at IS NOT NULL;
CREATE INDEX orders_attention ON orders (id) WHERE state = 'attention';

CREATE TABLE order_lines (
    order_id   TEXT COLLATE "C" NOT NULL,
    no         BIGINT  NOT NULL CHECK (no > 0),
    sku        TEXT COLLATE "C" NOT NULL,
    quantity   BIGINT  NOT NULL CHECK (quantity > 0),
    unit_price BIGINT  NOT NULL CHECK (unit_price >= 0),
    cancelled  BIGINT  NOT NULL CHECK (cancelled >= 0),
    shipped    BIGINT  NOT NULL CHECK (shipped >= 0),
    returned   BIGINT  NOT NULL CHECK (returned >= 0),
    PRIMARY KEY (order_id, no),
    CONSTRAINT order_lines_units CHECK (cancelled + shipped <= quantity AND returned <= shipped)
);

-- A share of a line at one source.
CREATE TABLE holds (
    order_id     TEXT COLLATE "C" NOT NULL,
    line         BIGINT  NOT NULL CHECK (line > 0),
    part         BIGINT  NOT NULL CHECK (part > 0),
    sku          TEXT COLLATE "C" NOT NULL,
    level_id     TEXT COLLATE "C" NOT NULL,
    source       TEXT COLLATE "C" NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL CHECK (kind IN ('warehouse', 'supplier')),
    quantity     BIGINT  NOT NULL CHECK (quantity > 0),
    state        TEXT COLLATE "C" NOT NULL,
    confirmation TEXT COLLATE "C",
    asked_at     BIGINT,
    purchase_id  TEXT COLLATE "C",
    counted_at   BIGINT,
    undone_at    BIGINT,
    lost         BIGINT  NOT NULL CHECK (lost >= 0),
    surplus      BIGINT  NOT NULL CHECK (surplus >= 0),
    created_at   BIGINT  NOT NULL,
    ended_at     BIGINT,
    PRIMARY KEY (order_id, line, part),
    CONSTRAINT holds_state CHECK (
        state IN ('active', 'committed', 'settled', 'released', 'reversed')),
    CONSTRAINT holds_confirmation CHECK (confirmation IS NULL OR (kind = 'supplier' AND confirmation
        IN ('not_due', 'waiting', 'confirmed', 'unknown', 'short', 'refused')))
);
-- What still counts on a level: open, or undone, lost or in surplus upstream.
CREATE INDEX holds_level ON holds (level_id, order_id)
    WHERE state IN ('active', 'committed') OR undone_at IS NOT NULL OR lost > 0
       OR surplus > 0;

CREATE TABLE payments (
    payment_id  TEXT COLLATE "C" NOT NULL,
    channel     TEXT COLLATE "C" NOT NULL,
    order_id    TEXT COLLATE "C" NOT NULL,
    -- Position within the order, from 1.
    no          BIGINT  NOT NULL CHECK (no > 0),
    amount      BIGINT  NOT NULL CHECK (amount > 0),
    paid_at     BIGINT,
    recorded_at BIGINT  NOT NULL,
    PRIMARY KEY (payment_id, channel)
);
CREATE UNIQUE INDEX payments_order ON payments (order_id, no);

CREATE TABLE refunds (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    order_id    TEXT COLLATE "C" NOT NULL,
    no          BIGINT  NOT NULL CHECK (no > 0),
    cause       TEXT COLLATE "C" NOT NULL,
    reason      TEXT COLLATE "C" NOT NULL,
    payment_id  TEXT COLLATE "C" NOT NULL,
    amount      BIGINT  NOT NULL CHECK (amount > 0),
    state       TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'succeeded', 'needs_attention')),
    attempt     BIGINT  NOT NULL CHECK (attempt >= 0),
    asked_at    BIGINT,
    reference   TEXT COLLATE "C",
    note        TEXT COLLATE "C",
    created_at  BIGINT  NOT NULL,
    deadline_at BIGINT,
    CONSTRAINT refunds_waiting_has_deadline CHECK (
        state = 'succeeded' OR deadline_at IS NOT NULL)
);
CREATE UNIQUE INDEX refunds_order ON refunds (order_id, no);
CREATE INDEX refunds_deadline ON refunds (deadline_at, id) WHERE deadline_at IS NOT NULL;

CREATE TABLE purchase_orders (
    -- Also the reference given to the supplier.
    id                  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    order_id            TEXT COLLATE "C" NOT NULL,
    no                  BIGINT  NOT NULL CHECK (no > 0),
    supplier            TEXT COLLATE "C" NOT NULL,
    generation          BIGINT  NOT NULL CHECK (generation > 0),
    state               TEXT COLLATE "C" NOT NULL,
    supplier_order_id   TEXT COLLATE "C",
    cost                BIGINT CHECK (cost >= 0),
    currency            TEXT COLLATE "C" NOT NULL,
    attempts            BIGINT  NOT NULL CHECK (attempts >= 0),
    attempt_until       BIGINT,
    cancel_requested_at BIGINT,
    placed_at           BIGINT,
    paid_at             BIGINT,
    ended_at            BIGINT,
    end_reason          TEXT COLLATE "C",
    deadline_at         BIGINT,
    created_at          BIGINT  NOT NULL,
    -- JSON: purchase::Trail
    trail               TEXT COLLATE "C" NOT NULL,
    CONSTRAINT purchase_orders_once UNIQUE (order_id, supplier, generation),
    CONSTRAINT purchase_orders_state CHECK (state IN ('pending', 'placing', 'unknown', 'placed',
        'paid', 'shipped', 'received', 'failed', 'cancelled')),
    CONSTRAINT purchase_orders_waiting_has_deadline CHECK (
        -- What was shipped is read back for a time only.
        state IN ('shipped', 'received', 'failed', 'cancelled') OR deadline_at IS NOT NULL)
);
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
    seq      BIGINT  NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    order_id TEXT COLLATE "C" NOT NULL,
    -- Number within the order, from 1.
    n        BIGINT  NOT NULL CHECK (n > 0),
    at       BIGINT  NOT NULL,
    event    TEXT COLLATE "C" NOT NULL,
    detail   TEXT COLLATE "C" NOT NULL,
    -- The writer. Readers page by (xact, seq) and stop before the oldest writer still open: by seq
    -- alone they would pass what a transaction numbered early and commits late.
    xact     XID8    NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (xact, seq)
);
CREATE UNIQUE INDEX events_order ON events (order_id, n);
