//! Rows of SKUs, levels, suppliers and the ledger.

use crate::clock::{Span, Timestamp};
use crate::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use crate::domain::sku::{Class, Kind, Pause, Paused, Sku, Source, Watermark};
use crate::domain::stock::{Closed, Entry, ItemLock, Level, Listing};
use crate::domain::supply::Item;
use crate::storage::cell::Json;
use crate::storage::table::table;

/// An upstream item as its two columns.
fn item_columns(item: Option<&Item>) -> (Option<String>, Option<String>) {
    match item {
        Some(item) => (Some(item.offer_id.clone()), item.spec_id.clone()),
        None => (None, None),
    }
}

fn item_of(offer_id: Option<String>, spec_id: Option<String>) -> Option<Item> {
    offer_id.map(|offer_id| Item { offer_id, spec_id })
}

fn pause_columns(pause: Option<&Pause>) -> (Option<Timestamp>, Option<String>) {
    pause.map(|p| (p.at, p.reason.clone())).unzip()
}

fn pause_of(at: Option<Timestamp>, reason: Option<String>) -> Option<Pause> {
    at.zip(reason).map(|(at, reason)| Pause { at, reason })
}

table! {
    /// A SKU is not locked: an update compares the whole old row.
    "skus" SkuRow key(key) guard(title, class, low, recover, selling_paused_at,
        selling_paused_reason, buying_paused_at, buying_paused_reason)
    {
        key: SkuKey,
        title: String,
        class: Class,
        low: Option<i64>,
        recover: Option<i64>,
        selling_paused_at: Option<Timestamp>,
        selling_paused_reason: Option<String>,
        buying_paused_at: Option<Timestamp>,
        buying_paused_reason: Option<String>,
    }
}

impl From<&Sku> for SkuRow {
    fn from(s: &Sku) -> SkuRow {
        let (selling_paused_at, selling_paused_reason) = pause_columns(s.paused.selling.as_ref());
        let (buying_paused_at, buying_paused_reason) = pause_columns(s.paused.buying.as_ref());
        SkuRow {
            key: s.key.clone(),
            title: s.title.clone(),
            class: s.class,
            low: s.watermark.low,
            recover: s.watermark.recover,
            selling_paused_at,
            selling_paused_reason,
            buying_paused_at,
            buying_paused_reason,
        }
    }
}

/// Without its sources.
impl From<SkuRow> for Sku {
    fn from(r: SkuRow) -> Sku {
        Sku {
            key: r.key,
            title: r.title,
            class: r.class,
            watermark: Watermark { low: r.low, recover: r.recover },
            sources: Vec::new(),
            paused: Paused {
                selling: pause_of(r.selling_paused_at, r.selling_paused_reason),
                buying: pause_of(r.buying_paused_at, r.buying_paused_reason),
            },
        }
    }
}

table! {
    "sku_sources" SourceRow key(sku, position) guard() {
        sku: SkuKey,
        position: i64,
        source: SourceId,
        kind: Kind,
        level_id: LevelId,
        offer_id: Option<String>,
        spec_id: Option<String>,
        cost: Option<i64>,
        currency: Option<String>,
        min_quantity: i64,
        pack_size: i64,
        buffer: Option<i64>,
    }
}

impl SourceRow {
    /// `position`: its place in the order of preference, from 1.
    pub fn of(sku: &SkuKey, position: i64, s: &Source) -> SourceRow {
        let (offer_id, spec_id) = item_columns(s.item.as_ref());
        SourceRow {
            sku: sku.clone(),
            position,
            source: s.source.clone(),
            kind: s.kind,
            level_id: s.level.clone(),
            offer_id,
            spec_id,
            cost: s.cost,
            currency: s.currency.clone(),
            min_quantity: s.min_quantity,
            pack_size: s.pack_size,
            buffer: s.buffer,
        }
    }
}

impl From<SourceRow> for Source {
    fn from(r: SourceRow) -> Source {
        Source {
            source: r.source,
            kind: r.kind,
            level: r.level_id,
            item: item_of(r.offer_id, r.spec_id),
            cost: r.cost,
            currency: r.currency,
            min_quantity: r.min_quantity,
            pack_size: r.pack_size,
            buffer: r.buffer,
        }
    }
}

table! {
    "sku_aliases" AliasRow key(alias) guard() {
        alias: SkuKey,
        sku: SkuKey,
    }
}

table! {
    /// A supplier's stop switch; what its syncs leave there is written apart.
    "suppliers" SupplierRow key(id) guard(selling_paused_at, selling_paused_reason,
        buying_paused_at, buying_paused_reason)
    {
        id: SourceId,
        selling_paused_at: Option<Timestamp>,
        selling_paused_reason: Option<String>,
        buying_paused_at: Option<Timestamp>,
        buying_paused_reason: Option<String>,
    }
}

impl SupplierRow {
    pub fn of(id: &SourceId, paused: &Paused) -> SupplierRow {
        let (selling_paused_at, selling_paused_reason) = pause_columns(paused.selling.as_ref());
        let (buying_paused_at, buying_paused_reason) = pause_columns(paused.buying.as_ref());
        SupplierRow {
            id: id.clone(),
            selling_paused_at,
            selling_paused_reason,
            buying_paused_at,
            buying_paused_reason,
        }
    }
}

impl From<SupplierRow> for (SourceId, Paused) {
    fn from(r: SupplierRow) -> (SourceId, Paused) {
        let paused = Paused {
            selling: pause_of(r.selling_paused_at, r.selling_paused_reason),
            buying: pause_of(r.buying_paused_at, r.buying_paused_reason),
        };
        (r.id, paused)
    }
}

table! {
    /// An update compares the revision, which rises with every change.
    "levels" LevelRow key(id) guard(revision) {
        id: LevelId,
        source: SourceId,
        kind: Kind,
        offer_id: Option<String>,
        spec_id: Option<String>,
        quantity: i64,
        held: i64,
        committed: i64,
        version: i64,
        listing: Listing,
        as_of: Option<Timestamp>,
        feed_as_of: Option<Timestamp>,
        lag_samples: Json<Vec<Span>>,
        closed_from: Option<i64>,
        closed_since: Option<Timestamp>,
        blocked_at: Option<Timestamp>,
        lock_token: i64,
        lock_until: Option<Timestamp>,
        lock_owner: Option<String>,
        revision: i64,
    }
}

table! {
    /// What a new order changes of a level.
    "levels" HeldRow key(id) guard(revision) {
        id: LevelId,
        held: i64,
        version: i64,
        revision: i64,
    }
}

impl From<&Level> for HeldRow {
    fn from(l: &Level) -> HeldRow {
        HeldRow { id: l.id.clone(), held: l.held, version: l.version, revision: l.revision }
    }
}

impl From<&Level> for LevelRow {
    fn from(l: &Level) -> LevelRow {
        let (offer_id, spec_id) = item_columns(l.item.as_ref());
        LevelRow {
            id: l.id.clone(),
            source: l.source.clone(),
            kind: l.kind,
            offer_id,
            spec_id,
            quantity: l.quantity,
            held: l.held,
            committed: l.committed,
            version: l.version,
            listing: l.listing,
            as_of: l.as_of,
            feed_as_of: l.feed_as_of,
            lag_samples: Json(l.lag_samples.clone()),
            closed_from: l.closed.map(|c| c.from_quantity),
            closed_since: l.closed.map(|c| c.since),
            blocked_at: l.blocked_at,
            lock_token: l.lock.token,
            lock_until: l.lock.until,
            lock_owner: l.lock.owner.clone(),
            revision: l.revision,
        }
    }
}

impl From<LevelRow> for Level {
    fn from(r: LevelRow) -> Level {
        Level {
            id: r.id,
            source: r.source,
            kind: r.kind,
            item: item_of(r.offer_id, r.spec_id),
            quantity: r.quantity,
            held: r.held,
            committed: r.committed,
            version: r.version,
            listing: r.listing,
            as_of: r.as_of,
            feed_as_of: r.feed_as_of,
            lag_samples: r.lag_samples.0,
            closed: r
                .closed_from
                .zip(r.closed_since)
                .map(|(from_quantity, since)| Closed { from_quantity, since }),
            blocked_at: r.blocked_at,
            lock: ItemLock { token: r.lock_token, until: r.lock_until, owner: r.lock_owner },
            revision: r.revision,
        }
    }
}

table! {
    /// One ledger entry; its `seq` is given by the database.
    "ledger" EntryRow key(at) guard() {
        at: Timestamp,
        level_id: LevelId,
        sku: Option<SkuKey>,
        order_id: Option<OrderId>,
        line: Option<i64>,
        part: Option<i64>,
        event: String,
        by_quantity: i64,
        by_held: i64,
        by_committed: i64,
        note: String,
    }
}

impl From<&Entry> for EntryRow {
    fn from(e: &Entry) -> EntryRow {
        EntryRow {
            at: e.at,
            level_id: e.level.clone(),
            sku: e.sku.clone(),
            order_id: e.order.clone(),
            line: e.hold.map(|h| h.0),
            part: e.hold.map(|h| h.1),
            event: e.event.to_owned(),
            by_quantity: e.by.quantity,
            by_held: e.by.held,
            by_committed: e.by.committed,
            note: e.note.clone(),
        }
    }
}
