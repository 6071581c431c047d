//! A tiny supplier that knows the truth: its stock, who else buys, and every order that reached it.
//! It answers late, loses answers, refuses, lets orders be paid by hand or never, and closes them.
//! What must hold: it never sells what it has not; all it tells is what was so `lag` ago.

use std::collections::BTreeMap;

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::supply::{
    Created, Fault, Figure, Item, LeftOut, Parcel, PurchaseItem, PurchaseRequest, Reading,
    UpstreamOrder, UpstreamState,
};

use super::dice::Dice;

/// Orders younger than this cannot be closed by the buyer.
const TOO_SOON: Span = Span::secs(10);

/// How a supplier behaves.
#[derive(Clone, Debug)]
pub struct Habits {
    pub counts_at_order: bool,
    /// Its answers say when they were read.
    pub states_time: bool,
    /// Figures are this much older than the answer.
    pub lag: Span,
    /// A paid order is paid this long after it was made, or else never.
    pub pays_after: Span,
    pub never_paid_percent: u32,
    /// Unpaid orders are closed after this.
    pub unpaid_timeout: Span,
    pub ships_after: Span,
    pub received_after: Span,
}

/// What becomes of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// Made, and the answer lost.
    Lost,
    /// Never arrived.
    NotMade,
    /// Lost, and made this much later.
    Late(Span),
    /// Made without its last item.
    LeftOut,
    /// Refused, not for want of stock.
    Refused,
}

#[derive(Clone, Debug)]
pub struct Sale {
    pub id: String,
    pub reference: String,
    pub items: Vec<PurchaseItem>,
    pub state: UpstreamState,
    pub made_at: Timestamp,
    /// The stock was reduced by it.
    pub counted: bool,
    next_at: Option<Timestamp>,
    paid_in_time: bool,
}

impl Sale {
    pub fn alive(&self) -> bool {
        !matches!(self.state, UpstreamState::ClosedUnpaid | UpstreamState::ClosedBySeller)
    }
}

#[derive(Clone, Debug)]
pub struct Shop {
    pub habits: Habits,
    /// What was true from when on; `None` while the item is not offered.
    stock: BTreeMap<Item, Vec<(Timestamp, Option<i64>)>>,
    pub sales: Vec<Sale>,
    landing: Vec<(Timestamp, PurchaseRequest)>,
    pub dice: Dice,
    prefix: &'static str,
    /// Refusals for want of stock that it gave.
    pub refusals: u32,
}

impl Shop {
    pub fn new(prefix: &'static str, habits: Habits, dice: Dice) -> Shop {
        Shop {
            habits,
            stock: BTreeMap::new(),
            sales: Vec::new(),
            landing: Vec::new(),
            dice,
            prefix,
            refusals: 0,
        }
    }

    pub fn offer(&mut self, item: &Item, units: Option<i64>, since: Timestamp) {
        self.stock.entry(item.clone()).or_default().push((since, units));
    }

    /// The true stock; nothing where it is not offered.
    pub fn has(&self, item: &Item) -> i64 {
        self.stock.get(item).and_then(|h| h.last()).and_then(|(_, n)| *n).unwrap_or(0)
    }

    fn change(&mut self, now: Timestamp, item: &Item, by: i64) {
        if let Some(history) = self.stock.get_mut(item) {
            let last = history.last().and_then(|(_, n)| *n);
            history.push((now, last.map(|n| n + by)));
            assert!(last.is_none_or(|n| n + by >= 0), "the shop sold what it had not");
        }
    }

    /// Somebody else buys, or stock arrives.
    pub fn others(&mut self, now: Timestamp, item: &Item, by: i64) {
        let by = by.max(-self.has(item));
        self.change(now, item, by);
    }

    /// Everything that happens at the shop by itself until now.
    pub fn live(&mut self, now: Timestamp) {
        let landed: Vec<_> = self.landing.iter().filter(|(at, _)| *at <= now).cloned().collect();
        self.landing.retain(|(at, _)| *at > now);
        for (at, request) in landed {
            if self.can_serve(&request.items) {
                self.make(at, &request.reference, request.items);
            }
        }
        for i in 0..self.sales.len() {
            while let Some(at) = self.sales[i].next_at.filter(|at| *at <= now) {
                self.move_on(i, at);
            }
        }
    }

    fn move_on(&mut self, i: usize, at: Timestamp) {
        let habits = self.habits.clone();
        let (state, next) = match self.sales[i].state {
            UpstreamState::AwaitingPayment if !self.sales[i].paid_in_time => {
                return self.close(i, at, UpstreamState::ClosedUnpaid);
            }
            UpstreamState::AwaitingPayment => {
                if !habits.counts_at_order {
                    if !self.can_serve(&self.sales[i].items.clone()) {
                        return self.close(i, at, UpstreamState::ClosedBySeller);
                    }
                    self.count(i, at);
                }
                (UpstreamState::Paid, Some(at + habits.ships_after))
            }
            UpstreamState::Paid => (UpstreamState::Shipped, Some(at + habits.received_after)),
            UpstreamState::Shipped => (UpstreamState::Received, None),
            other => (other, None),
        };
        (self.sales[i].state, self.sales[i].next_at) = (state, next);
    }

    fn count(&mut self, i: usize, at: Timestamp) {
        for line in self.sales[i].items.clone() {
            self.change(at, &line.item, -line.quantity);
        }
        self.sales[i].counted = true;
    }

    fn close(&mut self, i: usize, at: Timestamp, state: UpstreamState) {
        (self.sales[i].state, self.sales[i].next_at) = (state, None);
        if std::mem::take(&mut self.sales[i].counted) {
            for line in self.sales[i].items.clone() {
                self.change(at, &line.item, line.quantity);
            }
        }
    }

    /// The seller closes one of the orders that are not shipped.
    pub fn close_one(&mut self, now: Timestamp, pick: usize) {
        let open: Vec<usize> = (0..self.sales.len())
            .filter(|i| {
                let state = self.sales[*i].state;
                matches!(state, UpstreamState::AwaitingPayment | UpstreamState::Paid)
            })
            .collect();
        if !open.is_empty() {
            self.close(open[pick % open.len()], now, UpstreamState::ClosedBySeller);
        }
    }

    fn can_serve(&self, items: &[PurchaseItem]) -> bool {
        items.iter().all(|i| self.has(&i.item) >= i.quantity)
    }

    pub fn reading(
        &self,
        item: &Item,
        sent_at: Timestamp,
        read_at: Timestamp,
        received_at: Timestamp,
    ) -> Reading {
        let as_of = read_at - self.habits.lag;
        let history = self.stock.get(item).map(Vec::as_slice).unwrap_or_default();
        let then = history.iter().rev().find(|(at, _)| *at <= as_of).or(history.first());
        let figure = match then.and_then(|(_, n)| *n) {
            Some(n) => Figure::Listed(n),
            None => Figure::Missing,
        };
        let stated_at = self.habits.states_time.then_some(as_of);
        Reading { item: item.clone(), figure, stated_at, sent_at, received_at }
    }

    pub fn preview(&mut self, request: &PurchaseRequest) -> Result<(), Fault> {
        if self.can_serve(&request.items) {
            return Ok(());
        }
        self.refusals += 1;
        Err(Fault::OutOfStock { code: "500_004".into(), message: "sold out".into() })
    }

    pub fn create(
        &mut self,
        now: Timestamp,
        request: &PurchaseRequest,
        fate: Fate,
    ) -> Result<Created, Fault> {
        if fate == Fate::Refused {
            return Err(Fault::Refused { code: "500_002".into(), message: "offline".into() });
        }
        if let Fate::Late(by) = fate {
            self.landing.push((now + by, request.clone()));
            return Err(silence());
        }
        if fate == Fate::NotMade {
            return Err(silence());
        }
        self.preview(request)?;
        let mut items = request.items.clone();
        let mut left_out = Vec::new();
        if fate == Fate::LeftOut
            && items.len() > 1
            && let Some(line) = items.pop()
        {
            let fault = Fault::OutOfStock { code: "500_004".into(), message: "sold out".into() };
            left_out.push(LeftOut { item: line.item, fault });
        }
        let id = self.make(now, &request.reference, items);
        if fate == Fate::Lost {
            return Err(silence());
        }
        Ok(Created { supplier_order_id: id, total: None, left_out })
    }

    fn make(&mut self, now: Timestamp, reference: &str, items: Vec<PurchaseItem>) -> String {
        let id = format!("{}{}", self.prefix, self.sales.len() + 1);
        let paid_in_time = !self.dice.percent(self.habits.never_paid_percent);
        let wait = if paid_in_time { self.habits.pays_after } else { self.habits.unpaid_timeout };
        self.sales.push(Sale {
            id: id.clone(),
            reference: reference.to_owned(),
            items,
            state: UpstreamState::AwaitingPayment,
            made_at: now,
            counted: false,
            next_at: Some(now + wait),
            paid_in_time,
        });
        if self.habits.counts_at_order {
            self.count(self.sales.len() - 1, now);
        }
        id
    }

    pub fn look_up(&self, reference: &str) -> Vec<UpstreamOrder> {
        self.sales.iter().filter(|s| s.reference == reference).map(told).collect()
    }

    pub fn order(&self, id: &str) -> Result<UpstreamOrder, Fault> {
        self.sales.iter().find(|s| s.id == id).map(told).ok_or_else(silence)
    }

    pub fn cancel(&mut self, now: Timestamp, id: &str) -> Result<(), Fault> {
        let Some(i) = self.sales.iter().position(|s| s.id == id) else {
            return Err(silence());
        };
        match self.sales[i].state {
            UpstreamState::AwaitingPayment if now.since(self.sales[i].made_at) < TOO_SOON => {
                Err(Fault::TooSoon)
            }
            UpstreamState::AwaitingPayment => {
                self.close(i, now, UpstreamState::ClosedUnpaid);
                Ok(())
            }
            _ => Err(Fault::Refused { code: "ORDER_STATUS".into(), message: "not unpaid".into() }),
        }
    }

    /// Units of an item in orders that are alive, and not yet taken off the stock.
    pub fn uncounted(&self, item: &Item) -> i64 {
        let open = self.sales.iter().filter(|s| s.alive() && !s.counted);
        let lines = open.flat_map(|s| &s.items).filter(|i| &i.item == item);
        lines.map(|i| i.quantity).sum()
    }

    pub fn by_reference(&self, reference: &str) -> Vec<&Sale> {
        self.sales.iter().filter(|s| s.reference == reference && s.alive()).collect()
    }
}

fn told(sale: &Sale) -> UpstreamOrder {
    let shipped = matches!(sale.state, UpstreamState::Shipped | UpstreamState::Received);
    let parcel = Parcel { carrier: "SF".into(), tracking_number: sale.id.clone() };
    UpstreamOrder {
        supplier_order_id: sale.id.clone(),
        reference: Some(sale.reference.clone()),
        state: sale.state,
        items: sale.items.clone(),
        total: None,
        close_reason: (!sale.alive()).then(|| "closed".into()),
        parcels: if shipped { vec![parcel] } else { Vec::new() },
    }
}

/// No usable answer.
pub fn silence() -> Fault {
    Fault::Unknown { code: "timeout".into(), message: "no answer".into(), retry_after: None }
}
