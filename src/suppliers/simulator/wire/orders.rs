//! `get.buyerView` and `getBuyerOrderList`: orders read back, as they were `lag` ago.
//!
//! Money is decimal yuan, but `discount`, `refundPayment` and `entryDiscount` are fen. `success` of
//! the view is text; the list has none. Ids are numbers with text twins, but `idOfStr` of the list
//! is a bare number, as the platform's sample shows it. The list has no logistics.

use serde_json::{Map, Value, json};

use super::{number, plain_time, read_time, refusal, stamp, yuan};
use crate::clock::{Span, Timestamp};
use crate::suppliers::simulator::api::Api;
use crate::suppliers::simulator::order::{Order, Status};
use crate::suppliers::simulator::settings::{ReferenceIn, Trade};
use crate::suppliers::simulator::shop::Shop;
use crate::suppliers::simulator::transport::Call;

const DEFAULT_PAGE_SIZE: usize = 20;
const MAX_PAGE_SIZE: usize = 50;
/// A list without dates goes back this far.
const RECENT: Span = Span::days(90);

/// One order by its id.
pub fn view(shop: &Shop, trade: &Trade, call: &Call, seen: Timestamp) -> Value {
    let id: u64 = call.param("orderId").and_then(|text| text.parse().ok()).unwrap_or(0);
    let Some(order) = shop.order(id).filter(|order| order.created_at <= seen) else {
        return refusal(Api::View, "ORDER_NOT_EXIST", "订单不存在");
    };
    let order = order.as_of(seen);
    let mut info = trade_info(&order, trade, Value::String(order.id.to_string()));
    let fields = call.param("includeFields").unwrap_or("NativeLogistics");
    if fields.split(',').any(|field| field == "NativeLogistics") {
        info.insert("nativeLogistics".into(), super::logistics::native(&order));
    }
    json!({ "success": "true", "result": info })
}

/// A page of orders, newest first.
pub fn list(shop: &Shop, trade: &Trade, call: &Call, seen: Timestamp) -> Value {
    let page = count(call, "page").unwrap_or(1).max(1);
    let size = count(call, "pageSize").unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE);
    let matching: Vec<Order> = shop
        .orders()
        .rev()
        .filter(|order| order.created_at <= seen && has_reference(order, trade, call))
        .map(|order| order.as_of(seen))
        .filter(|order| wanted(order, call, seen))
        .collect();
    let skip = size.saturating_mul(page - 1);
    let result: Vec<Value> = matching
        .iter()
        .skip(skip)
        .take(size)
        .map(|order| trade_info(order, trade, order.id.into()).into())
        .collect();
    json!({ "result": result, "totalRecord": matching.len() })
}

fn count(call: &Call, name: &str) -> Option<usize> {
    call.param(name).and_then(|text| text.parse().ok())
}

fn has_reference(order: &Order, trade: &Trade, call: &Call) -> bool {
    let wanted = call.param("outOrderId").filter(|_| !trade.list_ignores_reference);
    wanted.is_none_or(|wanted| order.reference.as_deref() == Some(wanted))
}

fn wanted(order: &Order, call: &Call, seen: Timestamp) -> bool {
    let after = |name: &str, at: Timestamp| {
        call.param(name).and_then(read_time).is_none_or(|from| at >= from)
    };
    let before = |name: &str, at: Timestamp| {
        call.param(name).and_then(read_time).is_none_or(|until| at <= until)
    };
    let (created, modified) = (order.created_at, order.modified_at());
    let dates = after("createStartTime", created)
        && before("createEndTime", created)
        && after("modifyStartTime", modified)
        && before("modifyEndTime", modified);
    let old = seen.since(created) > RECENT;
    let age = old == (call.param("isHis") == Some("true"));
    let status = call.param("orderStatus").is_none_or(|status| status == order.status().wire());
    dates && age && status
}

fn trade_info(order: &Order, trade: &Trade, id_of_str: Value) -> Map<String, Value> {
    let mut info = Map::new();
    info.insert("baseInfo".into(), base_info(order, trade, id_of_str));
    let items = (0..order.lines.len()).map(|index| item(order, trade, index)).collect();
    info.insert("productItems".into(), Value::Array(items));
    info.insert("tradeTerms".into(), json!([terms(order)]));
    if let (ReferenceIn::ExtAttributes, Some(reference)) =
        (trade.reference_shown_in, &order.reference)
    {
        let attribute = json!({ "key": "outOrderId", "value": reference, "description": "" });
        info.insert("extAttributes".into(), json!([attribute]));
    }
    info
}

fn base_info(order: &Order, trade: &Trade, id_of_str: Value) -> Value {
    let closed_paid = order.closed.is_some() && order.paid_at.is_some();
    let refund = if closed_paid { order.total_fen() } else { 0 };
    let mut base = json!({
        "id": order.id,
        "idOfStr": id_of_str,
        "status": order.status().wire(),
        "totalAmount": yuan(order.total_fen()),
        "sumProductPayment": yuan(order.goods_fen()),
        "shippingFee": yuan(order.post_fee_fen),
        "couponFee": yuan(0),
        "refund": yuan(refund),
        "discount": 0,
        "refundPayment": refund,
        "createTime": stamp(order.created_at),
        "modifyTime": stamp(order.modified_at()),
        "buyerID": "b2b-665170100",
        "sellerID": order.seller,
        "buyerLoginId": "stockhold",
        "sellerLoginId": order.seller,
        "businessType": "cn",
        "tradeType": "50060",
        "buyerFeedback": order.message,
        "receiverInfo": receiver(&order.address),
    });
    let Some(fields) = base.as_object_mut() else {
        return base;
    };
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let time = |at: Option<Timestamp>| at.map(|at| stamp(at).into());
    put("payTime", time(order.paid_at));
    put("allDeliveredTime", time(order.shipped_at));
    put("receivingTime", time(order.received_at));
    put("confirmedTime", time(order.received_at));
    let closed_at = order.closed.as_ref().map(|closing| closing.at);
    put("completeTime", time(order.completed_at.or(closed_at)));
    put("payTimeout", trade.unpaid_close_after.map(|wait| wait.as_secs().into()));
    put("closeOperateType", order.closed.as_ref().map(|closing| closing.by.wire().into()));
    put("closeReason", order.closed.as_ref().map(|closing| closing.reason.clone().into()));
    put("refundStatus", closed_paid.then(|| "refundsuccess".into()));
    if trade.reference_shown_in == ReferenceIn::BaseInfo {
        put("outOrderId", order.reference.clone().map(Value::from));
    }
    base
}

fn receiver(address: &Value) -> Value {
    let text = |name: &str| address.get(name).and_then(Value::as_str).unwrap_or_default();
    let area = [text("provinceText"), text("cityText"), text("areaText"), text("address")];
    json!({
        "toFullName": text("fullName"),
        "toMobile": text("mobile"),
        "toDivisionCode": text("districtCode"),
        "toArea": area.join(" "),
    })
}

fn item(order: &Order, trade: &Trade, index: usize) -> Value {
    let Some(line) = order.lines.get(index) else {
        return Value::Null;
    };
    let id = order.line_id(index);
    let mut item = json!({
        "subItemID": id,
        "subItemIDString": id.to_string(),
        "productID": number(&line.item.offer_id),
        "name": line.title,
        "quantity": line.quantity,
        "quantityFactor": 1,
        "price": yuan(line.price_fen),
        "itemAmount": yuan(line.amount_fen()),
        "refund": yuan(0),
        "sharePostage": yuan(0),
        "entryDiscount": 0,
        "unit": "件",
        "status": order.status().wire(),
        "statusStr": order.status().text(),
        "logisticsStatus": logistics_status(order.status()),
    });
    let Some(fields) = item.as_object_mut() else {
        return item;
    };
    if let Some(wait) = trade.unpaid_close_after {
        fields.insert("gmtPayExpireTime".into(), plain_time(order.created_at + wait).into());
    }
    if let Some(sku_id) = line.sku_id {
        fields.insert("skuID".into(), sku_id.into());
        fields.insert("specId".into(), line.item.spec_id.clone().into());
        fields.insert("skuInfos".into(), json!([{ "name": "尺码", "value": line.variant }]));
    }
    item
}

const fn logistics_status(status: Status) -> u8 {
    match status {
        Status::Unpaid | Status::Paid | Status::Closed => 1,
        Status::Shipped => 2,
        Status::Received | Status::Complete => 3,
    }
}

fn terms(order: &Order) -> Value {
    let status = match (order.paid_at, &order.closed) {
        (None, None) => "1",
        (None, Some(_)) => "8",
        (Some(_), None) => "2",
        (Some(_), Some(_)) => "4",
    };
    json!({
        "payStatus": status,
        "payWay": "1",
        "phasAmount": yuan(order.total_fen()),
        "phase": order.id,
        "payTime": order.paid_at.map(stamp),
    })
}
