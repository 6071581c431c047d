//! Faults that other shops really had (`C…`), and the rules of placing, paying and stock, with
//! numbers worked out by hand.

use stockhold::clock::Span;
use stockhold::domain::command::{Action, Command, StockChange};
use stockhold::domain::order::{CancelReason, HoldState, ShortPolicy, State};
use stockhold::domain::outcome::{Outcome, Refusal, Shortage, Touch};
use stockhold::domain::sku::{Class, Source};
use stockhold::domain::supply::UpstreamState;

use super::bench::Bench;
use super::stage::{address, capture, own, placement, sku, stock_change, terms, theirs};

fn shortages(answer: Result<Outcome, Refusal>) -> Vec<(String, i64, i64)> {
    let Err(Refusal::InsufficientStock(short)) = answer else {
        panic!("not short: {answer:?}");
    };
    let told = |s: Shortage| (s.sku.to_string(), s.requested, s.available);
    short.into_iter().map(told).collect()
}

#[test]
fn c003_lines_of_one_sku_are_summed_before_anything_is_held() {
    let mut b = Bench::new();
    b.stock("main", "A", 5);
    let answer = b.place(placement("o1", &[("A", 3, 100), ("A", 3, 100)]));
    assert_eq!(shortages(answer), [("A".into(), 6, 5)]);
    assert_eq!(b.figures("main:A"), (5, 0, 0));
    assert!(b.place(placement("o2", &[("A", 3, 100), ("A", 2, 100)])).is_ok());
    assert_eq!(b.figures("main:A"), (5, 5, 0));
}

#[test]
fn c008_of_two_orders_of_3_on_5_the_second_is_told_that_2_are_left() {
    let mut b = Bench::new();
    b.stock("main", "A", 5);
    assert!(b.place(placement("o1", &[("A", 3, 100)])).is_ok());
    let answer = b.place(placement("o2", &[("A", 3, 100)]));
    assert_eq!(shortages(answer), [("A".into(), 3, 2)]);
}

#[test]
fn c010_two_orders_of_5_on_5_leave_nothing_and_never_less() {
    let mut b = Bench::new();
    b.stock("main", "A", 5);
    b.paid("o1", &[("A", 5, 100)]);
    let answer = b.place(placement("o2", &[("A", 5, 100)]));
    assert_eq!(shortages(answer), [("A".into(), 5, 0)]);
    b.run(ship("o1", 5));
    assert_eq!(b.figures("main:A"), (0, 0, 0));
}

fn ship(order: &str, units: i64) -> Command {
    Command::Ship {
        order: order.into(),
        lines: vec![(1, units)],
        carrier: "DHL".into(),
        tracking_number: "1".into(),
    }
}

#[test]
fn c041_payment_and_expiry_race_and_exactly_one_wins() {
    let ttl = Span::minutes(30);
    for (late, swept) in [(Span::millis(-1), false), (Span::ZERO, false), (Span::millis(1), true)] {
        let mut b = Bench::new();
        b.stock("main", "A", 1);
        assert!(b.place(placement("o1", &[("A", 1, 500)])).is_ok());
        b.wait(ttl + late);
        if swept {
            b.due("o1");
            assert_eq!(b.order("o1").state, State::Expired);
            assert_eq!(b.figures("main:A"), (1, 0, 0));
        }
        assert!(b.pay("o1", capture("p1", 500)).is_ok());
        // In time, or held anew: sold either way.
        assert_eq!(b.order("o1").state, State::Confirmed);
        assert_eq!(b.figures("main:A"), (1, 0, 1));
        // The timer finds nothing to do any more.
        assert!(matches!(b.due("o1"), Outcome::Early(_)));
        assert_eq!(b.refunded("o1"), 0);
    }
}

#[test]
fn c041_a_payment_after_expiry_is_refunded_once_where_the_stock_is_gone() {
    let mut b = Bench::new();
    b.stock("main", "A", 1);
    assert!(b.place(placement("o1", &[("A", 1, 500)])).is_ok());
    b.wait(Span::minutes(35));
    b.due("o1");
    b.paid("o2", &[("A", 1, 500)]);
    for _ in 0..2 {
        assert!(b.pay("o1", capture("p1", 500)).is_ok());
        assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::PaymentAfterExpiry));
        assert_eq!(b.order("o1").refunds.len(), 1);
        assert_eq!(b.refunded("o1"), 500);
    }
    assert_eq!(b.figures("main:A"), (1, 0, 1));
}

#[test]
fn c044_the_refund_is_owed_with_the_cancelling() {
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    b.paid("o1", &[("C", 1, 5000)]);
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 0);
    let order = b.order("o1");
    assert_eq!((order.state, b.refunded("o1")), (State::Cancelled, 5000));
    let owed = format!("refund:{}", order.refunds[0].id);
    assert!(b.store.jobs.contains_key(&owed));
}

#[test]
fn c047_an_expired_order_takes_nothing_but_late_money() {
    let mut b = Bench::new();
    b.stock("main", "A", 1);
    assert!(b.place(placement("o1", &[("A", 1, 500)])).is_ok());
    b.wait(Span::minutes(30));
    b.due("o1");
    let o = || "o1".into();
    let before = b.order("o1").clone();
    for command in [
        Command::Cancel { order: o(), reason: CancelReason::Customer },
        Command::CancelLine { order: o(), line: 1, quantity: 1 },
        Command::ShipTo { order: o(), address: address() },
        Command::Decide { order: o(), action: Action::Retry },
        ship("o1", 1),
        Command::Complete { order: o() },
        Command::PaymentInProgress { order: o(), payment_id: "p1".into() },
    ] {
        let answer = b.try_run(command);
        assert!(matches!(answer, Err(Refusal::OrderState(State::Expired, _))), "{answer:?}");
    }
    assert_eq!(b.order("o1"), &before);
    assert_eq!(b.figures("main:A"), (1, 0, 0));
}

#[test]
fn c051_cancelling_gives_back_exactly_what_each_share_took() {
    let mut b = Bench::new();
    b.put(sku("P", Class::Normal, vec![theirs("east", "x"), own("main", "P")]));
    b.put(sku("Q", Class::Normal, vec![theirs("east", "y"), own("main", "Q")]));
    b.stock("main", "P", 5);
    b.stock("main", "Q", 5);
    b.feed("east:x:", 7);
    b.feed("east:y:", 6);
    // P: 7 there and 3 here; Q: 6 there and 4 here.
    b.paid("o1", &[("P", 10, 100), ("Q", 10, 100)]);
    assert_eq!((b.figures("east:x:"), b.figures("main:P")), ((7, 7, 0), (5, 0, 3)));
    assert_eq!((b.figures("east:y:"), b.figures("main:Q")), ((6, 6, 0), (5, 0, 4)));
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 7);
    b.judge("east:y:", 6);
    b.buy("o1-east-1", "e1");
    let cancel = b.run(Command::Cancel { order: "o1".into(), reason: CancelReason::Customer });
    assert!(matches!(cancel, Outcome::Order { touch: Touch::CancelPending, .. }));
    assert_eq!((b.figures("main:P"), b.figures("main:Q")), ((5, 0, 3), (5, 0, 4)));
    assert_eq!(b.refunded("o1"), 0);
    b.cancelled_upstream("o1-east-1", "e1", Ok(()));
    assert_eq!((b.figures("main:P"), b.figures("main:Q")), ((5, 0, 0), (5, 0, 0)));
    assert_eq!((b.figures("east:x:"), b.figures("east:y:")), ((7, 0, 0), (6, 0, 0)));
    assert_eq!(b.refunded("o1"), 2000);
}

#[test]
fn c053_every_mix_of_shipped_and_cancelled_leaves_the_right_shelf_and_money() {
    for shipped in 0..=5 {
        for cancelled in 0..=5 - shipped {
            let mut b = Bench::new();
            b.stock("main", "A", 10);
            b.paid("o1", &[("A", 5, 100)]);
            if shipped > 0 {
                b.run(ship("o1", shipped));
            }
            if cancelled > 0 {
                let quantity = cancelled;
                b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity });
            }
            let rest = 5 - shipped - cancelled;
            assert_eq!(b.figures("main:A"), (10 - shipped, 0, rest), "{shipped} {cancelled}");
            assert_eq!(b.refunded("o1"), cancelled * 100);
            let state = match (shipped, rest) {
                (0, 0) => State::Cancelled,
                (_, 0) => State::Shipped,
                _ => State::Confirmed,
            };
            assert_eq!(b.order("o1").state, state, "{shipped} {cancelled}");
        }
    }
}

#[test]
fn c055_the_amount_is_fixed_before_the_units_are_gone() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    b.paid("o1", &[("A", 2, 1250)]);
    b.run(Command::Cancel { order: "o1".into(), reason: CancelReason::Customer });
    assert_eq!(b.refunded("o1"), 2500);
}

#[test]
fn c064_ten_units_given_back_one_by_one_sum_to_what_was_paid() {
    let mut b = Bench::new();
    b.stock("main", "A", 10);
    let mut p = placement("o1", &[("A", 10, 2390)]);
    p.discount = 5975;
    p.payment = Some(capture("p1", 17_925));
    assert!(b.place(p).is_ok());
    for _ in 0..10 {
        b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity: 1 });
    }
    // 5975 is 10 × 597 and 5 over: five units of 1792 and five of 1793; the first units took the
    // odd ones, and the last unit goes first.
    let amounts: Vec<i64> = b.order("o1").refunds.iter().map(|r| r.amount).collect();
    assert_eq!(amounts, [1793, 1793, 1793, 1793, 1793, 1792, 1792, 1792, 1792, 1792]);
    assert_eq!(amounts.iter().sum::<i64>(), 17_925);
}

#[test]
fn shipping_goes_back_with_the_last_unit() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    let mut p = placement("o1", &[("A", 2, 1000)]);
    p.shipping = 400;
    p.payment = Some(capture("p1", 2400));
    assert!(b.place(p).is_ok());
    for sum in [1000, 2400] {
        b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity: 1 });
        assert_eq!(b.refunded("o1"), sum);
    }
}

#[test]
fn c073_an_old_form_does_not_wipe_out_a_sale() {
    let mut b = Bench::new();
    b.stock("main", "A", 10);
    let seen = b.store.levels["main:A"].version;
    b.paid("o1", &[("A", 5, 100)]);
    let set = |if_version| StockChange::Set { to: 10, if_version, release_newest: false };
    let answer = b.try_run(stock_change("A", "main", set(Some(seen))));
    let Err(Refusal::VersionConflict(level)) = answer else { panic!("{answer:?}") };
    assert_eq!((level.quantity, level.committed, level.available(0)), (10, 5, 5));
}

#[test]
fn c074_a_feed_from_before_our_purchase_does_not_sell_it_again() {
    let mut b = Bench::new();
    let source = Source { buffer: Some(1), ..theirs("east", "x") };
    b.put(sku("S", Class::Normal, vec![source]));
    let terms = stockhold::domain::policy::Terms {
        declared_lag: Span::ZERO,
        counts_at_order: true,
        ..terms()
    };
    b.policy.suppliers.insert("east".into(), terms);
    let ten = b.now;
    // 09:54: a paid order of 4 waits to be confirmed; 10:00: the feed says 10.
    b.now = ten - Span::minutes(6);
    b.feed("east:x:", 10);
    b.paid("o1", &[("S", 4, 100)]);
    b.now = ten;
    b.feed("east:x:", 10);
    b.due("o1");
    b.judge("east:x:", 10);
    // 10:05: bought. 10 − 4 − 1.
    b.now = ten + Span::minutes(5);
    b.buy("o1-east-1", "e1");
    let sellable = |b: &Bench| b.store.levels["east:x:"].available(1);
    assert_eq!(sellable(&b), 5);
    // 10:12: a feed read at 10:02, before it: 10 − 4 − 1.
    b.now = ten + Span::minutes(12);
    let mut old = b.reading("east:x:", 10);
    old.stated_at = Some(ten + Span::minutes(2));
    b.read("east:x:", old);
    assert_eq!((b.figures("east:x:"), sellable(&b)), ((10, 0, 4), 5));
    // 10:30: 6, and the purchase is surely in it: 6 − 1.
    b.now = ten + Span::minutes(30);
    b.feed("east:x:", 6);
    assert_eq!((b.figures("east:x:"), sellable(&b)), ((6, 0, 0), 5));
    assert_eq!(b.holds("o1")[0].1, HoldState::Settled);
}

#[test]
fn stale_figures_are_told_apart_from_too_few() {
    let mut b = Bench::new();
    b.feed("east:x:", 5);
    // Read 1 min ago by declaration, stale after 1 min + 1.2 × 10 min: at 12 min it is just not.
    b.wait(Span::minutes(12));
    assert!(b.place(placement("o1", &[("C", 1, 100)])).is_ok());
    b.wait(Span::secs(1));
    let answer = b.place(placement("o2", &[("C", 4, 100)]));
    let Err(Refusal::StaleFeed(stale)) = answer else { panic!("{answer:?}") };
    assert_eq!(stale, [("C".into(), Some(Span::minutes(13) + Span::secs(1)))]);
    // Not even counting them would 5 be there: 4 are left.
    let answer = b.place(placement("o3", &[("C", 5, 100)]));
    assert_eq!(shortages(answer), [("C".into(), 5, 0)]);
}

#[test]
fn a_suppliers_share_keeps_its_pack_size_and_minimum() {
    let packed = || Source { pack_size: 4, min_quantity: 8, ..theirs("east", "x") };
    let bench = || {
        let mut b = Bench::new();
        b.put(sku("S", Class::Normal, vec![packed(), own("main", "S")]));
        b.stock("main", "S", 2);
        b.feed("east:x:", 11);
        b
    };
    // 10: packs of 4 make 8, the warehouse gives 2.
    let mut b = bench();
    assert!(b.place(placement("o1", &[("S", 10, 100)])).is_ok());
    assert_eq!((b.figures("east:x:").1, b.figures("main:S").1), (8, 2));
    // 7: one pack of 4 is below the minimum of 8.
    let answer = bench().place(placement("o1", &[("S", 7, 100)]));
    assert_eq!(shortages(answer), [("S".into(), 7, 2)]);
    // 12: 11 hold two packs.
    let answer = bench().place(placement("o1", &[("S", 12, 100)]));
    assert_eq!(shortages(answer), [("S".into(), 12, 10)]);
}

/// Line 1 from our own shelf, line 2 from a supplier that turns out to have nothing.
fn short_of_line_2(short_policy: ShortPolicy) -> Bench {
    let mut b = Bench::new();
    b.stock("main", "A", 1);
    b.feed("east:x:", 9);
    let mut p = placement("o1", &[("A", 1, 300), ("C", 2, 100)]);
    p.short_policy = short_policy;
    p.shipping = 50;
    p.payment = Some(capture("p1", 550));
    assert!(b.place(p).is_ok());
    b.confirm_due(&["o1"]);
    b.judge("east:x:", 1);
    b
}

#[test]
fn by_policy_a_short_line_ends_the_order_or_only_itself() {
    let b = short_of_line_2(ShortPolicy::CancelOrder);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Cancelled, 550));
    assert_eq!(b.figures("main:A"), (1, 0, 0));

    let b = short_of_line_2(ShortPolicy::CancelLines);
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 200));
    assert_eq!(b.order("o1").lines[1].cancelled, 2);
    assert_eq!(b.figures("main:A"), (1, 0, 1));
    assert_eq!(b.figures("east:x:"), (1, 0, 0));
}

#[test]
fn an_order_without_an_address_is_cancelled_when_it_is_due_to_be_bought() {
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    let mut p = super::bench::nowhere(placement("o1", &[("C", 1, 100)]));
    p.payment = Some(capture("p1", 100));
    assert!(b.place(p).is_ok());
    b.confirm_due(&["o1"]);
    assert_eq!(b.order("o1").cancel_reason, Some(CancelReason::AddressMissing));
    assert_eq!(b.refunded("o1"), 100);
}

#[test]
fn a_placement_ends_overdue_orders_rather_than_lose_a_sale() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    assert!(b.place(placement("o1", &[("A", 1, 100)])).is_ok());
    assert!(b.place(placement("o2", &[("A", 1, 100)])).is_ok());
    b.wait(Span::minutes(31));
    // One is enough: the other, as old, is left to its own deadline.
    assert!(b.place(placement("o3", &[("A", 1, 100)])).is_ok());
    assert_eq!(b.order("o1").state, State::Expired);
    assert_eq!(b.order("o2").state, State::PendingPayment);
    // Three would not be: nothing is ended for a placement that is refused.
    assert_eq!(shortages(b.place(placement("o4", &[("A", 3, 100)]))), [("A".into(), 3, 1)]);
    assert_eq!(b.order("o2").state, State::PendingPayment);
}

#[test]
fn a_count_below_what_is_promised_is_refused_or_cancels_the_newest_unpaid() {
    let mut b = Bench::new();
    b.stock("main", "A", 5);
    b.paid("o1", &[("A", 2, 100)]);
    for order in ["o2", "o3"] {
        b.wait(Span::secs(1));
        assert!(b.place(placement(order, &[("A", 1, 100)])).is_ok());
    }
    let set = |to, release_newest| {
        let change = StockChange::Set { to, if_version: None, release_newest };
        stock_change("A", "main", change)
    };
    let answer = b.try_run(set(3, false));
    let Err(Refusal::BelowHeld { holds, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(holds, ["o3.1.1", "o2.1.1", "o1.1.1"]);
    let answer = b.run(set(3, true));
    assert!(matches!(answer, Outcome::Level(_, cancelled) if cancelled == ["o3".into()]));
    assert_eq!(b.figures("main:A"), (3, 1, 2));
    // Sold goods are never counted away: 1 cannot be, and then o2 stays too.
    assert!(matches!(b.try_run(set(1, true)), Err(Refusal::BelowHeld { .. })));
    assert_eq!(b.order("o2").state, State::PendingPayment);
}

#[test]
fn a_discount_on_free_goods_comes_off_the_shipping() {
    let mut b = Bench::new();
    b.stock("main", "A", 1);
    let mut p = placement("o1", &[("A", 1, 0)]);
    (p.shipping, p.discount) = (400, 100);
    p.payment = Some(capture("p1", 300));
    assert!(b.place(p).is_ok());
    assert_eq!(b.order("o1").state, State::Confirmed);
    b.run(Command::Cancel { order: "o1".into(), reason: CancelReason::Customer });
    assert_eq!(b.refunded("o1"), 300);
}

#[test]
fn a_late_payment_owes_what_was_not_cancelled() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    assert!(b.place(placement("o1", &[("A", 2, 100)])).is_ok());
    b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity: 1 });
    b.wait(Span::minutes(30));
    b.due("o1");
    assert!(b.pay("o1", capture("p1", 100)).is_ok());
    assert_eq!(b.order("o1").state, State::Confirmed);
    assert_eq!(b.figures("main:A"), (2, 0, 1));
}

/// Two units of 100, and what is given back besides is a gift by ops.
fn gift(b: &mut Bench, amount: i64) {
    let reason = "scratched".into();
    b.run(Command::RefundOrder { order: "o1".into(), amount, reason });
}

#[test]
fn excess_goes_back_at_once_whatever_ops_gave_before() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    b.paid("o1", &[("A", 2, 100)]);
    gift(&mut b, 80);
    // 200 + 50 captured for 200: the 50 go back, the gift of 80 stays one.
    assert!(b.pay("o1", capture("p2", 50)).is_ok());
    assert_eq!(b.refunded("o1"), 130);
    // A unit less: its whole price goes back. 250 − 50 − 100 = 100, and 120 are left.
    b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity: 1 });
    assert_eq!(b.refunded("o1"), 230);
    // The last one: 100 are owed back, but only 20 are left of what was captured.
    b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity: 1 });
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Cancelled, 250));
    assert!(b.pay("o1", capture("p3", 30)).is_ok());
    assert_eq!(b.refunded("o1"), 280);
}

#[test]
fn a_gift_by_ops_does_not_make_an_order_unpaid() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    assert!(b.place(placement("o1", &[("A", 2, 100)])).is_ok());
    assert!(b.pay("o1", capture("p1", 150)).is_ok());
    gift(&mut b, 40);
    assert!(b.pay("o1", capture("p2", 49)).is_ok());
    assert_eq!(b.order("o1").state, State::PendingPayment); // 199 of 200
    assert!(b.pay("o1", capture("p3", 1)).is_ok());
    assert_eq!((b.order("o1").state, b.refunded("o1")), (State::Confirmed, 40));
}

#[test]
fn never_more_goes_back_than_was_captured() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    b.paid("o1", &[("A", 2, 100)]);
    gift(&mut b, 180);
    // 100 are owed back for the unit, 20 are left.
    b.run(Command::CancelLine { order: "o1".into(), line: 1, quantity: 1 });
    assert_eq!(b.refunded("o1"), 200);
    assert_eq!(b.order("o1").state, State::Confirmed);
    // What comes in now is excess: 230 − 20 − 100 = 110, and 30 are left.
    assert!(b.pay("o1", capture("p2", 30)).is_ok());
    assert_eq!(b.refunded("o1"), 230);
}

#[test]
fn a_refund_is_made_under_one_reference() {
    let mut b = Bench::new();
    b.stock("main", "A", 2);
    b.paid("o1", &[("A", 2, 100)]);
    gift(&mut b, 80);
    let refund = b.order("o1").refunds[0].id.clone();
    let resolve = |reference: Option<&str>| Command::ResolveRefund {
        refund: refund.clone(),
        made: true,
        reference: reference.map(str::to_owned),
    };
    b.run(resolve(None));
    for (given, kept) in [(None, None), (Some("bank-7"), Some("bank-7")), (None, Some("bank-7"))] {
        b.run(resolve(given));
        assert_eq!(b.order("o1").refunds[0].reference.as_deref(), kept);
    }
    let other = b.try_run(resolve(Some("bank-8")));
    assert!(matches!(other, Err(Refusal::Conflict("succeeded", _))), "{other:?}");
    assert_eq!(b.order("o1").refunds[0].reference.as_deref(), Some("bank-7"));
}

#[test]
fn a_supplier_ships_and_the_order_is_shipped_with_it() {
    let mut b = Bench::new();
    b.feed("east:x:", 9);
    b.bought("o1", 2, "e1");
    b.poll("o1-east-1", UpstreamState::Paid);
    b.poll("o1-east-1", UpstreamState::Shipped);
    assert_eq!(b.order("o1").state, State::Shipped);
    assert_eq!(b.order("o1").lines[0].shipped, 2);
    b.wait(Span::days(14));
    b.due("o1");
    assert_eq!(b.order("o1").state, State::Completed);
}
