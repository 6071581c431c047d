//! The simulated seller: shelves, orders, and everything that happens to them in time.
//!
//! Pure: no I/O, no clock, no tasks. What is to happen later (a payment, a shipment, other people
//! buying, a create that lands late) stands in an agenda; every call first lets happen, in order of
//! time, what was due by then, so that the same calls at the same times give the same shop.
//!
//! What must hold: no shelf goes below zero; an order's units leave the shelf once and come back at
//! most once; with stock counted at payment, only paid orders have units.

mod course;

use std::collections::{BTreeMap, HashMap};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;

use self::course::Event;
use super::basket::{self, Basket, Judgement, Refusal};
use super::offers::Offer;
use super::order::{By, Line, Order, Status};
use super::settings::{Buyers, Trade};
use super::shelf::{Account, Shelf};
use crate::clock::Timestamp;
use crate::domain::supply::Item;

/// The shop.
#[derive(Debug)]
pub struct Shop {
    trade: Trade,
    offers: BTreeMap<String, Offer>,
    shelves: BTreeMap<Item, Shelf>,
    orders: BTreeMap<u64, Order>,
    by_reference: HashMap<String, Vec<u64>>,
    agenda: BTreeMap<(Timestamp, u64), Event>,
    /// Numbers the agenda's entries, so that equal times keep their order.
    planned: u64,
    buyers: Vec<Buyers>,
    /// Rises when `buyers` is replaced: visits planned before are void.
    buyers_round: u64,
    dice: StdRng,
    now: Timestamp,
}

/// What a create made.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    pub order: Order,
    /// Lines that the order leaves out (`Shortage::LeaveOut`).
    pub left_out: Vec<(Line, Refusal)>,
}

/// Why a create made nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum NotPlaced {
    /// One code for the whole basket.
    Refused(Refusal),
    /// Line by line (`Shortage::Lines`, or no line is left).
    Short(Vec<(Line, Refusal)>),
}

/// Why an order cannot be paid, shipped, received or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("there is no such order")]
    NoOrder,
    #[error("the order's state does not allow it")]
    State,
    #[error("the order is too young to be closed by its buyer")]
    TooFast,
    #[error("there is no such item or offer")]
    NoItem,
}

/// One item in the books: its units, and what our orders ask of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BookEntry {
    #[serde(flatten)]
    pub item: Item,
    #[serde(flatten)]
    pub account: Account,
    /// `initial + restocked − removed − others`: what the supplier had for us.
    pub had_for_us: i64,
    /// Units of all our orders that are not closed, paid or not.
    pub ordered: i64,
    /// Units of our orders that are paid and not closed.
    pub bought: i64,
}

impl Shop {
    pub fn new(trade: Trade, offers: &[Offer], seed: u64, now: Timestamp) -> Shop {
        let stock = offers.iter().flat_map(Offer::starting_stock);
        Shop {
            trade,
            shelves: stock.map(|(item, units)| (item, Shelf::new(units))).collect(),
            offers: offers.iter().map(|o| (o.offer_id.clone(), o.clone())).collect(),
            orders: BTreeMap::new(),
            by_reference: HashMap::new(),
            agenda: BTreeMap::new(),
            planned: 0,
            buyers: Vec::new(),
            buyers_round: 0,
            dice: StdRng::seed_from_u64(seed),
            now,
        }
    }

    /// New rules, for what happens from now on. Steps already planned stay.
    pub fn set_trade(&mut self, trade: Trade) {
        self.trade = trade;
    }

    /// Other people, from `now` on, in place of those before.
    pub fn set_buyers(&mut self, buyers: Vec<Buyers>, now: Timestamp) {
        let now = self.settle(now);
        self.buyers = buyers;
        self.buyers_round += 1;
        for index in 0..self.buyers.len() {
            self.plan_visit(index, now);
        }
    }

    pub fn offer(&self, offer_id: &str) -> Option<&Offer> {
        self.offers.get(offer_id)
    }

    /// Takes an offer off the site, or back on (`published`).
    ///
    /// # Errors
    /// When there is no such offer.
    pub fn set_status(&mut self, offer_id: &str, status: &str) -> Result<(), Wrong> {
        status.clone_into(&mut self.offers.get_mut(offer_id).ok_or(Wrong::NoItem)?.status);
        Ok(())
    }

    /// An item's stock as it was at `at`.
    pub fn stock_at(&self, item: &Item, at: Timestamp) -> i64 {
        self.shelves.get(item).map_or(0, |shelf| shelf.stock_at(at))
    }

    /// Sets the true stock by hand.
    ///
    /// # Errors
    /// When there is no such item.
    pub fn set_stock(&mut self, item: &Item, stock: i64, now: Timestamp) -> Result<(), Wrong> {
        let now = self.settle(now);
        self.shelves.get_mut(item).ok_or(Wrong::NoItem)?.set(stock, now);
        Ok(())
    }

    /// Somebody else buys up to `units`. Returns how many they got.
    ///
    /// # Errors
    /// When there is no such item.
    pub fn other_buyer_takes(
        &mut self,
        item: &Item,
        units: i64,
        now: Timestamp,
    ) -> Result<i64, Wrong> {
        let now = self.settle(now);
        Ok(self.shelves.get_mut(item).ok_or(Wrong::NoItem)?.sell_to_others(units, now))
    }

    /// Judges a basket by the stock as it was at `seen`.
    ///
    /// # Errors
    /// The rule that the basket breaks; shortage is in the judgement.
    pub fn judge(&self, basket: &Basket, seen: Timestamp) -> Result<Judgement, Refusal> {
        basket::judge(basket, &self.offers, |item| self.stock_at(item, seen))
    }

    /// Makes an order, by true stock.
    ///
    /// # Errors
    /// When nothing was made.
    pub fn place(&mut self, basket: Basket, now: Timestamp) -> Result<Placed, NotPlaced> {
        let now = self.settle(now);
        self.place_settled(basket, now)
    }

    /// Makes the order later, when whoever asked has given up.
    pub fn place_later(&mut self, basket: Basket, at: Timestamp) {
        self.plan(at, Event::Land(Box::new(basket)));
    }

    pub fn order(&self, id: u64) -> Option<&Order> {
        self.orders.get(&id)
    }

    /// All orders, oldest first.
    pub fn orders(&self) -> impl DoubleEndedIterator<Item = &Order> {
        self.orders.values()
    }

    /// Pays. With stock counted at payment, goods that are short end the order (closed by the
    /// seller) instead.
    ///
    /// # Errors
    /// When there is no such order or it is not unpaid.
    pub fn pay(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        let now = self.settle(now);
        self.pay_settled(id, now)
    }

    /// Ships a paid order.
    ///
    /// # Errors
    /// When there is no such order or it is not paid and unshipped.
    pub fn ship(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        let now = self.settle(now);
        self.ship_settled(id, now)
    }

    /// The buyer has received a shipped order.
    ///
    /// # Errors
    /// When there is no such order or it is not on its way.
    pub fn receive(&mut self, id: u64, now: Timestamp) -> Result<(), Wrong> {
        let now = self.settle(now);
        self.receive_settled(id, now)
    }

    /// Closes an order that is not yet received, whoever does it; its units come back.
    ///
    /// # Errors
    /// When there is no such order or it is past closing.
    pub fn close(&mut self, id: u64, by: By, reason: &str, now: Timestamp) -> Result<(), Wrong> {
        let now = self.settle(now);
        self.close_settled(id, by, reason, now)
    }

    /// The buyer closes an unpaid order over the wire.
    ///
    /// # Errors
    /// When there is no such order, it is not unpaid, or it is too young.
    pub fn cancel(&mut self, id: u64, reason: &str, now: Timestamp) -> Result<(), Wrong> {
        let now = self.settle(now);
        let order = self.orders.get(&id).ok_or(Wrong::NoOrder)?;
        if order.status() != Status::Unpaid {
            return Err(Wrong::State);
        }
        if now.since(order.created_at) < self.trade.close_not_before {
            return Err(Wrong::TooFast);
        }
        self.close_settled(id, By::Buyer, reason, now)
    }

    /// The books of every item, in order of item.
    pub fn book(&self) -> Vec<BookEntry> {
        let entry = |(item, shelf): (&Item, &Shelf)| {
            let account = shelf.account();
            let units = |at_least: Status| -> i64 {
                let open = |o: &&Order| (at_least..Status::Closed).contains(&o.status());
                let lines = self.orders.values().filter(open).flat_map(|order| &order.lines);
                lines.filter(|line| line.item == *item).map(|line| line.quantity).sum()
            };
            BookEntry {
                item: item.clone(),
                account,
                had_for_us: account.had_for_us(),
                ordered: units(Status::Unpaid),
                bought: units(Status::Paid),
            }
        };
        self.shelves.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Span;
    use crate::suppliers::simulator::settings::{CountsAt, Repeated, Settings, Shortage};

    const TAPE: &str = "554456348334";

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }
    fn tape() -> Item {
        Item { offer_id: TAPE.into(), spec_id: None }
    }
    /// Ten units of tape, and `change` on quiet rules.
    fn shop(change: impl FnOnce(&mut Trade)) -> Shop {
        let mut settings = Settings::quiet();
        settings.offers[1].stock = 10;
        change(&mut settings.trade);
        Shop::new(settings.trade, &settings.offers, 1, at(0))
    }
    fn basket(reference: &str, units: i64) -> Basket {
        Basket {
            lines: vec![(tape(), units)],
            reference: Some(reference.into()),
            message: String::new(),
            address: serde_json::Value::Null,
        }
    }
    fn stock(shop: &Shop) -> i64 {
        shop.stock_at(&tape(), at(1_000_000))
    }
    fn status(shop: &Shop, id: u64) -> Status {
        shop.order(id).unwrap().status()
    }
    fn place(shop: &mut Shop, reference: &str, units: i64, secs: i64) -> u64 {
        shop.place(basket(reference, units), at(secs)).unwrap().order.id
    }

    #[test]
    fn stock_falls_at_payment_and_comes_back_only_if_paid() {
        let mut shop = shop(|_| {});
        let (first, second) = (place(&mut shop, "a", 6, 1), place(&mut shop, "b", 6, 2));
        assert_eq!(stock(&shop), 10);
        shop.pay(first, at(3)).unwrap();
        assert_eq!(stock(&shop), 4);
        // The second payment finds 4 of 6: the seller closes the order.
        shop.pay(second, at(4)).unwrap();
        assert_eq!((stock(&shop), status(&shop, second)), (4, Status::Closed));
        let closing = shop.order(second).unwrap().closed.clone().unwrap();
        assert_eq!((closing.by, closing.at), (By::Seller, at(4)));
        shop.close(first, By::Seller, "lost", at(5)).unwrap();
        assert_eq!(stock(&shop), 10);
        assert_eq!(shop.close(first, By::Seller, "again", at(6)), Err(Wrong::State));
        assert_eq!(stock(&shop), 10);
    }

    #[test]
    fn stock_falls_at_order_and_comes_back_unpaid() {
        let mut shop = shop(|trade| {
            trade.stock_counts_at = CountsAt::Order;
            trade.unpaid_close_after = Some(Span::secs(60));
        });
        let first = place(&mut shop, "a", 6, 1);
        assert_eq!(stock(&shop), 4);
        let refused = shop.place(basket("b", 6), at(2)).unwrap_err();
        assert_eq!(refused, NotPlaced::Refused(basket::shortage(&tape())));
        shop.settle(at(60));
        assert_eq!(status(&shop, first), Status::Unpaid);
        shop.settle(at(61));
        assert_eq!((stock(&shop), status(&shop, first)), (10, Status::Closed));
        assert_eq!(shop.pay(first, at(62)), Err(Wrong::State));
    }

    #[test]
    fn an_order_goes_its_way_by_itself() {
        let mut shop = shop(|trade| {
            trade.auto_pay_after = Some(Span::secs(10));
            trade.unpaid_close_after = Some(Span::secs(20));
            trade.ship_after = Some(Span::secs(30));
            trade.receive_after = Some(Span::secs(100));
            trade.complete_after = Some(Span::secs(1));
        });
        let id = place(&mut shop, "a", 2, 0);
        shop.settle(at(500));
        let order = shop.order(id).unwrap();
        assert_eq!(order.paid_at, Some(at(10)));
        assert_eq!(order.shipped_at, Some(at(40)));
        assert_eq!(order.received_at, Some(at(140)));
        assert_eq!(order.completed_at, Some(at(141)));
        assert_eq!(order.status(), Status::Complete);
        // Counted as of the payment, not as of the call that looked.
        assert_eq!((shop.stock_at(&tape(), at(9)), shop.stock_at(&tape(), at(10))), (10, 8));
    }

    #[test]
    fn a_repeated_reference_is_one_order_or_two() {
        let mut once = shop(|_| {});
        assert_eq!(place(&mut once, "a", 2, 1), place(&mut once, "a", 2, 2));
        assert_eq!(once.orders().count(), 1);
        let mut twice = shop(|trade| trade.repeated_reference = Repeated::SecondOrder);
        assert_ne!(place(&mut twice, "a", 2, 1), place(&mut twice, "a", 2, 2));
        assert_eq!(twice.book()[0].ordered, 4);
    }

    #[test]
    fn a_create_can_land_late_and_finds_what_is_left_then() {
        let mut shop = shop(|_| {});
        shop.place_later(basket("late", 4), at(100));
        shop.place_later(basket("too late", 4), at(200));
        shop.settle(at(99));
        assert_eq!(shop.orders().count(), 0);
        shop.other_buyer_takes(&tape(), 7, at(150)).unwrap();
        shop.settle(at(300));
        let made: Vec<_> = shop.orders().map(|o| (o.reference.clone(), o.created_at)).collect();
        assert_eq!(made, [(Some("late".to_owned()), at(100))]);
    }

    #[test]
    fn only_old_enough_unpaid_orders_can_be_cancelled() {
        let mut shop = shop(|_| {});
        let id = place(&mut shop, "a", 2, 100);
        assert_eq!(shop.cancel(id, "other", at(109)), Err(Wrong::TooFast));
        assert_eq!(shop.cancel(1, "other", at(110)), Err(Wrong::NoOrder));
        assert_eq!(shop.cancel(id, "other", at(110)), Ok(()));
        assert_eq!(shop.order(id).unwrap().closed.as_ref().unwrap().by, By::Buyer);
        let paid = place(&mut shop, "b", 2, 100);
        shop.pay(paid, at(111)).unwrap();
        assert_eq!(shop.cancel(paid, "other", at(200)), Err(Wrong::State));
    }

    #[test]
    fn a_short_line_is_left_out_or_stops_the_order() {
        let shoe = |shop: &Shop| shop.offer("610947572360").unwrap().items().remove(0);
        let both =
            |shop: &Shop| Basket { lines: vec![(tape(), 12), (shoe(shop), 1)], ..basket("a", 1) };
        let mut lines = shop(|trade| trade.shortage = Shortage::Lines);
        let NotPlaced::Short(short) = lines.place(both(&lines), at(1)).unwrap_err() else {
            panic!("a short line stops the order");
        };
        assert_eq!((short.len(), short[0].0.quantity), (1, 12));
        let mut some = shop(|trade| trade.shortage = Shortage::LeaveOut);
        let placed = some.place(both(&some), at(1)).unwrap();
        assert_eq!((placed.order.lines.len(), placed.left_out.len()), (1, 1));
        assert_eq!(placed.order.total_fen(), 12_800 + 800);
        let only = some.place(basket("b", 12), at(1)).unwrap_err();
        assert!(matches!(only, NotPlaced::Short(lines) if lines.len() == 1));
    }

    #[test]
    fn other_buyers_are_the_same_for_the_same_seed() {
        let run = |seed, looks: &[i64]| {
            let mut settings = Settings::quiet();
            settings.offers[1].stock = 1_000;
            let mut shop = Shop::new(settings.trade, &settings.offers, seed, at(0));
            let buyers = Buyers { offer_id: TAPE.into(), spec_id: None, per_second: 0.5, units: 2 };
            shop.set_buyers(vec![buyers], at(0));
            for secs in looks {
                shop.settle(at(*secs));
            }
            shop.book()[0].account
        };
        let account = run(5, &[400]);
        assert_eq!(account, run(5, &[1, 2, 3, 100, 400]));
        assert_ne!(account, run(6, &[400]));
        // About 200 visits of 2 units; the books balance whatever they were.
        assert!((300..500).contains(&account.others), "{account:?}");
        assert_eq!(account.stock, 1_000 - account.others);
    }
}
