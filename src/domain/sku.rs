//! SKUs: what a storefront sells, and the sources that may serve it, in order of preference.

use serde::{Deserialize, Serialize};

use super::names::{LevelId, SkuKey, SourceId, texts};
use super::supply::Item;
use crate::clock::Timestamp;

/// A SKU has at most this many sources.
pub const MAX_SOURCES: usize = 5;

texts!(
    /// How long an unpaid order may hold the SKU's stock (the times are in the policy).
    Class { Normal = "normal", Hot = "hot", Flash = "flash" }
);

#[allow(clippy::derivable_impls)] // the macro above owns the enum
impl Default for Class {
    fn default() -> Class {
        Class::Normal
    }
}

texts!(
    /// Whose stock a level is: exact and ours, or a supplier's, told late.
    Kind { Warehouse = "warehouse", Supplier = "supplier" }
);

/// The stop switch, audited: when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub at: Timestamp,
    pub reason: String,
}

/// Selling (new orders) and buying (purchases) stop separately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub selling: Option<Pause>,
    pub buying: Option<Pause>,
}

texts!(
    /// What a pause or resume concerns.
    What { Selling = "selling", Buying = "buying", Both = "both" }
);

impl Paused {
    pub fn set(&mut self, what: What, pause: Option<Pause>) {
        if what != What::Buying {
            self.selling = pause.clone();
        }
        if what != What::Selling {
            self.buying = pause;
        }
    }
}

/// A source of a SKU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub source: SourceId,
    pub kind: Kind,
    pub level: LevelId,
    /// The upstream item; `None` for a warehouse.
    pub item: Option<Item>,
    /// Minor units of `currency` per unit.
    pub cost: Option<i64>,
    pub currency: Option<String>,
    /// A supplier's share of a line is at least this.
    pub min_quantity: i64,
    /// A supplier's share of a line is a multiple of this.
    pub pack_size: i64,
    /// Units never sold; `None` means the supplier's default (0 for a warehouse).
    pub buffer: Option<i64>,
}

/// When ops are warned that the SKU runs dry. `None` means the policy's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// Opens below this.
    pub low: Option<i64>,
    /// Closes at or above this; must exceed `low`.
    pub recover: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sku {
    pub key: SkuKey,
    pub title: String,
    pub class: Class,
    pub watermark: Watermark,
    /// In order of preference, at most [`MAX_SOURCES`], each source once.
    pub sources: Vec<Source>,
    pub paused: Paused,
}
