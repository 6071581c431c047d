//! Stock levels: one item at one source, and the one formula for what may be sold.
//!
//! What must hold: every change of a figure goes through [`Level::shift`], which keeps it in range
//! and is mirrored by exactly one ledger entry. For a warehouse `held + committed ≤ quantity`.

use serde::{Deserialize, Serialize};

use super::names::{LevelId, OrderId, SkuKey, SourceId, texts};
use super::sku::Kind;
use super::supply::Item;
use crate::clock::{Span, Timestamp};

/// No figure may exceed this; readings beyond it are not believed.
pub const MAX_FIGURE: i64 = 1_000_000_000_000;

texts!(
    /// What the last believed reading said of the item. A warehouse's level is always `Listed`.
    Listing {
        Listed = "listed",
        /// The supplier does not offer it.
        Missing = "missing",
        /// Never read yet.
        Unread = "unread",
    }
);

/// After a recognised stock refusal: closed for `from_quantity` and more until a reading whose
/// as_of is after `since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    pub from_quantity: i64,
    pub since: Timestamp,
}

/// The lock on one upstream item. It covers only *ask the supplier and decide*.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemLock {
    /// Rises with every taking; a write with an older one is refused.
    pub token: i64,
    /// Held until then; `None` when free.
    pub until: Option<Timestamp>,
    /// The job that holds it.
    pub owner: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pub id: LevelId,
    pub source: SourceId,
    pub kind: Kind,
    /// The upstream item; `None` for a warehouse.
    pub item: Option<Item>,
    /// Warehouse: the shelf count. Supplier: the last believed snapshot.
    pub quantity: i64,
    /// Promised to orders, not yet sold or bought.
    pub held: i64,
    /// Sold and not yet gone, or bought and not yet surely in `quantity`.
    pub committed: i64,
    /// Rises with every change of a figure.
    pub version: i64,
    pub listing: Listing,
    /// How old the believed figure is: at or before this it was read. `None` for a warehouse and
    /// for what was never read.
    pub as_of: Option<Timestamp>,
    /// The newest as_of that came by feed, from which the lag is sampled.
    pub feed_as_of: Option<Timestamp>,
    /// The last 100 lag samples, oldest first.
    pub lag_samples: Vec<Span>,
    pub closed: Option<Closed>,
    /// Not orderable until ops clear it (the seller closed a purchase of it); since when.
    pub blocked_at: Option<Timestamp>,
    pub lock: ItemLock,
    /// Rises with every change that is stored, whatever is changed.
    pub revision: i64,
}

/// A change of a level's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    pub quantity: i64,
    pub held: i64,
    pub committed: i64,
}

/// A figure would leave its range: the rows and the counter disagree, or stock is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange(pub LevelId);

impl Level {
    /// An empty level, before any figure.
    pub fn empty(id: LevelId, source: SourceId, item: Option<Item>) -> Level {
        let (kind, listing) = match item {
            Some(_) => (Kind::Supplier, Listing::Unread),
            None => (Kind::Warehouse, Listing::Listed),
        };
        Level {
            id,
            source,
            kind,
            item,
            quantity: 0,
            held: 0,
            committed: 0,
            version: 0,
            listing,
            as_of: None,
            feed_as_of: None,
            lag_samples: Vec::new(),
            closed: None,
            blocked_at: None,
            lock: ItemLock::default(),
            revision: 0,
        }
    }

    /// `max(0, quantity − held − committed − buffer)`, whatever the freshness.
    pub fn available(&self, buffer: i64) -> i64 {
        self.quantity
            .saturating_sub(self.held)
            .saturating_sub(self.committed)
            .saturating_sub(buffer)
            .max(0)
    }

    /// Applies a change, or refuses it whole.
    ///
    /// # Errors
    /// [`OutOfRange`] when a figure would fall below 0 or exceed [`MAX_FIGURE`], or a warehouse
    /// would owe more than it has.
    pub fn shift(&mut self, by: Shift) -> Result<(), OutOfRange> {
        let add = |a: i64, b: i64| {
            a.checked_add(b)
                .filter(|n| (0..=MAX_FIGURE).contains(n))
                .ok_or(OutOfRange(self.id.clone()))
        };
        let quantity = add(self.quantity, by.quantity)?;
        let held = add(self.held, by.held)?;
        let committed = add(self.committed, by.committed)?;
        if self.kind == Kind::Warehouse && held.saturating_add(committed) > quantity {
            return Err(OutOfRange(self.id.clone()));
        }
        (self.quantity, self.held, self.committed) = (quantity, held, committed);
        self.version = self.version.saturating_add(1);
        Ok(())
    }
}

/// One line of the append-only ledger: what changed a level's figures, by how much, and why.
/// A level's figures are the sums of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Timestamp,
    pub level: LevelId,
    pub sku: Option<SkuKey>,
    pub order: Option<OrderId>,
    /// Line number and part of the hold concerned.
    pub hold: Option<(i64, i64)>,
    /// `placed`, `sold`, `bought`, `shipped`, `released`, `reversed`, `in_feed`, `reading`,
    /// `created`, `correction`, `recount` …
    pub event: &'static str,
    pub by: Shift,
    /// A reason given by a person, or a short explanation.
    pub note: String,
}
