//! `createOrder.preview`, `fastCreateOrder`, `cancel` and `preparePay`: what has an effect, and the
//! question before it.
//!
//! Totals are integer fen; a preview's lines are Doubles in yuan and carry no quantity; a created
//! order's id is text. `orderPreviewResuslt` is the wire's spelling.

use serde_json::{Value, json};

use super::{number, refusal, yuan};
use crate::clock::Timestamp;
use crate::domain::supply::Item;
use crate::suppliers::simulator::api::Api;
use crate::suppliers::simulator::basket::{Basket, Judgement, Refusal};
use crate::suppliers::simulator::order::Line;
use crate::suppliers::simulator::shop::{NotPlaced, Placed, Shop, Wrong};
use crate::suppliers::simulator::transport::Call;

const MAX_ADDRESS_CHARS: usize = 200;
const MAX_MESSAGE_CHARS: usize = 500;
const FLOWS: [&str; 9] = [
    "general",
    "fenxiao",
    "saleproxy",
    "paired",
    "repurchase",
    "boutiquefenxiao",
    "boutiquepifa",
    "proxy",
    "fenxiaonew",
];

/// Reads what preview and create have in common.
///
/// # Errors
/// When a parameter is not what the platform takes.
pub fn basket(call: &Call) -> Result<Basket, Refusal> {
    let bad = |message: String| Refusal::new("400", message);
    let flow = call.param("flow").unwrap_or("general");
    if !FLOWS.contains(&flow) {
        return Err(bad(format!("not support flow:【{flow}】")));
    }
    let message = call.param("message").unwrap_or_default();
    if message.chars().count() > MAX_MESSAGE_CHARS {
        return Err(bad("message is longer than 500".into()));
    }
    let address = json_param(call, "addressParam")?;
    check_address(&address)?;
    let cargo = json_param(call, "cargoParamList")?;
    let cargo = cargo.as_array().ok_or_else(|| bad("cargoParamList is not an array".into()))?;
    let lines = cargo
        .iter()
        .map(|line| cargo_line(line).ok_or_else(|| bad(format!("not a line of cargo: {line}"))))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Basket {
        lines,
        reference: call.param("outOrderId").map(ToOwned::to_owned),
        message: message.to_owned(),
        address,
    })
}

fn json_param(call: &Call, name: &str) -> Result<Value, Refusal> {
    let text = call.param(name).unwrap_or_default();
    serde_json::from_str(text).map_err(|_| Refusal::new("400", format!("{name} is not JSON")))
}

/// By id, else by division code and address, else by the texts; an address has at most 200
/// characters.
fn check_address(address: &Value) -> Result<(), Refusal> {
    let has = |name: &str| match address.get(name) {
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Number(_)) => true,
        _ => false,
    };
    let detail = address.get("address").and_then(Value::as_str).unwrap_or_default();
    if detail.chars().count() > MAX_ADDRESS_CHARS {
        return Err(Refusal::new("400", "address is longer than 200"));
    }
    let by_text = has("provinceText") && has("cityText");
    let person = has("fullName") && (has("mobile") || has("phone"));
    if has("addressId") || (person && has("address") && (has("districtCode") || by_text)) {
        return Ok(());
    }
    Err(Refusal::new("400", "AddressId invalid:AddressId invalid"))
}

fn cargo_line(line: &Value) -> Option<(Item, i64)> {
    let offer_id = match line.get("offerId")? {
        Value::Number(id) => id.to_string(),
        Value::String(id) => id.clone(),
        _ => return None,
    };
    let spec_id = match line.get("specId") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.clone()).filter(|id| !id.is_empty()),
        Some(_) => return None,
    };
    Some((Item { offer_id, spec_id }, whole(line.get("quantity")?)?))
}

/// A quantity is a Double on the wire: 2, 2.0 and "2" are two units, 2.5 is none.
fn whole(value: &Value) -> Option<i64> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (units, rest) = text.split_once('.').unwrap_or((&text, ""));
    rest.bytes().all(|digit| digit == b'0').then(|| units.parse().ok()).flatten()
}

/// The preview, by the stock at `seen`.
pub fn preview(shop: &Shop, post_fee_fen: i64, call: &Call, seen: Timestamp) -> Value {
    let judged = basket(call).and_then(|basket| shop.judge(&basket, seen));
    let short = |judgement: &Judgement| judgement.short.first().map(|(_, why)| why.clone());
    let judgement = match judged {
        Err(why) => return refusal(Api::Preview, why.code, &why.message),
        Ok(judgement) => match short(&judgement) {
            Some(why) => return refusal(Api::Preview, why.code, &why.message),
            None => judgement,
        },
    };
    let goods = judgement.good.iter().fold(0_i64, |sum, l| sum.saturating_add(l.amount_fen()));
    json!({
        "success": true,
        "orderPreviewResuslt": [{
            "status": true,
            "sumPayment": goods.saturating_add(post_fee_fen),
            "sumCarriage": post_fee_fen,
            "sumPaymentNoCarriage": goods,
            "discountFee": 0,
            "additionalFee": 0,
            "flowFlag": call.param("flow").unwrap_or("general"),
            "tradeModeNameList": ["general"],
            "tradeModelList": [{
                "tradeType": "50060",
                "name": "支付宝担保交易",
                "description": "买家在5天内付款，发货后10天内确认收货",
                "opSupport": true,
            }],
            "payChannelInfos": [{ "name": "alipay", "amountLimit": 1_000_000_000 }],
            "cargoList": judgement.good.iter().map(cargo).collect::<Vec<_>>(),
            "shopPromotionList": [],
        }],
        "postFeeByDescOfferList": [],
        "consignOfferList": [],
    })
}

fn cargo(line: &Line) -> Value {
    let mut cargo = json!({
        "offerId": number(&line.item.offer_id),
        "amount": yuan(line.amount_fen()),
        "finalUnitPrice": yuan(line.price_fen),
        "cargoPromotionList": [],
        "message": "",
        "resultCode": "200",
    });
    if let (Some(fields), Some(sku_id)) = (cargo.as_object_mut(), line.sku_id) {
        fields.insert("skuId".into(), sku_id.into());
        fields.insert("specId".into(), line.item.spec_id.clone().into());
    }
    cargo
}

/// Makes an order, by true stock.
pub fn create(shop: &mut Shop, call: &Call, now: Timestamp) -> Value {
    let placed = basket(call).map_err(NotPlaced::Refused).and_then(|b| shop.place(b, now));
    match placed {
        Ok(Placed { order, left_out }) => json!({
            "success": true,
            "result": {
                "orderId": order.id.to_string(),
                "totalSuccessAmount": order.total_fen(),
                "postFee": order.post_fee_fen,
                "failedOfferList": failed(&left_out),
            },
        }),
        Err(NotPlaced::Refused(why)) => refusal(Api::Create, why.code, &why.message),
        Err(NotPlaced::Short(lines)) => json!({
            "success": false,
            "message": "下单失败",
            "result": { "failedOfferList": failed(&lines) },
        }),
    }
}

fn failed(lines: &[(Line, Refusal)]) -> Vec<Value> {
    let entry = |(line, why): &(Line, Refusal)| {
        json!({
            "offerId": line.item.offer_id,
            "specId": line.item.spec_id,
            "errorCode": why.code,
            "errorMessage": why.message,
        })
    };
    lines.iter().map(entry).collect()
}

/// Closes an unpaid order for its buyer.
pub fn cancel(shop: &mut Shop, call: &Call, now: Timestamp) -> Value {
    let refused = |code: &str, message: &str| refusal(Api::Cancel, code, message);
    let reason = call.param("cancelReason").unwrap_or_default();
    if !["buyerCancel", "sellerGoodsLack", "other"].contains(&reason) {
        return refused("400", "cancelReason is not one of buyerCancel, sellerGoodsLack, other");
    }
    let id = call.param("tradeID").and_then(|text| text.parse().ok()).unwrap_or(0);
    match shop.cancel(id, reason, now) {
        Ok(()) => json!({ "success": true }),
        Err(Wrong::TooFast) => refused("CLOSE_ORDER_TOO_FAST", "下单后10秒内不能关闭订单"),
        Err(Wrong::State) => refused("ORDER_STATUS_ERROR", "订单状态不允许关闭"),
        Err(_) => refused("ORDER_NOT_EXIST", "订单不存在"),
    }
}

/// Pays an unpaid order; an order already paid says so without an effect.
pub fn pay(shop: &mut Shop, call: &Call, now: Timestamp) -> Value {
    let asked = json_param(call, "tradeWithholdPreparePayParam").unwrap_or(Value::Null);
    let id = match asked.get("orderId") {
        Some(Value::Number(id)) => id.as_u64(),
        Some(Value::String(id)) => id.parse().ok(),
        _ => None,
    };
    let Some(order) = id.and_then(|id| shop.order(id)) else {
        return refusal(Api::Pay, "500", "不是自己的订单");
    };
    let (id, due) = (order.id, order.total_fen());
    if asked.get("payAmount").and_then(Value::as_i64).is_some_and(|amount| amount != due) {
        return refusal(Api::Pay, "500", "支付金额与订单金额不一致");
    }
    let _ = shop.pay(id, now);
    let paid = shop.order(id).is_some_and(|o| o.paid_at.is_some() && o.closed.is_none());
    if !paid {
        return refusal(Api::Pay, "500", "订单状态不允许支付");
    }
    let channel = asked.get("payChannel").and_then(Value::as_str).unwrap_or("alipay");
    json!({ "result": {
        "success": true,
        "result": { "payChannel": channel, "paySuccess": true },
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = r#"{"fullName":"张三","mobile":"13800138000","provinceText":"浙江省",
        "cityText":"杭州市","address":"文一西路 969 号"}"#;

    fn call(cargo: &str, address: &str) -> Call {
        let params = [("addressParam", address), ("cargoParamList", cargo)];
        let params = params.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        Call { params, ..Call::default() }
    }

    #[test]
    fn quantities_are_whole_however_they_are_written() {
        let cargo = r#"[{"offerId":1,"specId":null,"quantity":2},
            {"offerId":"2","specId":"","quantity":2.0},{"offerId":3,"specId":"s","quantity":"4"}]"#;
        let read = basket(&call(cargo, ADDRESS)).unwrap();
        let quantities: Vec<i64> = read.lines.iter().map(|(_, quantity)| *quantity).collect();
        assert_eq!(quantities, [2, 2, 4]);
        let specs: Vec<_> = read.lines.iter().map(|(item, _)| item.spec_id.as_deref()).collect();
        assert_eq!(specs, [None, None, Some("s")]);
        let half = r#"[{"offerId":1,"quantity":2.5}]"#;
        assert_eq!(basket(&call(half, ADDRESS)).unwrap_err().code, "400");
    }

    #[test]
    fn an_address_must_name_a_place_and_stay_short() {
        let cargo = r#"[{"offerId":1,"quantity":2}]"#;
        let refused = |address: &str| basket(&call(cargo, address)).unwrap_err().message;
        assert_eq!(refused("{}"), "AddressId invalid:AddressId invalid");
        assert_eq!(refused("x"), "addressParam is not JSON");
        let long = ADDRESS.replace("文一西路 969 号", &"路".repeat(201));
        assert_eq!(refused(&long), "address is longer than 200");
        let most = ADDRESS.replace("文一西路 969 号", &"路".repeat(200));
        assert!(basket(&call(cargo, &most)).is_ok());
        assert!(basket(&call(cargo, r#"{"addressId":7}"#)).is_ok());
    }
}
