//! What a purchase is asked with: address, goods, reference. The same text goes into the preview and
//! the create. Source: the official pages of both, and requests recorded from other clients.
//!
//! What must hold: an offer id is a JSON number with all its digits; the `specId` key is left out
//! where an item has none; what cannot be asked is refused here, before anything is sent.
//! Left out: invoices, promotions, payment channels.

use std::collections::HashSet;

use serde::Serialize;

use super::Params;
use super::answer::refused;
use crate::domain::supply::{Address, Fault, PurchaseItem, PurchaseRequest};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressParam<'a> {
    full_name: &'a str,
    mobile: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    post_code: &'a str,
    province_text: &'a str,
    city_text: &'a str,
    area_text: &'a str,
    address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cargo<'a> {
    offer_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec_id: Option<&'a str>,
    quantity: i64,
}

/// Form fields of a preview.
///
/// # Errors
/// As [`create_params`].
pub fn preview_params(purchase: &PurchaseRequest, flow: &str) -> Result<Params, Fault> {
    Ok(vec![
        ("flow", flow.to_owned()),
        ("addressParam", address_param(&purchase.deliver_to)?),
        ("cargoParamList", cargo_params(&purchase.items)?),
    ])
}

/// Form fields of a create; `outOrderId` carries our reference.
///
/// # Errors
/// [`Fault::Refused`], before anything is sent, when two lines name one item, an offer id is not a
/// number, a quantity is not positive, or there is no line.
pub fn create_params(purchase: &PurchaseRequest, flow: &str) -> Result<Params, Fault> {
    let mut params = preview_params(purchase, flow)?;
    params.push(("outOrderId", purchase.reference.clone()));
    Ok(params)
}

fn address_param(to: &Address) -> Result<String, Fault> {
    let param = AddressParam {
        full_name: &to.name,
        mobile: &to.phone,
        post_code: &to.postcode,
        province_text: &to.province,
        city_text: &to.city,
        area_text: &to.district,
        address: &to.address,
    };
    serde_json::to_string(&param).map_err(|e| refused("bad_address", e.to_string()))
}

fn cargo_params(items: &[PurchaseItem]) -> Result<String, Fault> {
    if items.is_empty() {
        return Err(refused("no_items", "a purchase without lines"));
    }
    let mut seen = HashSet::new();
    let mut cargo = Vec::with_capacity(items.len());
    for PurchaseItem { item, quantity } in items {
        if !seen.insert(item) {
            return Err(refused("duplicate_item", format!("{item:?} is on two lines")));
        }
        if *quantity <= 0 {
            return Err(refused("bad_quantity", format!("{quantity} of {item:?}")));
        }
        let offer_id = item.offer_id.parse::<u64>();
        let offer_id = offer_id.map_err(|e| refused("bad_offer_id", format!("{item:?}: {e}")))?;
        cargo.push(Cargo { offer_id, spec_id: item.spec_id.as_deref(), quantity: *quantity });
    }
    serde_json::to_string(&cargo).map_err(|e| refused("bad_cargo", e.to_string()))
}

/// A purchase of two lines, for the tests of this folder.
#[cfg(test)]
pub(crate) mod example {
    use crate::domain::supply::{Address, Item, PurchaseItem, PurchaseRequest};

    pub const RED: &str = "b266e0726506185beaf205cbae88530d";

    pub fn line(offer: &str, spec: Option<&str>, quantity: i64) -> PurchaseItem {
        let item = Item { offer_id: offer.into(), spec_id: spec.map(Into::into) };
        PurchaseItem { item, quantity }
    }

    pub fn purchase() -> PurchaseRequest {
        PurchaseRequest {
            reference: "so-1001".into(),
            items: vec![line("554456348334", Some(RED), 2), line("612345678901", None, 1)],
            deliver_to: Address {
                name: "张三".into(),
                phone: "15251667788".into(),
                country: "CN".into(),
                province: "浙江省".into(),
                city: "杭州市".into(),
                district: "滨江区".into(),
                address: "网商路699号".into(),
                postcode: String::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::example::{RED, line, purchase};
    use super::*;

    fn field(params: &Params, key: &str) -> Option<String> {
        params.iter().find(|(k, _)| *k == key).map(|(_, v)| v.clone())
    }

    #[test]
    fn a_create_is_asked_with_exact_ids_and_no_empty_spec() {
        let params = create_params(&purchase(), "general").expect("a purchase");
        assert_eq!(field(&params, "flow").as_deref(), Some("general"));
        assert_eq!(field(&params, "outOrderId").as_deref(), Some("so-1001"));
        assert_eq!(
            field(&params, "cargoParamList").as_deref(),
            Some(
                r#"[{"offerId":554456348334,"specId":"b266e0726506185beaf205cbae88530d","quantity":2},{"offerId":612345678901,"quantity":1}]"#
            )
        );
        // The text that the PHP client was seen to send.
        assert_eq!(
            field(&params, "addressParam").as_deref(),
            Some(
                r#"{"fullName":"张三","mobile":"15251667788","provinceText":"浙江省","cityText":"杭州市","areaText":"滨江区","address":"网商路699号"}"#
            )
        );
        assert_eq!(
            preview_params(&purchase(), "general").map(|p| field(&p, "outOrderId")),
            Ok(None)
        );
    }

    #[test]
    fn a_purchase_that_cannot_be_asked_is_refused_here() {
        let with = |items: Vec<PurchaseItem>| {
            let asked = PurchaseRequest { items, ..purchase() };
            match create_params(&asked, "general") {
                Err(Fault::Refused { code, .. }) => code,
                other => panic!("{other:?}"),
            }
        };
        let red = line("554456348334", Some(RED), 2);
        assert_eq!(with(vec![red.clone(), line("554456348334", Some(RED), 1)]), "duplicate_item");
        assert_eq!(with(vec![line("1", None, 1), line("1", None, 1)]), "duplicate_item");
        assert_eq!(with(vec![line("54x", None, 1)]), "bad_offer_id");
        assert_eq!(with(vec![line("1", None, 0)]), "bad_quantity");
        assert_eq!(with(vec![]), "no_items");
    }
}
