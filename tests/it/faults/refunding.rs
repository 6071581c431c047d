//! A refund provider that is away, loses answers, or refuses: made once, and never given up in
//! silence.

use std::sync::atomic::Ordering;

use serde_json::json;
use stockhold::clock::Span;

use super::books;
use super::refunder::Refunder;
use super::world::{Setup, World, shoe};

/// An order that falls short, at a provider that answers so.
async fn short(says: u16) -> (World, Refunder, String) {
    let refunder = Refunder::start().await;
    refunder.says.store(says, Ordering::SeqCst);
    let w = Setup::new().with(&refunder.keys()).start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.sim.set_stock(&shoe(), 0).expect("a shoe");
    w.until_state(&id, "cancelled").await;
    w.until("it was asked", async |_| refunder.refused.load(Ordering::SeqCst) > 0).await;
    (w, refunder, id)
}

async fn refund_state(w: &World, id: &str) -> serde_json::Value {
    w.order(id).await["refunds"][0]["state"].clone()
}

/// Away for more than a day, through restarts: told after a day, made when it is back.
#[tokio::test]
async fn a_provider_that_is_away_is_asked_until_it_is_back() {
    for says in [503, 429, 408] {
        let (mut w, refunder, id) = short(says).await;
        w.stride(Span::minutes(30));
        w.pass(Span::hours(12)).await;
        w.crash().await;
        w.pass(Span::hours(13)).await;
        assert_eq!(refund_state(&w, &id).await, "pending");
        let alerts = w.alerts("refund_failing").await;
        assert!(matches!(alerts.as_slice(), [(_, true)]), "{alerts:?}");
        refunder.says.store(0, Ordering::SeqCst);
        w.until("it is made", async |w| refund_state(w, &id).await == "succeeded").await;
        w.idle().await;
        assert!(matches!(w.alerts("refund_failing").await.as_slice(), [(_, false)]));
        assert_eq!(refunder.made().into_values().collect::<Vec<_>>(), [1]);
        books::check(&w).await;
    }
}

/// Broken, and a look-up says that nothing was made: asked again ever more seldom, not each second.
#[tokio::test]
async fn a_provider_that_makes_nothing_is_asked_ever_more_seldom() {
    let refunder = Refunder::start().await;
    refunder.fails.store(true, Ordering::SeqCst);
    let w = Setup::new().with(&refunder.keys()).start().await.with_shoe().await;
    let id = w.buy("SHOE", 1).await;
    w.sim.set_stock(&shoe(), 0).expect("a shoe");
    w.until_state(&id, "cancelled").await;
    w.pass(Span::hours(1)).await;
    // After 1, 2, 4 … 512 s and then every 10 minutes: 10 in 17 minutes, 4 in the rest.
    let asked = refunder.refused.load(Ordering::SeqCst);
    assert!((8..=20).contains(&asked), "{asked}");
    refunder.fails.store(false, Ordering::SeqCst);
    w.until("it is made", async |w| refund_state(w, &id).await == "succeeded").await;
    assert_eq!(refunder.made().into_values().collect::<Vec<_>>(), [1]);
    books::check(&w).await;
}

/// Refused: for a person, who has it tried again, or says that it was made otherwise.
#[tokio::test]
async fn a_refused_refund_is_for_a_person() {
    for by_hand in [false, true] {
        let (w, refunder, id) = short(422).await;
        w.until("it is told", async |w| refund_state(w, &id).await == "needs_attention").await;
        let asked = refunder.refused.load(Ordering::SeqCst);
        w.pass(Span::hours(2)).await;
        assert_eq!(refunder.refused.load(Ordering::SeqCst), asked, "not asked again by itself");
        assert!(matches!(w.alerts("refund_failing").await.as_slice(), [(_, true)]));
        refunder.says.store(0, Ordering::SeqCst);
        let refund = w.order(&id).await["refunds"][0]["id"].as_str().expect("an id").to_owned();
        let (path, body) = if by_hand {
            ("resolve", json!({ "outcome": "succeeded", "reference": "bank-7" }))
        } else {
            ("retry", json!({}))
        };
        let (status, body) = w.post(&format!("/v1/refunds/{refund}/{path}"), body).await;
        assert_eq!(status, 200, "{body}");
        w.until("it is made", async |w| refund_state(w, &id).await == "succeeded").await;
        assert_eq!(refunder.made().len(), usize::from(!by_hand));
        w.idle().await;
        assert!(matches!(w.alerts("refund_failing").await.as_slice(), [(_, false)]));
        books::check(&w).await;
    }
}
