//! `PUT /v1/orders/{id}/ship_to`, `POST …/decide`, `POST …/complete`.

use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use super::{act_on_order, order_answer, order_id};
use crate::domain::command::{Action, Command};
use crate::domain::supply::Address;
use crate::engine::Envelope;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report};
use crate::http::idempotency::{Call, Keep, respond};
use crate::http::problem::{Problem, Problems};
use crate::http::view::order::OrderView;

/// Where the goods go; at least one member must have a text.
#[derive(ToSchema)]
pub struct AddressBody {
    #[schema(max_length = 255)]
    pub name: Option<String>,
    #[schema(max_length = 255)]
    pub phone: Option<String>,
    #[schema(max_length = 255)]
    pub country: Option<String>,
    #[schema(max_length = 255)]
    pub province: Option<String>,
    #[schema(max_length = 255)]
    pub city: Option<String>,
    #[schema(max_length = 255)]
    pub district: Option<String>,
    #[schema(max_length = 255)]
    pub address: Option<String>,
    #[schema(max_length = 255)]
    pub postcode: Option<String>,
}

#[derive(ToSchema)]
pub struct DecideOrder {
    /// `retry` or `cancel`.
    #[schema(example = "retry")]
    pub action: String,
}

/// Reads an address; `None` goes with a reported fault.
pub fn read_address(object: Option<Object<'_>>) -> Option<Address> {
    let object = object?;
    let text = |name: &'static str| match object.nullable(name) {
        Some(value) => value.text(0..=255),
        None => Some(String::new()),
    };
    let (name, phone, country) = (text("name"), text("phone"), text("country"));
    let (province, city, district) = (text("province"), text("city"), text("district"));
    let (address, postcode) = (text("address"), text("postcode"));
    let read = || {
        Some(Address {
            name: name?,
            phone: phone?,
            country: country?,
            province: province?,
            city: city?,
            district: district?,
            address: address?,
            postcode: postcode?,
        })
    };
    let address = read();
    if address == Some(Address::default()) {
        object.fault_itself("must have a text in one member at least");
    }
    object.finish();
    address
}

/// Set where the goods go, until buying starts.
#[utoipa::path(put, path = "/v1/orders/{id}/ship_to", tag = "orders",
    params(("id" = String, Path)), request_body = AddressBody,
    responses((status = 200, body = OrderView), Problems))]
pub async fn put_ship_to(
    State(app): State<Shared>,
    Param(id): Param<String>,
    body: Body,
) -> Result<Response, Problem> {
    let order = order_id(&id)?;
    let address = read_ship_to(body.text())?;
    let now = app.clock.now();
    let command = Command::ShipTo { order, address };
    let reply = app.engine.submit(Envelope::from(command)).await?;
    Ok(respond(&reply, order_answer(now)))
}

fn read_ship_to(text: &str) -> Result<Address, Problem> {
    let report = Report::default();
    let address = read_address(Some(Object::of_body(text, &report)?));
    report.finish(address)
}

/// Decide an order in `attention`.
#[utoipa::path(post, path = "/v1/orders/{id}/decide", tag = "orders",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = DecideOrder,
    responses((status = 200, body = OrderView), (status = 202, body = OrderView), Problems))]
pub async fn decide_order(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    act_on_order(&app, &id, call, &body, Keep::Day, |order, text| {
        read_action(text).map(|action| Command::Decide { order, action })
    })
    .await
}

fn read_action(text: &str) -> Result<Action, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let action = body.required("action").and_then(|v| {
        v.choice(&[Action::Retry, Action::Cancel], |action| match action {
            Action::Retry => "retry",
            Action::Cancel => "cancel",
        })
    });
    body.finish();
    report.finish(action)
}

/// Complete an order of which all that was not cancelled is shipped.
#[utoipa::path(post, path = "/v1/orders/{id}/complete", tag = "orders",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, body = OrderView), Problems))]
pub async fn complete_order(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    act_on_order(&app, &id, call, &body, Keep::Day, |order, text| {
        read_nothing(text).map(|()| Command::Complete { order })
    })
    .await
}

/// A body without members, or none.
pub fn read_nothing(text: &str) -> Result<(), Problem> {
    let report = Report::default();
    Object::of_body(text, &report)?.finish();
    report.finish(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_text_and_no_member_that_it_does_not_know() {
        let whole = read_ship_to(r#"{"name":"王","city":"杭州","address":"1 路","postcode":null}"#);
        let whole = whole.expect("an address");
        assert_eq!((whole.name.as_str(), whole.city.as_str()), ("王", "杭州"));
        assert_eq!(whole.postcode, "");
        for text in ["{}", r#"{"name":""}"#, r#"{"name":null}"#] {
            assert!(read_ship_to(text).is_err(), "{text}");
        }
        let problem = read_ship_to(r#"{"name":"a","street":"b","zip":1}"#).expect_err("refused");
        assert_eq!(problem.body()["errors"][0]["field"], "street");
        assert_eq!(problem.body()["errors"][1]["field"], "zip");
    }

    #[test]
    fn ops_retry_or_cancel() {
        assert_eq!(read_action(r#"{"action":"retry"}"#), Ok(Action::Retry));
        assert_eq!(read_action(r#"{"action":"cancel"}"#), Ok(Action::Cancel));
        assert!(read_action(r#"{"action":"refund"}"#).is_err());
    }

    #[test]
    fn nothing_is_no_body_or_an_empty_object() {
        assert!(read_nothing("").is_ok());
        assert!(read_nothing("{}").is_ok());
        assert!(read_nothing("{\"x\":1}").is_err());
    }
}
