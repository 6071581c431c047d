//! An order as read back: `alibaba.trade.get.buyerView-1`, and the model that the list of orders
//! shares with it. Source: the official pages.
//!
//! What must hold: the id is `idOfStr` where it is stated (in the platform's own sample the number
//! `id` was damaged by a float); yuan become fen exactly or are left out; a status that is not
//! documented is [`UpstreamState::Other`]. Left out: refunds, invoices, the steps of a parcel.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Params;
use super::answer::{Verdict, read, unknown};
use super::scalar::{Scalar, text};
use crate::domain::supply::{Fault, Item, Parcel, PurchaseItem, UpstreamOrder, UpstreamState};

/// Form fields that ask for one order by the platform's id.
pub fn params(supplier_order_id: &str) -> Params {
    let mut params = view();
    params.push(("orderId", supplier_order_id.to_owned()));
    params
}

/// Form fields that ask for one order by our reference.
pub fn reference_params(reference: &str) -> Params {
    let mut params = view();
    params.push(("outOrderId", reference.to_owned()));
    params
}

fn view() -> Params {
    vec![("webSite", "1688".to_owned()), ("includeFields", "NativeLogistics".to_owned())]
}

#[derive(Deserialize)]
struct ViewAnswer {
    result: Option<Trade>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trade {
    pub(super) base_info: Option<Base>,
    product_items: Option<Vec<Line>>,
    #[serde(default, deserialize_with = "lenient")]
    native_logistics: Option<Logistics>,
    #[serde(default, deserialize_with = "lenient")]
    ext_attributes: Option<Attributes>,
    #[serde(default, deserialize_with = "lenient")]
    ex_attributes: Option<Attributes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Base {
    id: Option<Scalar>,
    id_of_str: Option<Scalar>,
    status: Option<Scalar>,
    total_amount: Option<Scalar>,
    pub(super) create_time: Option<Scalar>,
    pay_time: Option<Scalar>,
    close_reason: Option<Scalar>,
    close_operate_type: Option<Scalar>,
    out_order_id: Option<Scalar>,
    #[serde(default, deserialize_with = "lenient")]
    ext_attributes: Option<Attributes>,
    #[serde(default, deserialize_with = "lenient")]
    ex_attributes: Option<Attributes>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "productID")]
    product_id: Option<Scalar>,
    #[serde(rename = "specId")]
    spec_id: Option<Scalar>,
    quantity: Option<Scalar>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logistics {
    logistics_items: Option<Vec<Shipment>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shipment {
    logistics_bill_no: Option<Scalar>,
    logistics_company_name: Option<Scalar>,
    logistics_company_no: Option<Scalar>,
}

/// Additional attributes come as a list of pairs or as an object.
struct Attributes(HashMap<String, Scalar>);

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Attributes, D::Error> {
        #[derive(Deserialize)]
        struct Pair {
            key: String,
            value: Option<Scalar>,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let pairs = serde_json::from_str::<Vec<Pair>>(raw.get())
            .map(|list| list.into_iter().filter_map(|p| Some((p.key, p.value?))).collect());
        pairs
            .or_else(|_| serde_json::from_str(raw.get()))
            .map(Attributes)
            .map_err(serde::de::Error::custom)
    }
}

/// A part whose shape varies (`[]` for an empty object has been seen) and that decides nothing.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> Deserialize<'a>,
{
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Reads one order and makes sure that it is `asked`.
///
/// # Errors
/// [`Fault::Unknown`] for everything that is not that order, whole.
pub fn order(body: &[u8], asked: &str) -> Result<UpstreamOrder, Fault> {
    let verdict = Verdict::read(body)?;
    if verdict.success == Some(false) {
        return Err(verdict.unknown("failed"));
    }
    let trade = read::<ViewAnswer>(body)?.result.ok_or_else(|| verdict.unknown("no_order"))?;
    let order = upstream(&trade)?;
    if order.supplier_order_id != asked {
        let got = &order.supplier_order_id;
        return Err(unknown("other_order", format!("asked for {asked}, got {got}")));
    }
    Ok(order)
}

/// Reads the answer to a question by our reference: nothing where the platform gives no order (its
/// words for *not found* are not known, so that is evidence of nothing).
///
/// # Errors
/// [`Fault::Unknown`] when there is an order and it cannot be read.
pub fn order_by_reference(body: &[u8]) -> Result<Option<UpstreamOrder>, Fault> {
    if Verdict::read(body)?.success == Some(false) {
        return Ok(None);
    }
    read::<ViewAnswer>(body)?.result.as_ref().map(upstream).transpose()
}

fn upstream(trade: &Trade) -> Result<UpstreamOrder, Fault> {
    let base = trade.base_info.as_ref().ok_or_else(|| unknown("unreadable", "no baseInfo"))?;
    let items = trade.product_items.iter().flatten().map(purchase_item);
    let shipments = trade.native_logistics.iter().flat_map(|l| &l.logistics_items).flatten();
    Ok(UpstreamOrder {
        supplier_order_id: id(base)?,
        reference: reference(trade),
        state: state(base)?,
        items: items.collect::<Result<_, Fault>>()?,
        total: base.total_amount.as_ref().and_then(Scalar::yuan_as_fen),
        close_reason: text(&base.close_reason).or_else(|| text(&base.close_operate_type)),
        parcels: shipments.filter_map(parcel).collect(),
    })
}

pub(super) fn id(base: &Base) -> Result<String, Fault> {
    let exact = base.id_of_str.as_ref().filter(|id| !id.is_blank()).or(base.id.as_ref());
    let exact = exact.and_then(Scalar::id);
    exact.ok_or_else(|| unknown("unreadable", format!("id {:?} {:?}", base.id_of_str, base.id)))
}

/// `baseInfo.outOrderId`, or the attribute of that name where the answer has it.
pub(super) fn reference(trade: &Trade) -> Option<String> {
    let base = trade.base_info.as_ref();
    let own = base.and_then(|b| text(&b.out_order_id));
    let attributes = [
        &trade.ext_attributes,
        &trade.ex_attributes,
        base.map_or(&None, |b| &b.ext_attributes),
        base.map_or(&None, |b| &b.ex_attributes),
    ];
    own.or_else(|| attributes.into_iter().flatten().find_map(|a| a.0.get("outOrderId")?.text()))
}

/// `cancel` and `terminated` are told apart by who closed the order and whether it was ever paid.
///
/// A seller's or the platform's (`BOPS`) closing is the seller's, paid or not. One by buyer or
/// system is *unpaid* only while no payment is recorded: a paid order that ends this way ended in a
/// refund, and the goods are not to be had there again by simply asking once more. An unknown or
/// absent closer is read by the same rule, the payment being the only fact there is.
fn state(base: &Base) -> Result<UpstreamState, Fault> {
    let status = text(&base.status).ok_or_else(|| unknown("unreadable", "no status"))?;
    let paid = text(&base.pay_time).is_some();
    Ok(match status.as_str() {
        "waitbuyerpay" => UpstreamState::AwaitingPayment,
        "waitsellersend" => UpstreamState::Paid,
        "waitbuyerreceive" => UpstreamState::Shipped,
        "confirm_goods" | "success" => UpstreamState::Received,
        "cancel" | "terminated" => match text(&base.close_operate_type).as_deref() {
            Some("CLOSE_TRADE_BY_SELLER" | "CLOSE_TRADE_BY_BOPS") => UpstreamState::ClosedBySeller,
            _ if paid => UpstreamState::ClosedBySeller,
            _ => UpstreamState::ClosedUnpaid,
        },
        _ => UpstreamState::Other,
    })
}

fn purchase_item(line: &Line) -> Result<PurchaseItem, Fault> {
    let offer_id = line.product_id.as_ref().and_then(Scalar::id);
    let quantity = line.quantity.as_ref().and_then(Scalar::whole).filter(|n| *n >= 0);
    match (offer_id, quantity) {
        (Some(offer_id), Some(quantity)) => {
            Ok(PurchaseItem { item: Item { offer_id, spec_id: text(&line.spec_id) }, quantity })
        }
        _ => Err(unknown("unreadable", format!("line {:?} {:?}", line.product_id, line.quantity))),
    }
}

fn parcel(shipment: &Shipment) -> Option<Parcel> {
    let carrier = text(&shipment.logistics_company_name);
    Some(Parcel {
        tracking_number: text(&shipment.logistics_bill_no)?,
        carrier: carrier.or_else(|| text(&shipment.logistics_company_no)).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suppliers::alibaba1688::wire::fixture;

    const ID: &str = "3657499272179232333";

    fn closed(status: &str, closer: &str, pay_time: &str) -> UpstreamState {
        let json = format!(
            r#"{{"success":true,"result":{{"baseInfo":{{"id":{ID},"status":"{status}",
               "closeOperateType":{closer},"payTime":{pay_time}}}}}}}"#
        );
        order(json.as_bytes(), ID).expect("an order").state
    }

    fn unknown_code<T: std::fmt::Debug>(got: Result<T, Fault>) -> String {
        match got {
            Err(Fault::Unknown { code, .. }) => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_shipped_order_is_read_exactly() {
        let item = Item {
            offer_id: "554456348334".into(),
            spec_id: Some("b266e0726506185beaf205cbae88530d".into()),
        };
        let want = UpstreamOrder {
            supplier_order_id: ID.into(),
            reference: Some("so-1001".into()),
            state: UpstreamState::Shipped,
            items: vec![PurchaseItem { item, quantity: 2 }],
            total: Some(4410),
            close_reason: None,
            parcels: vec![Parcel {
                carrier: "圆通速递".into(),
                tracking_number: "YT2817654321009".into(),
            }],
        };
        assert_eq!(order(&fixture("order.json"), ID), Ok(want.clone()));
        assert_eq!(order_by_reference(&fixture("order.json")), Ok(Some(want)));
        let other = order(&fixture("order.json"), "3657499272179232000");
        assert_eq!(unknown_code(other), "other_order");
    }

    #[test]
    fn every_documented_status_has_its_state() {
        for (status, state) in [
            ("waitbuyerpay", UpstreamState::AwaitingPayment),
            ("waitsellersend", UpstreamState::Paid),
            ("waitbuyerreceive", UpstreamState::Shipped),
            ("confirm_goods", UpstreamState::Received),
            ("success", UpstreamState::Received),
            ("signinsuccess", UpstreamState::Other),
            ("CANCEL", UpstreamState::Other),
        ] {
            assert_eq!(closed(status, "null", "null"), state, "{status}");
        }
    }

    #[test]
    fn a_closed_order_is_told_apart_by_closer_and_payment() {
        const PAID: &str = "\"20180614102011000+0800\"";
        for status in ["cancel", "terminated"] {
            for (closer, unpaid, paid) in [
                (
                    "\"CLOSE_TRADE_BY_SELLER\"",
                    UpstreamState::ClosedBySeller,
                    UpstreamState::ClosedBySeller,
                ),
                (
                    "\"CLOSE_TRADE_BY_BOPS\"",
                    UpstreamState::ClosedBySeller,
                    UpstreamState::ClosedBySeller,
                ),
                (
                    "\"CLOSE_TRADE_BY_BUYER\"",
                    UpstreamState::ClosedUnpaid,
                    UpstreamState::ClosedBySeller,
                ),
                (
                    "\"CLOSE_TRADE_BY_SYSTEM\"",
                    UpstreamState::ClosedUnpaid,
                    UpstreamState::ClosedBySeller,
                ),
                (
                    "\"CLOSE_TRADE_BY_CREADIT\"",
                    UpstreamState::ClosedUnpaid,
                    UpstreamState::ClosedBySeller,
                ),
                ("null", UpstreamState::ClosedUnpaid, UpstreamState::ClosedBySeller),
            ] {
                assert_eq!(closed(status, closer, "null"), unpaid, "{status} {closer}");
                assert_eq!(closed(status, closer, "\"\""), unpaid, "{status} {closer}");
                assert_eq!(closed(status, closer, PAID), paid, "{status} {closer} paid");
            }
        }
    }

    #[test]
    fn an_order_that_cannot_be_read_whole_is_unknown() {
        for (json, code) in [
            (r#"{"success":false,"errorCode":"404","errorMessage":"x"}"#, "404"),
            (r#"{"success":"false"}"#, "failed"),
            (r#"{"success":true}"#, "no_order"),
            (r#"{"success":true,"result":{}}"#, "unreadable"),
            (r#"{"result":{"baseInfo":{"id":3657499272179232333}}}"#, "unreadable"),
            (r#"{"result":{"baseInfo":{"id":3.65e18,"status":"success"}}}"#, "unreadable"),
            (
                r#"{"result":{"baseInfo":{"id":3657499272179232333,"status":"success"},
                    "productItems":[{"productID":1,"quantity":1.5}]}}"#,
                "unreadable",
            ),
            (r#"{"result":{"baseInfo":{"id":365"#, "unreadable"),
        ] {
            assert_eq!(unknown_code(order(json.as_bytes(), ID)), code, "{json}");
        }
        let odd_money = r#"{"result":{"nativeLogistics":[],"baseInfo":{"id":3657499272179232333,
            "idOfStr":"","status":"success","totalAmount":36.300000000000004}}}"#;
        let order = order(odd_money.as_bytes(), ID).expect("an order");
        assert_eq!((order.total, order.parcels), (None, vec![]));
    }

    #[test]
    fn no_order_under_a_reference_is_no_error() {
        for json in [
            r#"{"success":false,"errorCode":"500","errorMessage":"order not found"}"#,
            r#"{"success":"true","result":null}"#,
            "{}",
        ] {
            assert_eq!(order_by_reference(json.as_bytes()), Ok(None), "{json}");
        }
        assert_eq!(unknown_code(order_by_reference(b"{\"result\":{}}")), "unreadable");
    }
}
