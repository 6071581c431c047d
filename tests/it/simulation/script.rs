//! What people, sellers and feeds do, as data that proptest can shrink; and how it is carried out.

use proptest::prelude::*;
use stockhold::clock::Span;
use stockhold::domain::command::{Action as Ruling, Command, PurchaseResolution, StockChange};
use stockhold::domain::order::{CancelReason, Order, ShortPolicy, State};
use stockhold::domain::outcome::{Outcome, Refusal, Touch};
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::refund::RefundState;
use stockhold::domain::sku::{Class, Kind, What};
use stockhold::domain::supply::Figure;

use super::driver::Sim;
use super::stage::{
    ITEMS, SKUS, address, capture, catalogue, item, placement, stock_change, supplier_level,
};

/// How much is paid: nothing, a part, all, too much.
#[derive(Clone, Copy, Debug)]
pub enum Sum {
    None,
    Part,
    All,
    More,
}

#[derive(Clone, Debug)]
pub struct Basket {
    pub lines: Vec<(usize, i64, i64)>,
    pub shipping: i64,
    pub discount: i64,
    pub paid: Sum,
    pub cut_short_lines: bool,
    pub addressed: bool,
}

#[derive(Clone, Debug)]
pub enum Act {
    Place(Basket),
    /// Many paid orders of one supplier's SKU at once.
    Rush {
        sku: usize,
        orders: usize,
        units: i64,
        cut_short_lines: bool,
    },
    /// The same placement again, or its external id with other content.
    PlaceAgain {
        order: usize,
        same: bool,
    },
    Pay {
        order: usize,
        sum: Sum,
    },
    /// A payment id that was used: the same, with another amount, or for another order.
    PayAgain {
        order: usize,
        other: usize,
        more: i64,
    },
    InProgress {
        order: usize,
    },
    Cancel {
        order: usize,
    },
    CancelLine {
        order: usize,
        line: i64,
        units: i64,
    },
    ShipTo {
        order: usize,
    },
    Ship {
        order: usize,
        line: usize,
        units: i64,
    },
    Complete {
        order: usize,
    },
    Refund {
        order: usize,
        amount: i64,
    },
    Rule {
        order: usize,
        retry: bool,
    },
    Restock {
        sku: usize,
        by: i64,
    },
    Count {
        sku: usize,
        to: i64,
        release: bool,
    },
    Pause {
        at: usize,
        buying: bool,
        on: bool,
    },
    Rewrite {
        sku: usize,
        flip: bool,
        buffer: i64,
    },
    /// An old or a strange reading; minutes of age.
    Read {
        item: usize,
        age: i64,
        kind: u8,
        feed: bool,
    },
    Others {
        item: usize,
        by: i64,
    },
    Close {
        supplier: usize,
        pick: usize,
    },
    Listed {
        item: usize,
        on: bool,
    },
    Resolve {
        pick: usize,
    },
    RetryPurchase {
        pick: usize,
    },
    Refunds {
        pick: usize,
        made: bool,
        retry: bool,
    },
    Restore {
        on: bool,
    },
    Wait {
        minutes: i64,
    },
}

fn sum() -> impl Strategy<Value = Sum> {
    prop_oneof![2 => Just(Sum::None), 1 => Just(Sum::Part), 6 => Just(Sum::All), 1 => Just(Sum::More)]
}

fn basket() -> impl Strategy<Value = Basket> {
    let line = (0..SKUS.len(), 1..5i64, prop_oneof![Just(0i64), 1..700i64]);
    let lines = prop::collection::vec(line, 1..4);
    let rest = (0..300i64, prop_oneof![3 => Just(0i64), 2 => 0..400i64], sum());
    (lines, rest, any::<bool>(), prop::bool::weighted(0.9)).prop_map(
        |(lines, (shipping, discount, paid), cut_short_lines, addressed)| Basket {
            lines,
            shipping,
            discount,
            paid,
            cut_short_lines,
            addressed,
        },
    )
}

/// One thing that somebody does.
pub fn act() -> impl Strategy<Value = Act> {
    let order = || 0..12usize;
    prop_oneof![
        30 => basket().prop_map(Act::Place),
        8 => (1..5usize, 2..6usize, 1..4i64, any::<bool>()).prop_map(
            |(sku, orders, units, cut_short_lines)| Act::Rush { sku, orders, units, cut_short_lines }
        ),
        2 => (order(), any::<bool>()).prop_map(|(order, same)| Act::PlaceAgain { order, same }),
        12 => (order(), sum()).prop_map(|(order, sum)| Act::Pay { order, sum }),
        2 => (order(), order(), 0..2i64)
            .prop_map(|(order, other, more)| Act::PayAgain { order, other, more }),
        2 => order().prop_map(|order| Act::InProgress { order }),
        9 => order().prop_map(|order| Act::Cancel { order }),
        9 => (order(), 1..4i64, 1..4i64)
            .prop_map(|(order, line, units)| Act::CancelLine { order, line, units }),
        1 => order().prop_map(|order| Act::ShipTo { order }),
        6 => (order(), 0..3usize, 1..4i64)
            .prop_map(|(order, line, units)| Act::Ship { order, line, units }),
        1 => order().prop_map(|order| Act::Complete { order }),
        2 => (order(), 1..90i64).prop_map(|(order, amount)| Act::Refund { order, amount }),
        5 => (order(), any::<bool>()).prop_map(|(order, retry)| Act::Rule { order, retry }),
        9 => stock_act(),
        14 => supply_act(),
        30 => prop_oneof![4 => 1..12i64, 2 => 12..90i64, 1 => 90..1500i64]
            .prop_map(|minutes| Act::Wait { minutes }),
    ]
}

fn stock_act() -> impl Strategy<Value = Act> {
    let sku = || 0..SKUS.len();
    prop_oneof![
        3 => (sku(), -3..6i64).prop_map(|(sku, by)| Act::Restock { sku, by }),
        2 => (sku(), 0..8i64, any::<bool>())
            .prop_map(|(sku, to, release)| Act::Count { sku, to, release }),
        1 => (0..8usize, any::<bool>(), any::<bool>())
            .prop_map(|(at, buying, on)| Act::Pause { at, buying, on }),
        1 => (sku(), any::<bool>(), 0..3i64)
            .prop_map(|(sku, flip, buffer)| Act::Rewrite { sku, flip, buffer }),
    ]
}

fn supply_act() -> impl Strategy<Value = Act> {
    let item = || 0..ITEMS.len();
    prop_oneof![
        3 => (item(), 0..90i64, 0..6u8, any::<bool>())
            .prop_map(|(item, age, kind, feed)| Act::Read { item, age, kind, feed }),
        5 => (item(), -9..5i64).prop_map(|(item, by)| Act::Others { item, by }),
        2 => (0..2usize, 0..9usize).prop_map(|(supplier, pick)| Act::Close { supplier, pick }),
        1 => (item(), prop::bool::weighted(0.7)).prop_map(|(item, on)| Act::Listed { item, on }),
        2 => (0..9usize).prop_map(|pick| Act::Resolve { pick }),
        1 => (0..9usize).prop_map(|pick| Act::RetryPurchase { pick }),
        2 => (0..9usize, any::<bool>(), any::<bool>())
            .prop_map(|(pick, made, retry)| Act::Refunds { pick, made, retry }),
        1 => any::<bool>().prop_map(|on| Act::Restore { on }),
    ]
}

impl Sim {
    fn nth(&self, n: usize) -> Option<&Order> {
        self.store.orders.values().nth(n % self.store.orders.len().max(1))
    }

    fn fresh(&mut self, what: &str) -> String {
        format!("{what}{:06}", self.steps)
    }

    pub fn act(&mut self, act: &Act, honest: bool) {
        match act {
            Act::Place(basket) => self.place(basket),
            Act::Rush { sku, orders, units, cut_short_lines } => {
                let basket = Basket {
                    lines: vec![(*sku, *units, 100), (4, 1, 50)],
                    shipping: 0,
                    discount: 0,
                    paid: Sum::All,
                    cut_short_lines: *cut_short_lines,
                    addressed: true,
                };
                let baskets = (0..*orders).map(|n| {
                    let one = basket.lines.iter().take(1 + n % 2).copied().collect();
                    Basket { lines: one, ..basket.clone() }
                });
                let baskets: Vec<Basket> = baskets.collect();
                let group: Vec<Command> = baskets.iter().map(|b| self.placement(b)).collect();
                let answers = self.submit_group(&group);
                group.iter().zip(answers).for_each(|(c, answer)| self.placed(c, answer));
            }
            Act::Wait { minutes } => self.run_for(Span::minutes(*minutes)),
            Act::Restore { on } => self.store.restored_at = on.then_some(self.now),
            Act::Others { item: i, by } => {
                let (supplier, offer) = ITEMS[*i];
                let (now, by) = (self.now, if honest { by.abs() } else { *by });
                let shop = self.shops.get_mut(supplier).expect("a shop");
                shop.others(now, &item(offer), by);
            }
            Act::Close { supplier, pick } => {
                let (now, name) = (self.now, ["east", "west"][*supplier]);
                self.shops.get_mut(name).expect("a shop").close_one(now, *pick);
            }
            Act::Listed { item: i, on } => {
                let (supplier, offer) = ITEMS[*i];
                let now = self.now;
                let shop = self.shops.get_mut(supplier).expect("a shop");
                let units = shop.has(&item(offer));
                if !honest {
                    shop.offer(&item(offer), on.then_some(units), now);
                }
            }
            Act::Read { item: i, age, kind, feed } => {
                self.read(*i, Span::minutes(*age), if honest { 0 } else { *kind }, *feed);
            }
            Act::Resolve { .. } | Act::RetryPurchase { .. } | Act::Refunds { .. } => self.ops(act),
            Act::Restock { .. } | Act::Count { .. } | Act::Pause { .. } | Act::Rewrite { .. } => {
                self.stock(act);
            }
            _ => self.about_order(act),
        }
    }

    fn place(&mut self, basket: &Basket) {
        let placement = self.placement(basket);
        let answer = self.submit(&placement);
        self.placed(&placement, answer);
    }

    fn placement(&mut self, basket: &Basket) -> Command {
        self.steps += 1;
        let id = self.fresh("o");
        let lines: Vec<(&str, i64, i64)> =
            basket.lines.iter().map(|(sku, n, price)| (SKUS[*sku], *n, *price)).collect();
        let mut p = placement(&id, &lines);
        let total: i64 = lines.iter().map(|l| l.1 * l.2).sum::<i64>() + basket.shipping;
        p.shipping = basket.shipping;
        p.discount = basket.discount.min(total);
        if basket.cut_short_lines {
            p.short_policy = ShortPolicy::CancelLines;
        }
        if !basket.addressed {
            p.ship_to = None;
        }
        let amount = amount(basket.paid, total - p.discount);
        if amount > 0 {
            p.payment = Some(capture(&format!("p{id}"), amount));
        }
        Command::Place(Box::new(p))
    }

    fn placed(&self, command: &Command, answer: Result<Outcome, Refusal>) {
        let Command::Place(p) = command else { return };
        match answer {
            Ok(Outcome::Order { touch: Touch::Created, order }) => assert_eq!(order.id, p.id),
            Err(Refusal::InsufficientStock(_) | Refusal::StaleFeed(_) | Refusal::SkuPaused(_)) => {
                assert!(!self.store.orders.contains_key(&p.id));
            }
            other => panic!("placing {p:?}: {other:?}"),
        }
    }

    fn about_order(&mut self, act: &Act) {
        let which = match act {
            Act::PlaceAgain { order, .. }
            | Act::Pay { order, .. }
            | Act::PayAgain { order, .. }
            | Act::InProgress { order }
            | Act::Cancel { order }
            | Act::CancelLine { order, .. }
            | Act::ShipTo { order }
            | Act::Ship { order, .. }
            | Act::Complete { order }
            | Act::Refund { order, .. }
            | Act::Rule { order, .. } => *order,
            _ => return,
        };
        let Some(o) = self.nth(which).cloned() else { return };
        let id = o.id.clone();
        match act {
            Act::PlaceAgain { same, .. } => self.place_again(&o, *same),
            Act::Pay { sum, .. } => {
                let worth = super::audit::worth(&o, |l| l.quantity - l.cancelled);
                let open = worth - stockhold::domain::pricing::paid(&o);
                let amount = amount(*sum, open);
                if amount > 0 {
                    let payment = capture(&self.fresh("p"), amount);
                    let paid = self.submit(&Command::Pay { order: id, payment });
                    assert!(paid.is_ok(), "{paid:?}");
                }
            }
            Act::PayAgain { other, more, .. } => self.pay_again(&o, *other, *more),
            Act::InProgress { .. } => {
                let payment_id = self.fresh("p");
                let _ = self.submit(&Command::PaymentInProgress { order: id, payment_id });
            }
            Act::Cancel { .. } => {
                let _ = self.submit(&Command::Cancel { order: id, reason: CancelReason::Customer });
            }
            Act::CancelLine { line, units, .. } => {
                let (line, quantity) = (*line, *units);
                let _ = self.submit(&Command::CancelLine { order: id, line, quantity });
            }
            Act::ShipTo { .. } => {
                let _ = self.submit(&Command::ShipTo { order: id, address: address() });
            }
            Act::Ship { line, units, .. } => {
                let line = o.lines[line % o.lines.len()].no;
                let _ = self.submit(&ship(&o, vec![(line, *units)]));
            }
            Act::Complete { .. } => {
                let _ = self.submit(&Command::Complete { order: id });
            }
            Act::Refund { amount, .. } => {
                let (amount, reason) = (*amount, "goodwill".into());
                let _ = self.submit(&Command::RefundOrder { order: id, amount, reason });
            }
            Act::Rule { retry, .. } => {
                let action = if *retry { Ruling::Retry } else { Ruling::Cancel };
                let _ = self.submit(&Command::Decide { order: id, action });
            }
            _ => {}
        }
    }

    fn place_again(&mut self, o: &Order, same: bool) {
        let mut p = placement(o.id.as_str(), &[("A", 1, 100)]);
        p.id = self.fresh("o").into();
        p.external_id = o.external_id.clone();
        p.content_hash = if same { o.content_hash.clone() } else { "other".into() };
        match self.submit(&Command::Place(Box::new(p))) {
            Ok(Outcome::Order { touch: Touch::Existing, order }) if same => {
                assert_eq!(order.id, o.id)
            }
            Err(Refusal::ExternalIdConflict) if !same => {}
            other => panic!("placing again: {other:?}"),
        }
    }

    fn pay_again(&mut self, o: &Order, other: usize, more: i64) {
        let Some(payment) = o.payments.first() else { return };
        let Some(target) = self.nth(other).map(|o| o.id.clone()) else { return };
        let payment = capture(&payment.id, payment.amount + more);
        let same = target == o.id && more == 0;
        match self.submit(&Command::Pay { order: target, payment }) {
            Ok(_) if same => {}
            Err(Refusal::PaymentConflict(_)) if !same => {}
            other => panic!("paying again: {other:?}"),
        }
    }

    fn stock(&mut self, act: &Act) {
        match act {
            Act::Restock { sku, by } => {
                let _ = self.submit(&stock_change(SKUS[*sku], "main", StockChange::Delta(*by)));
            }
            Act::Count { sku, to, release } => {
                let change =
                    StockChange::Set { to: *to, if_version: None, release_newest: *release };
                let _ = self.submit(&stock_change(SKUS[*sku], "main", change));
            }
            Act::Pause { at, buying, on } => {
                let what = if *buying { What::Buying } else { What::Selling };
                let reason = "stop".to_owned();
                let sku = SKUS.get(*at).map(|s| (*s).into());
                let supplier = if *at == 6 { "east".into() } else { "west".into() };
                let _ = self.submit(&match (sku, on) {
                    (Some(sku), true) => Command::PauseSku { sku, what, reason, by: "ops".into() },
                    (Some(sku), false) => {
                        Command::ResumeSku { sku, what, reason, by: "ops".into() }
                    }
                    (None, true) => {
                        Command::PauseSupplier { supplier, what, reason, by: "ops".into() }
                    }
                    (None, false) => {
                        Command::ResumeSupplier { supplier, what, reason, by: "ops".into() }
                    }
                });
            }
            Act::Rewrite { sku, flip, buffer } => {
                let mut sku = catalogue().swap_remove(*sku);
                if *flip {
                    sku.sources.reverse();
                }
                sku.sources.iter_mut().for_each(|s| s.buffer = Some(*buffer));
                sku.class = if *flip { Class::Hot } else { Class::Normal };
                assert!(self.submit(&Command::PutSku(Box::new(sku))).is_ok());
            }
            _ => {}
        }
    }

    /// What the shop would have answered a while ago, or nonsense.
    fn read(&mut self, i: usize, age: Span, kind: u8, feed: bool) {
        let (supplier, offer) = ITEMS[i];
        let then = self.now - age;
        let mut reading = self.shops[supplier].reading(&item(offer), then, then, self.now);
        match kind {
            1 => reading.figure = Figure::Unknown("torn".into()),
            2 => reading.figure = Figure::Missing,
            3 => reading.figure = Figure::Listed(-1),
            4 => reading.stated_at = Some(then - Span::minutes(7)),
            _ => {}
        }
        let level = supplier_level(supplier, offer);
        let readings = vec![(level, reading)];
        let read = self.submit(&Command::Readings { supplier: supplier.into(), readings, feed });
        assert!(read.is_ok(), "{read:?}");
    }

    fn ops(&mut self, act: &Act) {
        let purchases = self.store.orders.values().flat_map(|o| &o.purchases);
        let refunds = self.store.orders.values().flat_map(|o| &o.refunds);
        match act {
            Act::Resolve { pick } => {
                let unknown: Vec<_> =
                    purchases.filter(|p| p.state == PurchaseState::Unknown).collect();
                let Some(p) = unknown.get(pick % unknown.len().max(1)) else { return };
                let sales = self.shops[&p.supplier].by_reference(p.id.as_str());
                let resolution = match sales.first() {
                    Some(sale) => PurchaseResolution::Placed { supplier_order_id: sale.id.clone() },
                    None => PurchaseResolution::NotPlaced,
                };
                let purchase = p.id.clone();
                let resolved = self.submit(&Command::ResolvePurchase { purchase, resolution });
                assert!(resolved.is_ok(), "{resolved:?}");
            }
            Act::RetryPurchase { pick } => {
                let all: Vec<_> = purchases.map(|p| p.id.clone()).collect();
                let Some(purchase) = all.get(pick % all.len().max(1)).cloned() else { return };
                let _ = self.submit(&Command::RetryPurchase { purchase });
            }
            Act::Refunds { pick, made, retry } => {
                let open: Vec<_> =
                    refunds.filter(|r| r.state == RefundState::NeedsAttention).collect();
                let Some(refund) = open.get(pick % open.len().max(1)) else { return };
                let (refund, reference) = (refund.id.clone(), None);
                let made = *made && self.provider.made.contains_key(&refund);
                let command = if *retry {
                    Command::RetryRefund { refund }
                } else {
                    Command::ResolveRefund { refund, made, reference }
                };
                assert!(self.submit(&command).is_ok());
            }
            _ => {}
        }
    }

    /// Ships everything from our own shelves that may leave.
    pub fn ship_all(&mut self) {
        let confirmed: Vec<Order> =
            self.store.orders.values().filter(|o| o.state == State::Confirmed).cloned().collect();
        for o in confirmed {
            let sold = o.holds.iter().filter(|h| h.kind == Kind::Warehouse && h.is_open());
            let lines: Vec<(i64, i64)> = sold.map(|h| (h.line, h.quantity)).collect();
            if !lines.is_empty() && o.cancel_requested.is_none() {
                let shipped = self.submit(&ship(&o, lines));
                assert!(shipped.is_ok(), "{shipped:?}");
            }
        }
    }
}

fn amount(sum: Sum, open: i64) -> i64 {
    match sum {
        Sum::None => 0,
        Sum::Part => open / 2,
        Sum::All => open,
        Sum::More => open + 7,
    }
}

fn ship(order: &Order, lines: Vec<(i64, i64)>) -> Command {
    Command::Ship {
        order: order.id.clone(),
        lines,
        carrier: "DHL".into(),
        tracking_number: "1".into(),
    }
}
