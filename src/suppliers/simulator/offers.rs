//! What the simulated seller offers: offers with variants (specs) or without.
//!
//! What must hold after `validate`: ids are unique (a spec id within its offer, a SKU id over all)
//! and decimal where the wire has numbers; an offer has specs or its own price and stock, not both.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::domain::supply::Item;

/// One offer. Without `specs` it is one item, with its own price and stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Decimal digits.
    pub offer_id: String,
    pub title: String,
    /// The seller's member id; one order has one seller.
    #[serde(default = "seller")]
    pub seller: String,
    /// `published` can be bought; `expired`, `member deleted` … cannot.
    #[serde(default = "published")]
    pub status: String,
    #[serde(default = "one")]
    pub min_order_quantity: i64,
    /// Quantities are multiples of this.
    #[serde(default = "one")]
    pub batch_number: i64,
    /// Price of a unit, fen (offers without specs).
    #[serde(default)]
    pub price_fen: i64,
    /// Units in stock at the start (offers without specs).
    #[serde(default)]
    pub stock: i64,
    #[serde(default)]
    pub specs: Vec<Spec>,
}

/// A variant of an offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What orders name; unique only inside the offer.
    pub spec_id: String,
    /// Unique over all offers.
    pub sku_id: u64,
    /// The variant's attribute, shown as `attributes[0].attributeValue`.
    pub name: String,
    /// Price of a unit, fen.
    pub price_fen: i64,
    /// Units in stock at the start.
    pub stock: i64,
}

fn seller() -> String {
    "b2b-2208145678901".into()
}
fn published() -> String {
    "published".into()
}
const fn one() -> i64 {
    1
}

impl Offer {
    pub fn is_published(&self) -> bool {
        self.status == "published"
    }

    /// The items that can be bought, in the order of the settings.
    pub fn items(&self) -> Vec<Item> {
        self.starting_stock().map(|(item, _)| item).collect()
    }

    /// The items and how many units of each there are at the start.
    pub fn starting_stock(&self) -> impl Iterator<Item = (Item, i64)> {
        let whole = self.specs.is_empty().then(|| (self.item(None), self.stock));
        let specs = self.specs.iter().map(|s| (self.item(Some(&s.spec_id)), s.stock));
        whole.into_iter().chain(specs)
    }

    pub fn spec(&self, spec_id: &str) -> Option<&Spec> {
        self.specs.iter().find(|spec| spec.spec_id == spec_id)
    }

    fn item(&self, spec_id: Option<&str>) -> Item {
        Item { offer_id: self.offer_id.clone(), spec_id: spec_id.map(ToOwned::to_owned) }
    }
}

/// Whether the offers can be sold.
pub(super) fn validate(offers: &[Offer]) -> Result<(), String> {
    let (mut ids, mut skus) = (BTreeSet::new(), BTreeSet::new());
    for offer in offers {
        let id = &offer.offer_id;
        if !id.bytes().all(|b| b.is_ascii_digit()) || id.parse::<u64>().is_err() {
            return Err(format!("offers: offer_id `{id}` is not a decimal number"));
        }
        if !ids.insert(id) {
            return Err(format!("offers: {id} is there twice"));
        }
        let own = !offer.specs.is_empty() && (offer.stock != 0 || offer.price_fen != 0);
        if own {
            return Err(format!("offers: {id} has specs, so stock and price_fen belong to them"));
        }
        if offer.min_order_quantity < 1 || offer.batch_number < 1 {
            return Err(format!("offers: {id}: the least quantity and the batch are at least 1"));
        }
        let specs: BTreeSet<&str> = offer.specs.iter().map(|s| s.spec_id.as_str()).collect();
        if specs.len() != offer.specs.len() || specs.contains("") {
            return Err(format!("offers: the spec_ids of {id} are empty or not unique"));
        }
        if !offer.specs.iter().all(|spec| skus.insert(spec.sku_id)) {
            return Err(format!("offers: a sku_id of {id} is there twice"));
        }
        let below = offer.specs.iter().any(|s| s.stock < 0 || s.price_fen < 0);
        if below || offer.stock < 0 || offer.price_fen < 0 {
            return Err(format!("offers: {id}: stock and price_fen must not be negative"));
        }
    }
    Ok(())
}

/// The offers of the example catalogue: a shoe in two sizes, and tape in packs of two.
pub(super) fn examples() -> Vec<Offer> {
    let size = |spec_id: &str, sku_id, name: &str, stock| Spec {
        spec_id: spec_id.into(),
        sku_id,
        name: name.into(),
        price_fen: 12_800,
        stock,
    };
    let shoe = Offer {
        offer_id: "610947572360".into(),
        title: "小白鞋".into(),
        seller: seller(),
        status: published(),
        min_order_quantity: 1,
        batch_number: 1,
        price_fen: 0,
        stock: 0,
        specs: vec![
            size("b266e0726506185beaf205cbae88530d", 4_367_241_539_811, "42", 40),
            size("2ba3d63866a71fbae83909d9b4814f01", 4_367_241_539_812, "43", 25),
        ],
    };
    let tape = Offer {
        offer_id: "554456348334".into(),
        title: "封箱胶带".into(),
        min_order_quantity: 2,
        batch_number: 2,
        price_fen: 990,
        stock: 500,
        specs: Vec::new(),
        ..shoe.clone()
    };
    vec![shoe, tape]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_can_be_sold() {
        let offers = examples();
        assert_eq!(validate(&offers), Ok(()));
        let items: Vec<Item> = offers.iter().flat_map(Offer::items).collect();
        assert_eq!(items.len(), 3);
        assert_eq!(items.iter().filter(|item| item.spec_id.is_none()).count(), 1);
    }

    #[test]
    fn what_the_wire_cannot_carry_is_refused() {
        let broken = |change: fn(&mut Vec<Offer>)| {
            let mut offers = examples();
            change(&mut offers);
            validate(&offers).unwrap_err()
        };
        assert!(broken(|o| o[0].offer_id = "x1".into()).contains("`x1`"));
        assert!(broken(|o| o[1].offer_id = "610947572360".into()).contains("twice"));
        assert!(broken(|o| o[0].specs[1].sku_id = 4_367_241_539_811).contains("sku_id"));
        assert!(broken(|o| o[0].stock = 1).contains("belong to them"));
        assert!(broken(|o| o[1].stock = -1).contains("negative"));
    }
}
