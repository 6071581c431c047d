//! `POST /v1/orders/{id}/shipments`: goods of the warehouse left.

use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use super::act_on_order;
use crate::domain::command::Command;
use crate::domain::names::OrderId;
use crate::http::Shared;
use crate::http::extract::{Body, Object, Param, Report, Value};
use crate::http::idempotency::{Call, Keep};
use crate::http::problem::{Problem, Problems};
use crate::http::view::line_no;
use crate::http::view::order::OrderView;

#[derive(ToSchema)]
pub struct ShipOrder {
    #[schema(min_items = 1, max_items = 100)]
    pub lines: Vec<ShipLine>,
    #[schema(min_length = 1, max_length = 255)]
    pub carrier: String,
    #[schema(min_length = 1, max_length = 255)]
    pub tracking_number: String,
}

#[derive(ToSchema)]
pub struct ShipLine {
    pub line_id: String,
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub quantity: i64,
}

/// Record a shipment of warehouse lines. Supplier lines get theirs from the supplier.
#[utoipa::path(post, path = "/v1/orders/{id}/shipments", tag = "orders",
    params(("id" = String, Path),
        ("Idempotency-Key" = String, Header, description = "1 to 255 characters")),
    request_body = ShipOrder,
    responses((status = 200, body = OrderView), Problems))]
pub async fn ship_order(
    State(app): State<Shared>,
    Param(id): Param<String>,
    call: Call,
    body: Body,
) -> Result<Response, Problem> {
    act_on_order(&app, &id, call, &body, Keep::ForEver, read).await
}

fn read(order: OrderId, text: &str) -> Result<Command, Problem> {
    let report = Report::default();
    let body = Object::of_body(text, &report)?;
    let lines = body.required("lines").and_then(|v| v.array(1..=100));
    let lines = lines.and_then(|lines| {
        let lines: Vec<_> = lines.iter().map(|v| read_line(v, &order)).collect();
        lines.into_iter().collect::<Option<Vec<_>>>()
    });
    let text = |name: &'static str| body.required(name).and_then(|v| v.text(1..=255));
    let (carrier, tracking_number) = (text("carrier"), text("tracking_number"));
    for (i, (no, _)) in lines.iter().flatten().enumerate() {
        if lines.iter().flatten().take(i).any(|(other, _)| other == no) {
            body.fault(&format!("lines[{i}].line_id"), "is given twice");
        }
    }
    body.finish();
    let read = || {
        Some(Command::Ship {
            order: order.clone(),
            lines: lines?,
            carrier: carrier?,
            tracking_number: tracking_number?,
        })
    };
    let command = read();
    report.finish(command)
}

fn read_line(value: &Value<'_>, order: &OrderId) -> Option<(i64, i64)> {
    let line = value.object()?;
    let no = line.required("line_id").and_then(|v| {
        let no = line_no(order, &v.text(1..=255)?);
        if no.is_none() {
            line.fault("line_id", "is not a line of this order");
        }
        no
    });
    let quantity = line.required("quantity").and_then(|v| v.quantity());
    line.finish();
    no.zip(quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shipment_names_lines_of_its_order_once_each() {
        let text = r#"{"lines":[{"line_id":"o.2","quantity":1},{"line_id":"o.1","quantity":3}],
            "carrier":"SF","tracking_number":"SF1"}"#;
        assert_eq!(
            read("o".into(), text),
            Ok(Command::Ship {
                order: "o".into(),
                lines: vec![(2, 1), (1, 3)],
                carrier: "SF".into(),
                tracking_number: "SF1".into(),
            })
        );
        let text = r#"{"lines":[{"line_id":"o.2","quantity":1},{"line_id":"o.2","quantity":3}],
            "carrier":"SF","tracking_number":"SF1"}"#;
        let problem = read("o".into(), text).expect_err("refused");
        assert_eq!(problem.body()["errors"][0]["field"], "lines[1].line_id");
        let text = r#"{"lines":[{"line_id":"p.2","quantity":0}],"carrier":""}"#;
        let errors = read("o".into(), text).expect_err("refused").body()["errors"].clone();
        let fields: Vec<_> =
            errors.as_array().expect("a list").iter().map(|e| &e["field"]).collect();
        assert_eq!(fields, ["lines[0].line_id", "lines[0].quantity", "carrier", "tracking_number"]);
    }
}
