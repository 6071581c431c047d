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

impl Sku {
    /// As a catalogue's row says, with what such a row cannot say left as it is known: buffers, when a
    /// warning closes, further sources of a kind (a row names one warehouse and one supplier), and the
    /// order of preference.
    #[must_use]
    pub fn keeping(mut self, known: &Sku) -> Sku {
        if self.watermark.low == known.watermark.low {
            self.watermark.recover = self.watermark.recover.or(known.watermark.recover);
        }
        let first = |kind: Kind| known.sources.iter().position(|s| s.kind == kind);
        let named = [first(Kind::Warehouse), first(Kind::Supplier)];
        let mut sources = Vec::new();
        for (place, source) in known.sources.iter().enumerate() {
            let said = self.sources.iter().position(|s| s.level == source.level);
            if let Some(said) = said {
                let said = self.sources.remove(said);
                sources.push(Source { buffer: said.buffer.or(source.buffer), ..said });
            } else if !named.contains(&Some(place)) {
                sources.push(source.clone());
            }
        }
        sources.append(&mut self.sources);
        Sku { sources, ..self }
    }
}

#[cfg(test)]
mod keeping_tests {
    use super::*;

    fn source(source: &str, kind: Kind, buffer: Option<i64>) -> Source {
        Source {
            source: source.into(),
            kind,
            level: LevelId::from(format!("{source}:A").as_str()),
            item: None,
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer,
        }
    }

    fn sku(sources: Vec<Source>, recover: Option<i64>) -> Sku {
        Sku {
            key: "A".into(),
            title: "A".into(),
            class: Class::Normal,
            watermark: Watermark { low: None, recover },
            sources,
            paused: Paused::default(),
        }
    }

    fn shown(sku: &Sku) -> Vec<(&str, Option<i64>)> {
        sku.sources.iter().map(|s| (s.source.as_str(), s.buffer)).collect()
    }

    #[test]
    fn what_a_row_cannot_say_is_left_as_it_is() {
        let known = sku(
            vec![
                source("s1688", Kind::Supplier, Some(7)),
                source("main", Kind::Warehouse, Some(3)),
                source("east", Kind::Warehouse, None),
            ],
            Some(20),
        );
        let (main, s1688) =
            (source("main", Kind::Warehouse, None), source("s1688", Kind::Supplier, None));
        let same = sku(vec![main.clone(), s1688], None).keeping(&known);
        assert_eq!(same, known, "preference, buffers, the second warehouse, when a warning closes");
        // The supplier that a row would name is gone from it: it is taken away.
        let without = sku(vec![main], None).keeping(&known);
        assert_eq!(shown(&without), [("main", Some(3)), ("east", None)]);
        let other = sku(vec![source("west", Kind::Warehouse, None)], None).keeping(&known);
        assert_eq!(shown(&other), [("east", None), ("west", None)]);
    }
}
