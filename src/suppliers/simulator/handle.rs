//! What a test can do to a running simulator, and see of it, without HTTP.

use std::collections::BTreeMap;

use super::api::Api;
use super::faults::Fault;
use super::order::{By, Order, Status};
use super::server::Handle;
use super::settings::{Error, Settings};
use super::shop::{BookEntry, Wrong};
use super::tally::{Count, Record};
use crate::domain::supply::Item;

impl Handle {
    /// Sets an item's true stock; the product call tells it as late as it is set to.
    ///
    /// # Errors
    /// When there is no such item.
    pub fn set_stock(&self, item: &Item, units: i64) -> Result<(), Wrong> {
        self.shared.with(|gateway, now| gateway.shop.set_stock(item, units, now))
    }

    /// The true stock now; 0 for an item that is not sold.
    pub fn stock(&self, item: &Item) -> i64 {
        self.shared.with(|gateway, now| gateway.shop.stock_at(item, now))
    }

    /// Takes an offer off the site (`expired`, `member deleted` …) or puts it back (`published`).
    ///
    /// # Errors
    /// When there is no such offer.
    pub fn set_offer_status(&self, offer_id: &str, status: &str) -> Result<(), Wrong> {
        self.shared.with(|gateway, _| gateway.shop.set_status(offer_id, status))
    }

    /// Somebody else buys up to `units` at once. Returns how many they got.
    ///
    /// # Errors
    /// When there is no such item.
    pub fn other_buyer_takes(&self, item: &Item, units: i64) -> Result<i64, Wrong> {
        self.shared.with(|gateway, now| gateway.shop.other_buyer_takes(item, units, now))
    }

    /// Somebody pays the order on the supplier's site.
    ///
    /// # Errors
    /// When there is no such order or it is not unpaid. A payment beyond stock is none: it closes
    /// the order.
    pub fn pay(&self, order: u64) -> Result<(), Wrong> {
        self.shared.with(|gateway, now| gateway.shop.pay(order, now))
    }

    /// The seller ships.
    ///
    /// # Errors
    /// When there is no such order or it is not paid and unshipped.
    pub fn ship(&self, order: u64) -> Result<(), Wrong> {
        self.shared.with(|gateway, now| gateway.shop.ship(order, now))
    }

    /// The goods arrive.
    ///
    /// # Errors
    /// When there is no such order or it is not on its way.
    pub fn receive(&self, order: u64) -> Result<(), Wrong> {
        self.shared.with(|gateway, now| gateway.shop.receive(order, now))
    }

    /// The seller closes the order; its units come back.
    ///
    /// # Errors
    /// When there is no such order or it is received or closed.
    pub fn close_by_seller(&self, order: u64) -> Result<(), Wrong> {
        self.close(order, By::Seller, "卖家关闭")
    }

    /// Anybody closes the order; its units come back.
    ///
    /// # Errors
    /// As [`Handle::close_by_seller`].
    pub fn close(&self, order: u64, by: By, reason: &str) -> Result<(), Wrong> {
        self.shared.with(|gateway, now| gateway.shop.close(order, by, reason, now))
    }

    /// The next call of `api` meets `fault`; several are met in order.
    ///
    /// # Errors
    /// When the call cannot have that fault.
    pub fn script(&self, api: Api, fault: Fault) -> Result<(), Error> {
        self.shared.with(|gateway, _| gateway.script(api, fault))
    }

    /// Forgets what was scripted and not yet met.
    pub fn clear_script(&self) {
        self.shared.with(|gateway, _| gateway.faults.clear());
    }

    /// Ends every access token; `getToken` gives new ones.
    pub fn expire_tokens(&self) {
        self.shared.with(|gateway, _| gateway.tokens.expire());
    }

    pub fn settings(&self) -> Settings {
        self.shared.with(|gateway, _| gateway.settings().clone())
    }

    /// Changes settings from now on: lag, latency, chances, rules of trade, buyers …
    ///
    /// # Errors
    /// When they cannot be simulated, or offers, address or seed would change.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), Error> {
        self.shared.with(|gateway, now| {
            let mut settings = gateway.settings().clone();
            change(&mut settings);
            gateway.change(settings, now)
        })
    }

    /// All orders, oldest first.
    pub fn orders(&self) -> Vec<Order> {
        self.shared.with(|gateway, _| gateway.shop.orders().cloned().collect())
    }

    /// Orders that carry the reference (`outOrderId`), oldest first.
    pub fn orders_of(&self, reference: &str) -> Vec<Order> {
        let mut orders = self.orders();
        orders.retain(|order| order.reference.as_deref() == Some(reference));
        orders
    }

    pub fn order(&self, id: u64) -> Option<Order> {
        self.shared.with(|gateway, _| gateway.shop.order(id).cloned())
    }

    /// Units of an item in orders that are not closed, paid or not.
    pub fn units_ordered(&self, item: &Item) -> i64 {
        self.units(item, Status::Unpaid)
    }

    /// Units of an item in orders that are paid and not closed.
    pub fn units_bought(&self, item: &Item) -> i64 {
        self.units(item, Status::Paid)
    }

    /// Every item's books. Whatever was asked of it, `bought` is at most `had_for_us`.
    pub fn book(&self) -> Vec<BookEntry> {
        self.shared.with(|gateway, _| gateway.shop.book())
    }

    /// How often `api` was called, refused calls included.
    pub fn calls(&self, api: Api) -> u64 {
        self.shared.with(|gateway, _| gateway.tally.count(api).calls)
    }

    /// Counts of every call.
    pub fn counts(&self) -> BTreeMap<Api, Count> {
        self.shared.with(|gateway, _| gateway.tally.counts.clone())
    }

    /// The last 500 calls, oldest first.
    pub fn last_calls(&self) -> Vec<Record> {
        self.shared.with(|gateway, _| gateway.tally.last.iter().cloned().collect())
    }

    fn units(&self, item: &Item, at_least: Status) -> i64 {
        let entry = self.book().into_iter().find(|entry| entry.item == *item);
        entry.map_or(0, |e| if at_least == Status::Unpaid { e.ordered } else { e.bought })
    }
}
