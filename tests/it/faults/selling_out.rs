//! A SKU that sells out at one source after the other: a note is made when nothing is left at any, and
//! not before.

use serde_json::{Value, json};

use super::books;
use super::world::{Setup, World, item};

const A: &str = "700000000001";
const REFUSALS: &str = "stockhold_sold_out_refusals_total";

/// Places one that is refused for want of stock; whether by a note.
async fn refused(w: &World, basket: Value) -> (Value, bool) {
    let before = w.metric(REFUSALS).await;
    let (status, body) = w.post("/v1/orders", basket).await;
    assert_eq!((status, &body["code"]), (409, &"insufficient_stock".into()), "{body}");
    (body["shortages"].clone(), w.metric(REFUSALS).await > before)
}

#[tokio::test]
async fn while_another_source_may_serve_there_is_no_note() {
    let setup = Setup::new().with("[coordination]\nurl = \"memory:\"").selling(&[(A, 2)]);
    let w = setup.start().await;
    w.mixed_sku("MIX", A, 1).await;
    w.sync().await;
    let short = |requested: i64, available: i64| json!([{"sku": "MIX", "requested": requested, "available": available}]);
    w.buy("MIX", 1).await;
    // The shelf is empty, the supplier has two.
    for _ in 0..2 {
        let told = refused(&w, w.basket(&[("MIX", 3)])).await;
        assert_eq!(told, (short(3, 2), false));
    }
    w.buy("MIX", 1).await;
    assert_eq!(refused(&w, w.basket(&[("MIX", 3)])).await, (short(3, 1), false));
    w.buy("MIX", 1).await;
    assert_eq!(refused(&w, w.basket(&[("MIX", 3)])).await, (short(3, 0), false), "it makes one");
    assert_eq!(refused(&w, w.basket(&[("MIX", 3)])).await, (short(3, 0), true));
    // The feed brings more.
    w.sim.set_stock(&item(A), 4).expect("an item");
    w.sync().await;
    w.buy("MIX", 1).await;
    books::check(&w).await;
}
