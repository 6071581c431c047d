//! A basket and the judgement on it, the same for preview and create, by the platform's codes.
//!
//! What must hold: a basket that passes names published offers of one seller, each item once, in
//! quantities that the seller takes. Shortage is told line by line and apart, because preview,
//! create and its settings answer it differently.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::offers::Offer;
use super::order::Line;
use crate::domain::supply::Item;

/// The most lines of one order.
pub const MAX_LINES: usize = 50;

/// What somebody wants to order.
#[derive(Clone, Debug, PartialEq)]
pub struct Basket {
    pub lines: Vec<(Item, i64)>,
    pub reference: Option<String>,
    pub message: String,
    /// `addressParam` as it was sent.
    pub address: Value,
}

/// A business error: 1688's code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }
}

/// A basket that can be ordered but for its short lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub seller: String,
    /// Lines whose goods are there.
    pub good: Vec<Line>,
    /// Lines whose goods are not.
    pub short: Vec<(Line, Refusal)>,
}

/// Judges `basket` against `offers` and a stock that is true or late.
///
/// # Errors
/// The first rule that the basket breaks, shortage excepted.
pub fn judge(
    basket: &Basket,
    offers: &BTreeMap<String, Offer>,
    stock: impl Fn(&Item) -> i64,
) -> Result<Judgement, Refusal> {
    if basket.lines.is_empty() || basket.lines.len() > MAX_LINES {
        return Err(Refusal::new("400", "cargoParamList has no line, or more than 50"));
    }
    let distinct: BTreeSet<&Item> = basket.lines.iter().map(|(item, _)| item).collect();
    if distinct.len() != basket.lines.len() {
        return Err(Refusal::new("400", "同一商品规格重复，请合并数量后下单"));
    }
    let mut judgement = Judgement { seller: String::new(), good: Vec::new(), short: Vec::new() };
    let mut ordered: BTreeMap<&str, i64> = BTreeMap::new();
    for (item, quantity) in &basket.lines {
        let (offer, line) = price(item, *quantity, offers)?;
        if judgement.seller.is_empty() {
            judgement.seller.clone_from(&offer.seller);
        } else if judgement.seller != offer.seller {
            return Err(Refusal::new("500_002", "不同供应商的商品不能一起下单"));
        }
        let sum = ordered.entry(&offer.offer_id).or_default();
        *sum = sum.saturating_add(*quantity);
        if stock(item) >= *quantity {
            judgement.good.push(line);
        } else {
            judgement.short.push((line, shortage(item)));
        }
    }
    for (id, sum) in ordered {
        let least = offers.get(id).map_or(1, |offer| offer.min_order_quantity);
        if sum < least {
            let message = format!("商品[{id}]不满足起批量{least}");
            return Err(Refusal::new("500_005", message));
        }
    }
    Ok(judgement)
}

/// The platform's sentence for goods that are not there.
pub fn shortage(item: &Item) -> Refusal {
    let spec = item.spec_id.as_deref().unwrap_or("null");
    let message = format!("商品[{}_{spec}]库存不足，请核实库存后订购。", item.offer_id);
    Refusal::new("500_004", message)
}

fn price<'a>(
    item: &Item,
    quantity: i64,
    offers: &'a BTreeMap<String, Offer>,
) -> Result<(&'a Offer, Line), Refusal> {
    let id = &item.offer_id;
    let offer = offers
        .get(id)
        .filter(|offer| offer.is_published())
        .ok_or_else(|| Refusal::new("500_001", format!("商品[{id}]不支持在线交易")))?;
    let spec =
        match item.spec_id.as_deref() {
            None if !offer.specs.is_empty() => {
                return Err(Refusal::new("500_002", format!("商品[{id}]缺少specId")));
            }
            None => None,
            Some(spec_id) => Some(offer.spec(spec_id).ok_or_else(|| {
                Refusal::new("500_003", format!("规格[{spec_id}]不属于商品[{id}]"))
            })?),
        };
    if quantity < 1 {
        return Err(Refusal::new("400", "quantity must be a whole number above 0"));
    }
    if quantity % offer.batch_number != 0 {
        let message = format!("商品[{id}]须按{}的倍数订购", offer.batch_number);
        return Err(Refusal::new("500_009", message));
    }
    let price_fen = spec.map_or(offer.price_fen, |spec| spec.price_fen);
    if price_fen == 0 {
        return Err(Refusal::new("500_008", format!("商品[{id}]价格为0")));
    }
    let line = Line {
        item: item.clone(),
        sku_id: spec.map(|spec| spec.sku_id),
        title: offer.title.clone(),
        variant: spec.map(|spec| spec.name.clone()).unwrap_or_default(),
        quantity,
        price_fen,
    };
    Ok((offer, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suppliers::simulator::offers;

    const SHOE: &str = "610947572360";
    const TAPE: &str = "554456348334";
    const SIZE_42: &str = "b266e0726506185beaf205cbae88530d";
    const SIZE_43: &str = "2ba3d63866a71fbae83909d9b4814f01";

    fn item(offer: &str, spec: Option<&str>) -> Item {
        Item { offer_id: offer.into(), spec_id: spec.map(Into::into) }
    }

    fn judged(lines: &[(Item, i64)]) -> Result<Judgement, String> {
        let mut offers: BTreeMap<String, Offer> =
            offers::examples().into_iter().map(|o| (o.offer_id.clone(), o)).collect();
        let other = Offer { offer_id: "7".into(), seller: "b2b-9".into(), ..offers[TAPE].clone() };
        let gone = Offer { offer_id: "8".into(), status: "expired".into(), ..other.clone() };
        let free = Offer { offer_id: "9".into(), price_fen: 0, ..offers[TAPE].clone() };
        offers.extend([other, gone, free].map(|o| (o.offer_id.clone(), o)));
        let basket = Basket {
            lines: lines.to_vec(),
            reference: None,
            message: String::new(),
            address: Value::Null,
        };
        judge(&basket, &offers, |_| 10).map_err(|refusal| refusal.code.to_owned())
    }

    #[test]
    fn a_good_basket_is_priced() {
        let judgement = judged(&[(item(SHOE, Some(SIZE_42)), 2), (item(TAPE, None), 4)]).unwrap();
        let amounts: Vec<i64> = judgement.good.iter().map(Line::amount_fen).collect();
        assert_eq!(amounts, [25_600, 3_960]);
        assert_eq!(judgement.good[0].sku_id, Some(4_367_241_539_811));
        assert!(judgement.short.is_empty());
    }

    #[test]
    fn each_broken_rule_has_its_code() {
        let code = |lines: &[(Item, i64)]| judged(lines).unwrap_err();
        assert_eq!(code(&[]), "400");
        assert_eq!(code(&[(item(TAPE, None), 2), (item(TAPE, None), 2)]), "400");
        assert_eq!(code(&[(item(TAPE, None), 0)]), "400");
        assert_eq!(code(&[(item("404", None), 1)]), "500_001");
        assert_eq!(code(&[(item("8", None), 2)]), "500_001");
        assert_eq!(code(&[(item(SHOE, None), 1)]), "500_002");
        assert_eq!(code(&[(item(TAPE, None), 2), (item("7", None), 2)]), "500_002");
        assert_eq!(code(&[(item(SHOE, Some("x")), 1)]), "500_003");
        assert_eq!(code(&[(item(TAPE, Some(SIZE_42)), 2)]), "500_003");
        assert_eq!(code(&[(item("9", None), 2)]), "500_008");
        assert_eq!(code(&[(item(TAPE, None), 3)]), "500_009");
    }

    #[test]
    fn the_least_quantity_is_of_the_whole_offer() {
        let mut offers: BTreeMap<String, Offer> =
            offers::examples().into_iter().map(|o| (o.offer_id.clone(), o)).collect();
        offers.get_mut(SHOE).unwrap().min_order_quantity = 3;
        let judged = |lines: Vec<(Item, i64)>| {
            let address = Value::Null;
            let basket = Basket { lines, reference: None, message: String::new(), address };
            judge(&basket, &offers, |_| 10).map_err(|refusal| refusal.code)
        };
        let (small, large) = (item(SHOE, Some(SIZE_42)), item(SHOE, Some(SIZE_43)));
        assert_eq!(judged(vec![(small.clone(), 2)]), Err("500_005"));
        assert!(judged(vec![(small, 2), (large, 1)]).is_ok());
    }

    #[test]
    fn shortage_is_told_by_line() {
        let judgement =
            judged(&[(item(SHOE, Some(SIZE_42)), 11), (item(SHOE, Some(SIZE_43)), 10)]).unwrap();
        assert_eq!(judgement.good.len(), 1);
        let (line, refusal) = &judgement.short[0];
        assert_eq!((line.quantity, refusal.code), (11, "500_004"));
        let text =
            "商品[610947572360_b266e0726506185beaf205cbae88530d]库存不足，请核实库存后订购。";
        assert_eq!(refusal.message, text);
    }
}
