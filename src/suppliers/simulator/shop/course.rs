//! The course of things in the shop: what is planned, and what each step does when its time comes.
//!
//! What must hold: the agenda is worked off in order of time, equal times in the order planned; a
//! step whose order has gone another way meanwhile does nothing. Everything here is given a time up
//! to which the agenda has been worked off.

use rand::Rng;

use super::{NotPlaced, Placed, Shop, Wrong};
use crate::clock::{Span, Timestamp};
use crate::suppliers::simulator::basket::Basket;
use crate::suppliers::simulator::order::{By, Closing, Line, Order, Status};
use crate::suppliers::simulator::settings::{CountsAt, Repeated, Shortage};

/// The first order's id: 19 digits, above 2^53, so that a client that reads it as a double is found.
const FIRST_ORDER: u64 = 3_657_499_272_179_232_333;
/// Between two orders' ids there is room for the ids of lines.
const ORDER_STEP: u64 = 1_009;

/// A step that is planned.
#[derive(Debug)]
pub(super) enum Event {
    Pay(u64),
    CloseUnpaid(u64),
    Ship(u64),
    Receive(u64),
    Complete(u64),
    Visit { buyers: usize, round: u64 },
    Land(Box<Basket>),
}

impl Shop {
    /// Lets everything happen that was due by `now`. Returns the shop's time, which never goes back.
    pub fn settle(&mut self, now: Timestamp) -> Timestamp {
        while let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= now) {
            let ((at, _), event) = entry.remove_entry();
            self.now = self.now.max(at);
            self.happen(event, self.now);
        }
        self.now = self.now.max(now);
        self.now
    }

    fn happen(&mut self, event: Event, at: Timestamp) {
        // Each of these does nothing when the order has gone another way meanwhile.
        let _ = match event {
            Event::Pay(id) => self.pay_settled(id, at),
            Event::CloseUnpaid(id) => self.close_unpaid(id, at),
            Event::Ship(id) => self.ship_settled(id, at),
            Event::Receive(id) => self.receive_settled(id, at),
            Event::Complete(id) => {
                self.step(id, Status::Received, |order| order.completed_at = Some(at))
            }
            Event::Visit { buyers, round } => {
                self.visit(buyers, round, at);
                Ok(())
            }
            Event::Land(basket) => {
                let _ = self.place_settled(*basket, at);
                Ok(())
            }
        };
    }

    pub(super) fn place_settled(
        &mut self,
        basket: Basket,
        now: Timestamp,
    ) -> Result<Placed, NotPlaced> {
        if let Some(order) = self.earlier(&basket) {
            return Ok(Placed { order: order.clone(), left_out: Vec::new() });
        }
        let judgement = self.judge(&basket, now).map_err(NotPlaced::Refused)?;
        if let Some((_, refusal)) = judgement.short.first() {
            match self.trade.shortage {
                Shortage::Code => return Err(NotPlaced::Refused(refusal.clone())),
                Shortage::LeaveOut if !judgement.good.is_empty() => {}
                Shortage::Lines | Shortage::LeaveOut => {
                    return Err(NotPlaced::Short(judgement.short));
                }
            }
        }
        let made = u64::try_from(self.orders.len()).unwrap_or(u64::MAX);
        let order = Order {
            id: FIRST_ORDER.saturating_add(made.saturating_mul(ORDER_STEP)),
            reference: basket.reference,
            seller: judgement.seller,
            lines: judgement.good,
            post_fee_fen: self.trade.post_fee_fen,
            message: basket.message,
            address: basket.address,
            created_at: now,
            paid_at: None,
            shipped_at: None,
            received_at: None,
            completed_at: None,
            closed: None,
            holds_stock: false,
        };
        Ok(Placed { order: self.enter(order, now), left_out: judgement.short })
    }

    fn enter(&mut self, mut order: Order, now: Timestamp) -> Order {
        if self.trade.stock_counts_at == CountsAt::Order {
            self.take_stock(&mut order, now);
        }
        if let Some(reference) = &order.reference {
            self.by_reference.entry(reference.clone()).or_default().push(order.id);
        }
        self.plan_after(self.trade.auto_pay_after, now, Event::Pay(order.id));
        self.plan_after(self.trade.unpaid_close_after, now, Event::CloseUnpaid(order.id));
        self.orders.insert(order.id, order.clone());
        order
    }

    /// The order that a repeated reference stands for, where the platform keeps it once.
    fn earlier(&self, basket: &Basket) -> Option<&Order> {
        if self.trade.repeated_reference == Repeated::SecondOrder {
            return None;
        }
        let ids = self.by_reference.get(basket.reference.as_deref()?)?;
        self.orders.get(ids.first()?)
    }

    pub(super) fn pay_settled(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        let mut order = self.orders.get(&id).ok_or(Wrong::NoOrder)?.clone();
        if order.status() != Status::Unpaid {
            return Err(Wrong::State);
        }
        if !order.holds_stock {
            let there = |line: &Line| self.stock_at(&line.item, now) >= line.quantity;
            if !order.lines.iter().all(there) {
                return self.close_settled(id, By::Seller, "库存不足", now);
            }
            self.take_stock(&mut order, now);
        }
        order.paid_at = Some(now);
        self.orders.insert(id, order);
        self.plan_after(self.trade.ship_after, now, Event::Ship(id));
        Ok(())
    }

    pub(super) fn ship_settled(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        self.step(id, Status::Paid, |order| order.shipped_at = Some(now))?;
        self.plan_after(self.trade.receive_after, now, Event::Receive(id));
        Ok(())
    }

    pub(super) fn receive_settled(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        self.step(id, Status::Shipped, |order| order.received_at = Some(now))?;
        self.plan_after(self.trade.complete_after, now, Event::Complete(id));
        Ok(())
    }

    fn close_unpaid(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        match self.orders.get(&id).map(Order::status) {
            Some(Status::Unpaid) => self.close_settled(id, By::System, "买家超时未付款", now),
            _ => Err(Wrong::State),
        }
    }

    pub(super) fn close_settled(
        &mut self,
        id: u64,
        by: By,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), Wrong> {
        let order = self.orders.get_mut(&id).ok_or(Wrong::NoOrder)?;
        if order.status() > Status::Shipped {
            return Err(Wrong::State);
        }
        order.closed = Some(Closing { at: now, by, reason: reason.to_owned() });
        if std::mem::take(&mut order.holds_stock) {
            for line in &order.lines {
                if let Some(shelf) = self.shelves.get_mut(&line.item) {
                    shelf.give_back(line.quantity, now);
                }
            }
        }
        Ok(())
    }

    fn take_stock(&mut self, order: &mut Order, now: Timestamp) {
        for line in &order.lines {
            if let Some(shelf) = self.shelves.get_mut(&line.item) {
                shelf.take(line.quantity, now);
            }
        }
        order.holds_stock = true;
    }

    fn step(&mut self, id: u64, from: Status, set: impl FnOnce(&mut Order)) -> Result<(), Wrong> {
        let order = self.orders.get_mut(&id).ok_or(Wrong::NoOrder)?;
        if order.status() != from {
            return Err(Wrong::State);
        }
        set(order);
        Ok(())
    }

    fn visit(&mut self, index: usize, round: u64, now: Timestamp) {
        let current = self.buyers.get(index).filter(|_| round == self.buyers_round);
        let Some((item, units)) = current.map(|buyers| (buyers.item(), buyers.units)) else {
            return;
        };
        if let Some(shelf) = self.shelves.get_mut(&item) {
            shelf.sell_to_others(units, now);
        }
        self.plan_visit(index, now);
    }

    /// The next visit comes after an exponentially distributed time, as of many independent people.
    pub(super) fn plan_visit(&mut self, index: usize, now: Timestamp) {
        let Some(per_second) = self.buyers.get(index).map(|buyers| buyers.per_second) else {
            return;
        };
        let drawn: f64 = self.dice.random();
        let secs = -(1.0 - drawn).ln() / per_second;
        let pause = Span::from_std(std::time::Duration::from_secs_f64(secs.clamp(1e-6, 1e9)));
        self.plan(now + pause, Event::Visit { buyers: index, round: self.buyers_round });
    }

    fn plan_after(&mut self, wait: Option<Span>, now: Timestamp, event: Event) {
        if let Some(wait) = wait {
            self.plan(now + wait, event);
        }
    }

    pub(super) fn plan(&mut self, at: Timestamp, event: Event) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), event);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::supply::Item;
    use crate::suppliers::simulator::settings::{Buyers, Settings};

    const OFFER: &str = "554456348334";

    /// What somebody does to the shop; numbers choose an order, units or a pause.
    #[derive(Clone, Debug)]
    enum Deed {
        Place { reference: u8, units: i64 },
        PlaceLater { reference: u8, units: i64, secs: i64 },
        Pay(u8),
        Ship(u8),
        Receive(u8),
        Cancel(u8),
        CloseBySeller(u8),
        OthersTake(i64),
        SetStock(i64),
        Wait(i64),
    }

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let (reference, units) = (0..20_u8, 1..6_i64);
        let deed = prop_oneof![
            4 => (reference.clone(), units.clone())
                .prop_map(|(reference, units)| Deed::Place { reference, units: units * 2 }),
            1 => (reference, units, 0..300_i64).prop_map(|(reference, units, secs)| {
                Deed::PlaceLater { reference, units: units * 2, secs }
            }),
            3 => any::<u8>().prop_map(Deed::Pay),
            1 => any::<u8>().prop_map(Deed::Ship),
            1 => any::<u8>().prop_map(Deed::Receive),
            1 => any::<u8>().prop_map(Deed::Cancel),
            1 => any::<u8>().prop_map(Deed::CloseBySeller),
            1 => (0..8_i64).prop_map(Deed::OthersTake),
            1 => (0..30_i64).prop_map(Deed::SetStock),
            3 => (0..120_i64).prop_map(Deed::Wait),
        ];
        prop::collection::vec(deed, 1..80)
    }

    fn tape() -> Item {
        Item { offer_id: OFFER.into(), spec_id: None }
    }

    fn basket(reference: u8, units: i64) -> Basket {
        Basket {
            lines: vec![(tape(), units)],
            reference: Some(format!("so-{reference}")),
            message: String::new(),
            address: serde_json::Value::Null,
        }
    }

    fn act(shop: &mut Shop, deed: &Deed, now: Timestamp) {
        let orders: Vec<u64> = shop.orders().map(|order| order.id).collect();
        let chosen = |pick: u8| orders.get(usize::from(pick) % orders.len().max(1)).copied();
        let id = |pick: u8| chosen(pick).unwrap_or(0);
        // Most deeds are impossible at most moments; a refused one must change nothing.
        let _ = match deed {
            Deed::Place { reference, units } => {
                shop.place(basket(*reference, *units), now).map(drop).map_err(|_| Wrong::State)
            }
            Deed::PlaceLater { reference, units, secs } => {
                shop.place_later(basket(*reference, *units), now + Span::secs(*secs));
                Ok(())
            }
            Deed::Pay(pick) => shop.pay(id(*pick), now),
            Deed::Ship(pick) => shop.ship(id(*pick), now),
            Deed::Receive(pick) => shop.receive(id(*pick), now),
            Deed::Cancel(pick) => shop.cancel(id(*pick), "other", now),
            Deed::CloseBySeller(pick) => shop.close(id(*pick), By::Seller, "", now),
            Deed::OthersTake(units) => shop.other_buyer_takes(&tape(), *units, now).map(drop),
            Deed::SetStock(units) => shop.set_stock(&tape(), *units, now),
            Deed::Wait(_) => Ok(()),
        };
    }

    /// The books, recomputed from the orders.
    fn check(shop: &Shop, counts_at: CountsAt) {
        let book = shop.book();
        let entry = book.iter().find(|entry| entry.item == tape()).unwrap();
        let account = entry.account;
        let units = |holds: &dyn Fn(&Order) -> bool| -> i64 {
            let orders = shop.orders().filter(|order| holds(order));
            orders.flat_map(|order| &order.lines).map(|line| line.quantity).sum()
        };
        let open = |order: &Order| order.closed.is_none();
        let paid = |order: &Order| open(order) && order.paid_at.is_some();
        let held = match counts_at {
            CountsAt::Order => units(&open),
            CountsAt::Payment => units(&paid),
        };
        assert_eq!(account.ours, held);
        assert_eq!((entry.ordered, entry.bought), (units(&open), units(&paid)));
        assert_eq!(account.stock, entry.had_for_us - account.ours);
        assert!(account.stock >= 0 && entry.bought <= entry.had_for_us, "{entry:?}");
    }

    proptest! {
        #[test]
        fn the_books_balance_whatever_happens(
            deeds in deeds(), at_order in any::<bool>(), twice in any::<bool>(), seed in any::<u64>()
        ) {
            let mut settings = Settings::quiet();
            settings.offers[1].stock = 20;
            let counts_at = if at_order { CountsAt::Order } else { CountsAt::Payment };
            settings.trade.stock_counts_at = counts_at;
            if twice {
                settings.trade.repeated_reference = Repeated::SecondOrder;
            }
            settings.trade.auto_pay_after = Some(Span::secs(90));
            settings.trade.unpaid_close_after = Some(Span::secs(60));
            settings.trade.ship_after = Some(Span::secs(100));
            let mut now = Timestamp::from_secs(0);
            let mut shop = Shop::new(settings.trade, &settings.offers, seed, now);
            let buyers =
                Buyers { offer_id: OFFER.into(), spec_id: None, per_second: 0.01, units: 1 };
            shop.set_buyers(vec![buyers], now);
            for deed in deeds {
                act(&mut shop, &deed, now);
                if let Deed::Wait(secs) = deed {
                    now = now + Span::secs(secs);
                    shop.settle(now);
                }
                check(&shop, counts_at);
            }
        }
    }
}
