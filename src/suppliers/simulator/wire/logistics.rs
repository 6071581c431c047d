//! Parcels and their way, the carriers, and the buyer's saved addresses.
//!
//! An order is one parcel. Not shipped yet is HTTP 200 with `success` false and `500_2` in the
//! parcels' call, and `404` in the trace's; the trace names no carrier.

use serde_json::{Value, json};

use super::{plain_time, refusal, stamp};
use crate::clock::Timestamp;
use crate::suppliers::simulator::api::Api;
use crate::suppliers::simulator::order::Order;
use crate::suppliers::simulator::shop::Shop;
use crate::suppliers::simulator::transport::Call;

/// Id, code and name.
const CARRIERS: [(u32, &str, &str); 3] =
    [(3, "ZTO", "中通快递(ZTO)"), (8, "SF", "顺丰速运"), (1, "STO", "申通快递")];

fn parcel_id(order: &Order) -> String {
    format!("LP{:014}", order.id % 100_000_000_000_000)
}

fn bill_number(order: &Order) -> String {
    format!("7{:012}", order.id % 1_000_000_000_000)
}

fn asked<'a>(shop: &'a Shop, call: &Call) -> Option<&'a Order> {
    call.param("orderId").and_then(|text| text.parse().ok()).and_then(|id| shop.order(id))
}

/// `nativeLogistics` of one order's view.
pub fn native(order: &Order) -> Value {
    let text = |name: &str| order.address.get(name).and_then(Value::as_str).unwrap_or_default();
    let (carrier_id, code, name) = CARRIERS[0];
    let parcel = |shipped_at: Timestamp| {
        json!({
            "id": order.id,
            "logisticsCode": parcel_id(order),
            "logisticsBillNo": bill_number(order),
            "logisticsCompanyId": carrier_id,
            "logisticsCompanyNo": code,
            "logisticsCompanyName": name,
            "status": "alreadysend",
            "subItemIds": line_ids(order),
            "deliveredTime": stamp(shipped_at),
            "type": "0",
        })
    };
    json!({
        "contactPerson": text("fullName"),
        "mobile": text("mobile"),
        "province": text("provinceText"),
        "city": text("cityText"),
        "area": text("areaText"),
        "address": text("address"),
        "zip": text("postCode"),
        "logisticsItems": order.shipped_at.map(parcel).into_iter().collect::<Vec<_>>(),
    })
}

fn line_ids(order: &Order) -> String {
    order.line_ids().iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// `getLogisticsInfos.buyerView`.
pub fn parcels(shop: &Shop, call: &Call) -> Value {
    let Some((order, shipped)) = asked(shop, call).and_then(|o| Some((o, o.shipped_at?))) else {
        return refusal(Api::Parcels, "500_2", "该订单没有物流信息");
    };
    let (carrier_id, code, name) = CARRIERS[0];
    let goods: Vec<Value> = order
        .lines
        .iter()
        .map(|line| {
            let quantity = line.quantity.to_string();
            json!({ "goodName": line.title, "quantity": quantity, "unit": "件" })
        })
        .collect();
    json!({ "success": true, "result": [{
        "logisticsId": parcel_id(order),
        "logisticsBillNo": bill_number(order),
        "orderEntryIds": line_ids(order),
        "status": if order.received_at.is_some() { "SIGN" } else { "TRANSPORT" },
        "logisticsCompanyId": carrier_id.to_string(),
        "logisticsCompanyNo": code,
        "logisticsCompanyName": name,
        "gmtSystemSend": stamp(shipped),
        "sendGoods": goods,
    }] })
}

/// `getLogisticsTraceInfo.buyerView`.
pub fn trace(shop: &Shop, call: &Call) -> Value {
    let Some(order) = asked(shop, call) else {
        return refusal(Api::Trace, "order.nopermission.buyer", "没有权限查看该订单");
    };
    let Some(shipped) = order.shipped_at else {
        return refusal(Api::Trace, "404", "该订单没有物流跟踪信息。");
    };
    let step = |at, remark| json!({ "acceptTime": plain_time(at), "remark": remark });
    let mut steps = vec![step(shipped, "【杭州市】 已揽收")];
    steps.extend(order.received_at.map(|at| step(at, "已签收")));
    json!({ "success": true, "logisticsTrace": [{
        "logisticsId": parcel_id(order),
        "logisticsBillNo": bill_number(order),
        "orderId": order.id,
        "logisticsSteps": steps,
    }] })
}

/// `OpQueryLogisticCompanyList`.
pub fn companies() -> Value {
    let carrier = |(id, code, name): (u32, &str, &str)| json!({ "id": id, "companyNo": code, "companyName": name });
    json!({ "success": true, "result": CARRIERS.map(carrier) })
}

/// `receiveAddress.get`.
pub fn addresses() -> Value {
    json!({ "success": true, "result": { "receiveAddressItems": [{
        "id": 1_688_001,
        "fullName": "张三",
        "mobilePhone": "13800138000",
        "phone": "0571-88888888",
        "post": "310000",
        "addressCode": "330106",
        "addressCodeText": "浙江省 杭州市 西湖区",
        "address": "文一西路 969 号",
        "townCode": "",
        "townName": "",
        "isDefault": true,
    }] } })
}
