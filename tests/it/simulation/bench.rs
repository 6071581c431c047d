//! A workbench for single cases: each step is taken by hand, at a time that the case names.

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::command::{Capture, Command, Placement, StockChange};
use stockhold::domain::names::{LevelId, OrderId, PurchaseId};
use stockhold::domain::order::{Confirmation, HoldState, Order};
use stockhold::domain::outcome::{Outcome, PurchaseStep, Refusal};
use stockhold::domain::policy::Policy;
use stockhold::domain::purchase::Purchase;
use stockhold::domain::sku::Sku;
use stockhold::domain::supply::{
    Created, Fault, Figure, PurchaseItem, Reading, UpstreamOrder, UpstreamState,
};

use super::memory::Store;
use super::shop::silence;
use super::stage::{START, address, capture, catalogue, item, placement, policy, stock_change};

pub struct Bench {
    pub store: Store,
    pub policy: Policy,
    pub now: Timestamp,
}

impl Bench {
    /// The usual SKUs, nothing on any shelf, nothing read.
    pub fn new() -> Bench {
        let mut bench = Bench { store: Store::default(), policy: policy(false), now: START };
        bench.policy.refunds_by_provider = true;
        for sku in catalogue() {
            bench.put(sku);
        }
        bench
    }

    pub fn put(&mut self, sku: Sku) {
        self.run(Command::PutSku(Box::new(sku)));
    }

    pub fn wait(&mut self, span: Span) {
        self.now = self.now + span;
    }

    pub fn try_run(&mut self, command: Command) -> Result<Outcome, Refusal> {
        self.store.run(&self.policy, self.now, &command)
    }

    pub fn run(&mut self, command: Command) -> Outcome {
        let said = format!("{command:?}");
        self.try_run(command).unwrap_or_else(|r| panic!("{said} was refused: {r:?}"))
    }

    pub fn stock(&mut self, source: &str, sku: &str, units: i64) {
        self.run(stock_change(sku, source, StockChange::Delta(units)));
    }

    /// A feed row whose request is sent now.
    pub fn feed(&mut self, level: &str, units: i64) {
        let reading = self.reading(level, units);
        self.read(level, reading);
    }

    pub fn read(&mut self, level: &str, reading: Reading) {
        let supplier = level.split(':').next().unwrap_or_default().into();
        let readings = vec![(level.into(), reading)];
        self.run(Command::Readings { supplier, readings, feed: true });
    }

    pub fn reading(&self, level: &str, units: i64) -> Reading {
        let offer = level.split(':').nth(1).unwrap_or_default();
        Reading {
            item: item(offer),
            figure: Figure::Listed(units),
            stated_at: None,
            sent_at: self.now,
            received_at: self.now,
        }
    }

    pub fn place(&mut self, placement: Placement) -> Result<Outcome, Refusal> {
        self.try_run(Command::Place(Box::new(placement)))
    }

    /// Places and pays (lines are SKU, units, unit price).
    pub fn paid(&mut self, id: &str, lines: &[(&str, i64, i64)]) {
        let mut p = placement(id, lines);
        let total = lines.iter().map(|l| l.1 * l.2).sum();
        p.payment = Some(capture(&format!("pay-{id}"), total));
        let placed = self.place(p);
        assert!(placed.is_ok(), "{placed:?}");
    }

    pub fn pay(&mut self, order: &str, payment: Capture) -> Result<Outcome, Refusal> {
        self.try_run(Command::Pay { order: order.into(), payment })
    }

    pub fn order(&self, id: &str) -> &Order {
        &self.store.orders[&OrderId::from(id)]
    }

    pub fn purchase(&self, id: &str) -> &Purchase {
        let id = PurchaseId::from(id);
        let order = self.store.order_of_purchase(&id).expect("there is such a purchase");
        order.purchase(&id).expect("its own")
    }

    /// (quantity, held, committed)
    pub fn figures(&self, level: &str) -> (i64, i64, i64) {
        self.store.figures(&LevelId::from(level))
    }

    pub fn refunded(&self, order: &str) -> i64 {
        self.order(order).refunds.iter().map(|r| r.amount).sum()
    }

    /// (quantity, state, confirmation) of each hold.
    pub fn holds(&self, order: &str) -> Vec<(i64, HoldState, Option<Confirmation>)> {
        self.order(order).holds.iter().map(|h| (h.quantity, h.state, h.confirmation)).collect()
    }

    pub fn due(&mut self, order: &str) -> Outcome {
        self.run(Command::Due { order: order.into() })
    }

    /// Five minutes after payment the supplier is asked.
    pub fn confirm_due(&mut self, orders: &[&str]) {
        self.wait(Span::minutes(5));
        orders.iter().for_each(|o| {
            self.due(o);
        });
    }

    pub fn lock(&mut self, level: &str) -> i64 {
        let owner = format!("confirm:{level}");
        match self.run(Command::LockItem { level: level.into(), owner }) {
            Outcome::Locked { token, .. } => token,
            other => panic!("not locked: {other:?}"),
        }
    }

    /// Asks, is told so many units, and judges (nothing is there to be read back first).
    pub fn judge(&mut self, level: &str, units: i64) -> Outcome {
        let answer = Ok(self.reading(level, units));
        self.judge_by(level, answer, true)
    }

    pub fn judge_by(
        &mut self,
        level: &str,
        answer: Result<Reading, Fault>,
        polled: bool,
    ) -> Outcome {
        let token = self.lock(level);
        self.run(Command::JudgeItem { level: level.into(), token, answer, polled })
    }

    pub fn claim(&mut self, purchase: &str) -> PurchaseStep {
        let busy_for = Span::secs(30);
        match self.run(Command::ClaimPurchase { purchase: purchase.into(), busy_for }) {
            Outcome::Step(step) => step,
            other => panic!("no step: {other:?}"),
        }
    }

    pub fn answer(
        &mut self,
        purchase: &str,
        attempt: i64,
        answer: Result<Created, Fault>,
    ) -> Outcome {
        let sent = !matches!(answer, Err(Fault::OutOfStock { .. } | Fault::Refused { .. }));
        self.run(Command::Placed { purchase: purchase.into(), attempt, sent, answer })
    }

    /// Claims and creates; the supplier calls it `id`.
    pub fn buy(&mut self, purchase: &str, id: &str) -> Outcome {
        match self.claim(purchase) {
            PurchaseStep::Place { attempt, .. } => self.answer(purchase, attempt, Ok(created(id))),
            other => panic!("nothing to place: {other:?}"),
        }
    }

    /// Claims and creates; no answer comes.
    pub fn lose(&mut self, purchase: &str) -> Outcome {
        match self.claim(purchase) {
            PurchaseStep::Place { attempt, .. } => self.answer(purchase, attempt, Err(silence())),
            other => panic!("nothing to place: {other:?}"),
        }
    }

    pub fn poll(&mut self, purchase: &str, state: UpstreamState) -> Outcome {
        let p = self.purchase(purchase);
        let id = p.supplier_order_id.clone().expect("it is placed");
        let answer = Ok(self.upstream(purchase, &id, state));
        let sent_at = self.now;
        self.run(Command::Polled { purchase: purchase.into(), sent_at, answer })
    }

    /// The purchase as the supplier tells it.
    pub fn upstream(&self, purchase: &str, id: &str, state: UpstreamState) -> UpstreamOrder {
        let lines = &self.purchase(purchase).trail.lines;
        let line = |l: &stockhold::domain::purchase::PurchaseLine| PurchaseItem {
            item: l.share.item.clone(),
            quantity: l.share.quantity,
        };
        UpstreamOrder {
            supplier_order_id: id.into(),
            reference: Some(purchase.into()),
            state,
            items: lines.iter().map(line).collect(),
            total: None,
            close_reason: None,
            parcels: Vec::new(),
        }
    }

    pub fn look_up(&mut self, purchase: &str, found: Vec<UpstreamOrder>) -> Outcome {
        let late = None;
        self.run(Command::LookedUp { purchase: purchase.into(), late, answer: Ok(found) })
    }

    pub fn cancelled_upstream(
        &mut self,
        purchase: &str,
        id: &str,
        answer: Result<(), Fault>,
    ) -> Outcome {
        let supplier_order_id = id.into();
        self.run(Command::CancelAnswered { purchase: purchase.into(), supplier_order_id, answer })
    }

    /// A paid order of C (one line) that is confirmed and placed upstream as `id`.
    pub fn bought(&mut self, order: &str, units: i64, id: &str) {
        self.paid(order, &[("C", units, 100)]);
        self.confirm_due(&[order]);
        self.judge("east:x:", 100);
        self.buy(&format!("{order}-east-1"), id);
    }
}

pub fn created(id: &str) -> Created {
    Created { supplier_order_id: id.into(), total: None, left_out: Vec::new() }
}

pub fn out_of_stock() -> Fault {
    Fault::OutOfStock { code: "500_004".into(), message: "sold out".into() }
}

pub fn refused() -> Fault {
    Fault::Refused { code: "ORDER_STATUS".into(), message: "paid".into() }
}

/// A placement without an address.
pub fn nowhere(mut p: Placement) -> Placement {
    assert_eq!(p.ship_to, Some(address()));
    p.ship_to = None;
    p
}
