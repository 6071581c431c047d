//! The night's troubles: each must have come up, or the promises were kept against nothing.

use super::books::Books;
use super::customer::{Late, Visit};
use super::shop::{OrderView, PurchaseView};
use super::verdict::Check;

/// Every trouble, with how often it came up.
pub fn all(books: &Books) -> Vec<Check> {
    let orders =
        |which: &dyn Fn(&OrderView) -> bool| books.orders.iter().filter(|o| which(o)).count();
    let visits = |which: &dyn Fn(&Visit) -> bool| books.visits.iter().filter(|v| which(v)).count();
    let ended = |reason: &'static str| {
        orders(&|o| o.state == "cancelled" && o.cancel_reason.as_deref() == Some(reason))
    };
    let others: i64 = books.goods.iter().map(|g| g.others).sum();
    let times = |about, looked_at| Check { about, looked_at, faults: Vec::new() };
    vec![
        late_feed(books),
        times(
            "refused for want of stock",
            visits(&|v| v.order.is_none() && v.refused.as_deref() == Some("insufficient_stock")),
        ),
        times("unpaid and expired", orders(&|o| o.state == "expired")),
        times("timed out with the supplier's order made, and found", lost(books, |n| n == 1)),
        times("timed out with nothing made, and asked again", lost(books, |n| n > 1)),
        times("calls throttled", usize::try_from(books.throttled).unwrap_or(0)),
        times("units bought by other people", usize::try_from(others).unwrap_or(0)),
        times("paid and then short at the supplier", ended("supplier_short")),
        times(
            "short of a line, the rest delivered",
            orders(&|o| o.stands() && o.lines.iter().any(|l| l.cancelled_quantity > 0)),
        ),
        times("closed by the seller", ended("supplier_closed")),
        times("submitted more than once", visits(&|v| v.repeated > 0)),
        times("submitted again with other content, refused", visits(&|v| v.conflicts > 0)),
        times("paid after expiry, held anew", visits(&|v| v.late == Some(Late::HeldAnew))),
        times("paid after expiry, money back", visits(&|v| v.late == Some(Late::MoneyBack))),
        times("paid twice", visits(&|v| v.paid_twice)),
        times("payment notices repeated", visits(&|v| v.renotified > 0)),
        times("cancelled by the customer", ended("customer")),
    ]
}

fn late_feed(books: &Books) -> Check {
    let feed = &books.feed;
    let mut faults = Vec::new();
    if let Some(was) = feed.was.filter(|was| *was < feed.should_be) {
        faults.push(format!("the feed was {was:?} late, not {:?}", feed.should_be));
    }
    let should_be = i64::try_from(feed.should_be.as_secs()).unwrap_or(i64::MAX);
    if feed.was.is_some() && feed.observed_seconds < should_be {
        faults.push(format!("the daemon saw a lag of {} s", feed.observed_seconds));
    }
    // 1.2 times the lag: 40 minutes of it make a lock of 48.
    if feed.was.is_some() && feed.lock_ttl_seconds < should_be.saturating_mul(12) / 10 {
        faults.push(format!("the lock lives {} s", feed.lock_ttl_seconds));
    }
    let looked_at = usize::from(feed.was.is_some());
    Check { about: "a feed 40 minutes late", looked_at, faults }
}

/// Purchases of which an answer was lost and that were placed after all, by the creates it took.
fn lost(books: &Books, attempts: impl Fn(i64) -> bool) -> usize {
    let lost = |o: &OrderView, p: &PurchaseView| {
        let unknown =
            |e: &super::shop::EventView| e.event == "purchase_unknown" && e.detail == p.reference;
        o.timeline.iter().any(unknown) && attempts(p.attempts) && !p.supplier_orders.is_empty()
    };
    let count = |o: &OrderView| o.purchase_orders.iter().filter(|p| lost(o, p)).count();
    books.orders.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::books::Feed;

    fn feed(was: u64, observed_seconds: i64, lock_ttl_seconds: i64) -> Check {
        let feed = Feed {
            should_be: Duration::from_secs(8),
            was: Some(Duration::from_secs(was)),
            observed_seconds,
            lock_ttl_seconds,
        };
        late_feed(&Books { feed, ..Books::default() })
    }

    #[test]
    fn the_feed_must_have_been_late_and_seen_to_be() {
        assert!(feed(8, 8, 9).kept());
        assert_eq!(feed(7, 8, 9).faults, ["the feed was 7s late, not 8s"]);
        assert_eq!(feed(8, 7, 9).faults, ["the daemon saw a lag of 7 s"]);
        assert_eq!(feed(8, 8, 8).faults, ["the lock lives 8 s"]);
    }

    #[test]
    fn a_lost_create_is_told_by_what_it_took() {
        let order = |attempts, event: &str, found: bool| {
            let text = serde_json::json!({
                "id": "o", "external_id": "x", "state": "shipped", "paid": "0.00",
                "cancel_reason": null, "lines": [],
                "timeline": [{"event": event, "detail": "o-s1688-1"}],
                "purchase_orders": [{
                    "supplier": "s1688", "reference": "o-s1688-1", "state": "shipped",
                    "attempts": attempts, "lines": [],
                    "supplier_orders": if found { serde_json::json!([{"id": "1", "role": "recorded"}]) }
                        else { serde_json::json!([]) },
                }],
            });
            let order: OrderView = serde_json::from_value(text).expect("an order");
            let books = Books { orders: vec![order], ..Books::default() };
            (lost(&books, |n| n == 1), lost(&books, |n| n > 1))
        };
        assert_eq!(order(1, "purchase_unknown", true), (1, 0));
        assert_eq!(order(2, "purchase_unknown", true), (0, 1));
        assert_eq!(order(1, "purchase_placed", true), (0, 0));
        assert_eq!(order(1, "purchase_unknown", false), (0, 0));
    }
}
