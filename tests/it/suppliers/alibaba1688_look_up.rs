//! The look-up by reference: complete and without error, or no answer. "Not there" must be earned.

use stockhold::domain::supply::UpstreamOrder;
use stockhold::suppliers::Supplier;
use wiremock::ResponseTemplate;

use super::gate::*;

const NOT_FOUND: &str = r#"{"success":"false","errorCode":"500","errorMessage":"no such order"}"#;
/// An hour before and thirty days before the gate's clock (2024-10-07T04:00:00Z).
const RECENT: &str = "20241007110000000+0800";
const OLD: &str = "20240907120000000+0800";

/// A row of the list, or an order: id, reference, time of creation.
fn trade(id: u64, reference: Option<&str>, created: &str) -> String {
    let reference = reference.map_or("null".into(), |r| format!("\"{r}\""));
    format!(
        r#"{{"baseInfo":{{"idOfStr":"{id}","status":"waitbuyerpay","outOrderId":{reference},
           "createTime":"{created}","totalAmount":44.1}},"productItems":[{{"productID":554456348334,
           "specId":"{RED}","quantity":2}}]}}"#
    )
}

fn view(id: u64, reference: Option<&str>) -> String {
    format!(r#"{{"success":"true","result":{}}}"#, trade(id, reference, RECENT))
}

fn page(total: usize, rows: &[String]) -> String {
    format!(r#"{{"result":[{}],"totalRecord":{total}}}"#, rows.join(","))
}

fn ours(id: u64) -> String {
    trade(id, Some("so-1001"), RECENT)
}

impl Gate {
    fn page(&self, n: u32, total: usize, rows: &[String]) -> &Gate {
        self.json(&format!("{ORDERS} {n}"), page(total, rows))
    }

    fn view(&self, id: u64, reference: Option<&str>) -> &Gate {
        self.json(&format!("{ORDER} {id}"), view(id, reference))
    }

    /// What is found directly under our reference.
    fn under(&self, answer: impl Into<String>) -> &Gate {
        self.json(&format!("{ORDER} so-1001"), answer)
    }

    async fn ids(&self) -> Vec<String> {
        let found = self.client().look_up("so-1001").await.expect("a complete look-up");
        let ours = |o: &UpstreamOrder| o.reference.as_deref() == Some("so-1001");
        assert!(found.iter().all(ours), "{found:?}");
        found.into_iter().map(|o| o.supplier_order_id).collect()
    }

    async fn fails(&self) -> String {
        unknown(self.client().look_up("so-1001").await)
    }
}

#[tokio::test]
async fn an_empty_list_is_not_there() {
    let gate = Gate::start().await;
    gate.page(1, 0, &[]).under(NOT_FOUND);
    assert_eq!(gate.ids().await, [""; 0]);
    let calls = gate.calls().await;
    assert_eq!(calls[0].form["isHis"], "false");
    assert_eq!(calls[0].form["outOrderId"], "so-1001");
    assert!(!calls[0].form.contains_key("bizTypes"));
    assert_eq!(calls[1].form["outOrderId"], "so-1001");
    assert!(!calls[1].form.contains_key("orderId"));
}

#[tokio::test]
async fn hits_are_read_whole_with_their_lines() {
    let gate = Gate::start().await;
    gate.page(1, 1, &[ours(11)]).under(NOT_FOUND).view(11, Some("so-1001"));
    let found = gate.client().look_up("so-1001").await.expect("a complete look-up");
    let [order] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((order.supplier_order_id.as_str(), order.total), ("11", Some(4410)));
    assert_eq!((&order.items[0].item, order.items[0].quantity), (&red(), 2));
}

#[tokio::test]
async fn every_page_is_read_and_a_filter_that_does_nothing_is_noticed() {
    let gate = Gate::start().await;
    let other = |id: u64| trade(id, Some("so-0007"), RECENT);
    gate.page(1, 5, &[other(1), other(2)]).page(2, 5, &[ours(11), other(3)]);
    gate.page(3, 5, &[ours(12)]).under(NOT_FOUND);
    gate.view(11, Some("so-1001")).view(12, Some("so-1001"));
    assert_eq!(gate.ids().await, ["11", "12"]);
    assert_eq!(gate.count(ORDERS).await, 3);
    assert_eq!(gate.count(ORDER).await, 3, "other people's orders are not read");
}

#[tokio::test]
async fn a_list_that_does_not_add_up_is_no_answer() {
    let two = [ours(1), ours(2)];
    for (pages, why) in [
        (vec![(3, &two[..]), (3, &[][..])], "ends early"),
        (vec![(3, &two[..]), (4, &two[..1])], "changes its total"),
        (vec![(3, &two[..]), (3, &two[1..])], "lists one twice"),
        (vec![(1, &two[..])], "lists more than it says"),
        (vec![(3, &two[..1]), (3, &two[..1])], "lists one twice, with a short page"),
    ] {
        let gate = Gate::start().await;
        for (n, (total, rows)) in (1..).zip(&pages) {
            gate.page(n, *total, rows);
        }
        assert_eq!(gate.fails().await, "look_up_incomplete", "{why}");
    }
}

#[tokio::test]
async fn any_call_that_fails_fails_the_look_up() {
    let no_total = r#"{"result":[]}"#;
    let gate = Gate::start().await;
    gate.json(ORDERS, no_total);
    assert_eq!(gate.fails().await, "unreadable");
    let gate = Gate::start().await;
    gate.json(ORDERS, r#"{"errorCode":"500","errorMessage":"busy","totalRecord":0}"#);
    assert_eq!(gate.fails().await, "500");
    let gate = Gate::start().await;
    gate.page(1, 3, &[ours(1), ours(2)]).answer(&format!("{ORDERS} 2"), ResponseTemplate::new(502));
    assert_eq!(gate.fails().await, "http_502");
    let gate = Gate::start().await;
    gate.page(1, 0, &[]).answer(ORDER, json(400, fixture("throttled.json")));
    assert_eq!(gate.fails().await, "gw.QosAppFrequencyLimit");
    let gate = Gate::start().await;
    gate.page(1, 1, &[ours(11)]).under(NOT_FOUND);
    assert_eq!(gate.fails().await, "http_501", "the hit itself could not be read");
    let gate = Gate::start().await;
    gate.page(1, 1, &[ours(11)]).under(NOT_FOUND).view(11, Some("so-0007"));
    assert_eq!(gate.fails().await, "look_up_contradiction");
}

#[tokio::test]
async fn an_order_found_directly_is_a_hit_even_if_the_list_lags() {
    let gate = Gate::start().await;
    gate.page(1, 0, &[]).under(view(11, Some("so-1001")));
    assert_eq!(gate.ids().await, ["11"]);
    // The list and the answer show no reference, but it was found under ours.
    let gate = Gate::start().await;
    gate.page(1, 1, &[trade(11, None, RECENT)]).under(view(11, None));
    assert_eq!(gate.ids().await, ["11"]);
    assert_eq!(gate.count(ORDER).await, 1, "it is not read twice");
    let gate = Gate::start().await;
    gate.page(1, 0, &[]).under(view(11, Some("so-0007")));
    assert_eq!(gate.fails().await, "look_up_contradiction");
}

#[tokio::test]
async fn that_it_cannot_be_asked_directly_is_evidence_of_nothing() {
    let missing = r#"{"error_code":"gw.ParamMissing","error_message":"orderId"}"#;
    let gate = Gate::start().await;
    gate.page(1, 1, &[ours(11)]).answer(&format!("{ORDER} so-1001"), json(400, missing));
    gate.view(11, Some("so-1001"));
    assert_eq!(gate.ids().await, ["11"]);
}

#[tokio::test]
async fn a_row_without_reference_is_read_and_decides_if_it_can() {
    let gate = Gate::start().await;
    let rows = [trade(11, None, RECENT), trade(12, None, OLD)];
    gate.page(1, 2, &rows).under(NOT_FOUND);
    gate.view(11, Some("so-1001")).view(12, Some("so-0007"));
    assert_eq!(gate.ids().await, ["11"]);
    // Nothing shows that the filter was ignored, so the old one may be ours as well.
    let gate = Gate::start().await;
    gate.page(1, 1, &[trade(12, None, OLD)]).under(NOT_FOUND).view(12, None);
    assert_eq!(gate.fails().await, "look_up_incomplete");
}

#[tokio::test]
async fn beside_other_references_only_recent_rows_without_one_are_in_doubt() {
    let other = trade(1, Some("so-0007"), RECENT);
    let gate = Gate::start().await;
    gate.page(1, 2, &[other.clone(), trade(12, None, OLD)]).under(NOT_FOUND);
    assert_eq!(gate.ids().await, [""; 0], "an old order made by hand");
    for created in [RECENT, "not a time"] {
        let gate = Gate::start().await;
        gate.page(1, 2, &[other.clone(), trade(12, None, created)]).under(NOT_FOUND);
        gate.view(12, None);
        assert_eq!(gate.fails().await, "look_up_incomplete", "{created}");
    }
}

#[tokio::test]
async fn too_many_rows_in_doubt_are_not_read() {
    let gate = Gate::start().await;
    let rows: Vec<String> = (1..=11).map(|id| trade(id, None, RECENT)).collect();
    gate.page(1, 11, &rows).under(NOT_FOUND);
    assert_eq!(gate.fails().await, "look_up_incomplete");
    assert_eq!(gate.count(ORDER).await, 1, "only the question by reference");
}
