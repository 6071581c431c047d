//! `com.alibaba.fenxiao:alibaba.fenxiao.productInfo.get-1`: one offer, and what it lets us know of
//! the stock of one of its variants. Source: field models of the official PHP SDK and of go1688.
//!
//! What must hold: `amountOnSale` exists for a variant and for the whole offer, and the whole
//! offer's is never taken for a variant's. A figure that is absent, negative, fractional or absurd
//! is `Unknown`; only a whole answer that does not offer the item is `Missing`.

use serde::Deserialize;

use super::answer::{Verdict, read, unknown};
use super::scalar::Scalar;
use super::{OFFER, Params};
use crate::domain::supply::{Fault, Figure};

/// More units than this are not believed.
const ABSURD: i64 = 1_000_000_000_000;

/// The documented states in which an offer is not on sale.
const OFF_SALE: [&str; 11] = [
    "member expired",
    "auto expired",
    "expired",
    "member deleted",
    "modified",
    "new",
    "deleted",
    "TBD",
    "approved",
    "auditing",
    "untread",
];

/// Form fields that ask for one offer.
pub fn params(offer_id: &str) -> Params {
    vec![("offerId", offer_id.to_owned())]
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "productInfo")]
    product_info: Option<Offer>,
}

/// One offer as read.
#[derive(Debug, Deserialize)]
pub struct Offer {
    #[serde(rename = "productID")]
    product_id: Option<Scalar>,
    status: Option<Scalar>,
    #[serde(rename = "productSkuInfos")]
    product_sku_infos: Option<Vec<Variant>>,
    #[serde(rename = "skuInfos")]
    sku_infos: Option<Vec<Variant>>,
    #[serde(rename = "productSaleInfo")]
    product_sale_info: Option<Sale>,
    #[serde(rename = "saleInfo")]
    sale_info: Option<Sale>,
}

#[derive(Debug, Deserialize)]
struct Variant {
    #[serde(rename = "specId")]
    spec_id: Option<Scalar>,
    #[serde(rename = "amountOnSale")]
    amount_on_sale: Option<Scalar>,
}

#[derive(Debug, Deserialize)]
struct Sale {
    #[serde(rename = "amountOnSale")]
    amount_on_sale: Option<Scalar>,
}

/// Reads the answer to a question for `offer_id`.
///
/// # Errors
/// [`Fault::Unknown`] when the answer is unreadable, a failure, or about another offer.
pub fn answer(body: &[u8], offer_id: &str) -> Result<Offer, Fault> {
    let verdict = Verdict::read(body)?;
    if verdict.success == Some(false) {
        return Err(verdict.unknown("failed"));
    }
    let answer: Answer = read(body)?;
    let offer = answer.product_info.ok_or_else(|| verdict.unknown("no_product"))?;
    match offer.product_id.as_ref().map(|id| (id.id(), id)) {
        Some((Some(id), _)) if id != offer_id => {
            Err(unknown("other_offer", format!("asked {} for {offer_id}, got {id}", OFFER.name)))
        }
        Some((None, id)) => Err(unknown("unreadable", format!("productID {id:?}"))),
        _ => Ok(offer),
    }
}

impl Offer {
    /// What this answer says of the variant `spec_id`, or of the offer itself where the item has no
    /// variant.
    pub fn figure(&self, spec_id: Option<&str>) -> Figure {
        match self.status.as_ref().map(|s| s.text().unwrap_or_default()) {
            None => {}
            Some(status) if status == "published" => {}
            Some(status) if OFF_SALE.contains(&status.as_str()) => return Figure::Missing,
            Some(status) => {
                return Figure::Unknown(format!("offer status {status:?} is not known"));
            }
        }
        match (spec_id, self.variants()) {
            (Some(spec), Some(variants)) => variant_figure(spec, variants),
            (Some(_), None) => Figure::Unknown("the answer lists no variants".into()),
            (None, Some([_, ..])) => {
                Figure::Unknown("the offer has variants and the item names none".into())
            }
            (None, _) => {
                let sale = self.product_sale_info.as_ref().or(self.sale_info.as_ref());
                units(sale.and_then(|s| s.amount_on_sale.as_ref()))
            }
        }
    }

    fn variants(&self) -> Option<&[Variant]> {
        let lists = [&self.product_sku_infos, &self.sku_infos];
        let mut stated = lists.into_iter().flatten().map(Vec::as_slice);
        let first = stated.next()?;
        Some(if first.is_empty() { stated.next().unwrap_or(first) } else { first })
    }
}

fn variant_figure(spec_id: &str, variants: &[Variant]) -> Figure {
    let spec = |v: &Variant| v.spec_id.as_ref().and_then(Scalar::text);
    let mut named = variants.iter().filter(|v| spec(v).as_deref() == Some(spec_id));
    match (named.next(), named.next()) {
        (Some(variant), None) => units(variant.amount_on_sale.as_ref()),
        (Some(_), Some(_)) => Figure::Unknown("the variant is listed twice".into()),
        (None, _) if variants.iter().any(|v| spec(v).is_none()) => {
            Figure::Unknown("a listed variant has no specId".into())
        }
        (None, _) => Figure::Missing,
    }
}

fn units(amount: Option<&Scalar>) -> Figure {
    let Some(amount) = amount else {
        return Figure::Unknown("no amountOnSale".into());
    };
    match amount.whole() {
        Some(n @ 0..=ABSURD) => Figure::Listed(n),
        Some(n) => Figure::Unknown(format!("amountOnSale {n}")),
        None => Figure::Unknown(format!("amountOnSale {amount:?} is not a whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suppliers::alibaba1688::wire::fixture;

    const RED: &str = "b266e0726506185beaf205cbae88530d";
    const BLUE: &str = "0b2c1d8f7a6e5d4c3b2a190817263544";

    fn offer(json: &str) -> Offer {
        answer(json.as_bytes(), "554456348334").expect("an offer")
    }

    fn with_amount(amount: &str) -> Figure {
        offer(&format!(
            r#"{{"success":true,"productInfo":{{"status":"published","saleInfo":{{"amountOnSale":900}},
               "skuInfos":[{{"specId":"{RED}"{amount}}}]}}}}"#
        ))
        .figure(Some(RED))
    }

    #[test]
    fn a_variant_has_its_own_figure_and_not_the_offers() {
        let offer = answer(&fixture("offer.json"), "554456348334").expect("an offer");
        assert_eq!(offer.figure(Some(RED)), Figure::Listed(17));
        assert_eq!(offer.figure(Some(BLUE)), Figure::Listed(0));
        assert_eq!(offer.figure(Some("ffffffffffffffffffffffffffffffff")), Figure::Missing);
        assert!(matches!(offer.figure(None), Figure::Unknown(_)), "17 + 0 + 2983 is not ours");
    }

    #[test]
    fn both_spellings_of_the_lists_are_read() {
        let offer = answer(&fixture("offer-classic.json"), "554456348334").expect("an offer");
        assert_eq!(offer.figure(Some(RED)), Figure::Listed(17));
    }

    #[test]
    fn an_offer_without_variants_is_read_from_its_sale_info() {
        let plain = answer(&fixture("offer-plain.json"), "612345678901").expect("an offer");
        assert_eq!(plain.figure(None), Figure::Listed(12_345_678));
        assert_eq!(plain.figure(Some(RED)), Figure::Missing, "listed as having no variants");
        let half =
            offer(r#"{"productInfo":{"status":"published","saleInfo":{"amountOnSale":3.5}}}"#);
        assert!(matches!(half.figure(None), Figure::Unknown(_)));
        assert!(
            matches!(half.figure(Some(RED)), Figure::Unknown(_)),
            "no list is not an empty list"
        );
        let none = offer(r#"{"productInfo":{"status":"published"}}"#);
        assert!(matches!(none.figure(None), Figure::Unknown(_)));
    }

    #[test]
    fn a_figure_that_makes_no_sense_is_unknown() {
        assert_eq!(with_amount(r#","amountOnSale":5"#), Figure::Listed(5));
        assert_eq!(with_amount(r#","amountOnSale":"5""#), Figure::Listed(5));
        assert_eq!(with_amount(r#","amountOnSale":1000000000000"#), Figure::Listed(ABSURD));
        for bad in [
            "",
            r#","amountOnSale":null"#,
            r#","amountOnSale":-1"#,
            r#","amountOnSale":0.5"#,
            r#","amountOnSale":1000000000001"#,
            r#","amountOnSale":99999999999999999999"#,
            r#","amountOnSale":"many""#,
            r#","amountOnSale":"""#,
            r#","amountOnSale":true"#,
            r#","amountOnSale":{}"#,
        ] {
            assert!(matches!(with_amount(bad), Figure::Unknown(_)), "{bad}");
        }
    }

    #[test]
    fn an_offer_that_is_not_on_sale_is_missing_and_an_unknown_state_unknown() {
        let status = |s: &str| {
            offer(&format!(
                r#"{{"success":"true","productInfo":{{"status":{s},"skuInfos":[{{"specId":"{RED}",
                   "amountOnSale":5}}]}}}}"#
            ))
            .figure(Some(RED))
        };
        assert_eq!(status("\"published\""), Figure::Listed(5));
        for off in OFF_SALE {
            assert_eq!(status(&format!("{off:?}")), Figure::Missing, "{off}");
        }
        for odd in ["\"on holiday\"", "\"\"", "7", "{}"] {
            assert!(matches!(status(odd), Figure::Unknown(_)), "{odd}");
        }
        assert_eq!(status("null"), Figure::Listed(5), "not stated");
    }

    #[test]
    fn a_variant_is_missing_only_from_a_list_that_can_be_read() {
        let listed = |skus: &str| {
            offer(&format!(r#"{{"productInfo":{{"skuInfos":{skus}}}}}"#)).figure(Some(RED))
        };
        assert_eq!(listed("[]"), Figure::Missing);
        assert_eq!(listed(r#"[{"specId":"x","amountOnSale":1}]"#), Figure::Missing);
        let unnamed = listed(r#"[{"amountOnSale":1}]"#);
        assert!(matches!(unnamed, Figure::Unknown(_)));
        let row = format!(r#"{{"specId":"{RED}","amountOnSale":1}}"#);
        assert!(matches!(listed(&format!("[{row},{row}]")), Figure::Unknown(_)));
    }

    #[test]
    fn a_failure_or_another_offer_is_no_answer() {
        for (json, want) in [
            (r#"{"success":false,"errorCode":"500","errorMsg":"busy"}"#, "500"),
            (r#"{"success":"false"}"#, "failed"),
            (r#"{"errMsg":"inventory service 0 nodes available"}"#, "no_product"),
            (r#"{"success":true}"#, "no_product"),
            (r#"{"success":true,"productInfo":{"productID":1}}"#, "other_offer"),
            (r#"{"success":true,"productInfo":{"productID":5.5e11}}"#, "unreadable"),
            (r#"{"success":true,"productInfo":"#, "unreadable"),
        ] {
            match answer(json.as_bytes(), "554456348334") {
                Err(Fault::Unknown { code, .. }) => assert_eq!(code, want, "{json}"),
                other => panic!("{json}: {other:?}"),
            }
        }
    }
}
