//! Buying: one purchase for each supplier of an order, made only when all of its supplier shares
//! are confirmed or cancelled by policy, and the next thing to do about each.
//!
//! While buying is paused nothing ages: what is only waiting for that is neither unknown nor given
//! up, and has its whole time again once it is claimed. It is bought on the confirmation that it has,
//! however old: the supplier's preview, which every create is preceded by, judges the true stock, and
//! what it refuses is short for all who wait on the item.

use std::collections::BTreeMap;

use super::holds::Key;
use super::progress::order_awaits;
use super::{Result, Rules};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::command::PurchaseResolution;
use crate::domain::job::Job;
use crate::domain::names::{OrderId, PurchaseId, SourceId};
use crate::domain::order::{Confirmation, Hold, Order, Share, State};
use crate::domain::outcome::{Outcome, PurchaseStep, Refusal};
use crate::domain::policy::{LATE_LOOKUPS, ONCE_MORE, READ_AFTER_SHIPPED, REPEAT_EVERY};
use crate::domain::purchase::{Purchase, PurchaseLine, PurchaseState, Trail};
use crate::domain::supply::{Created, Item, PurchaseItem, PurchaseRequest};

/// While buying is paused the purchase is looked at again this often (resuming wakes it at once).
const PAUSED_FOR: Span = Span::minutes(1);

impl Rules<'_> {
    /// Every supplier share is confirmed: a purchase for each supplier, with the next generation.
    pub(super) fn buy(&mut self, id: &OrderId) -> Result<()> {
        let now = self.now;
        let mut by_supplier: BTreeMap<SourceId, Vec<PurchaseLine>> = BTreeMap::new();
        let order = self.order(id)?;
        let open = |h: &&Hold| h.is_supplier() && h.is_active() && h.purchase.is_none();
        for hold in order.holds.iter().filter(open) {
            let Some(item) = self.level(&hold.level)?.item.clone() else {
                continue;
            };
            let share = Share {
                line: hold.line,
                part: hold.part,
                level: hold.level.clone(),
                item,
                quantity: hold.quantity,
            };
            let lines = by_supplier.entry(hold.source.clone()).or_default();
            lines.push(PurchaseLine { share, result: None });
        }
        for (supplier, lines) in by_supplier {
            let currency = self.policy.suppliers.get(&supplier).map(|t| t.currency.clone());
            let order = self.order_mut(id)?;
            let before = order.purchases.iter().filter(|p| p.supplier == supplier);
            let generation = before.map(|p| p.generation).max().unwrap_or(0).saturating_add(1);
            let purchase = PurchaseId::of(id, &supplier, generation);
            for line in &lines {
                let key = (line.share.line, line.share.part);
                self.hold_mut(id, key)?.purchase = Some(purchase.clone());
            }
            self.world.claim_purchase(purchase.clone(), id);
            self.world.owe(Job::Purchase { purchase: purchase.clone() }, now);
            let deadline = now + self.policy.retry_deadline;
            self.world.owe_deadline(deadline);
            self.tell(id, "purchase_pending", purchase.to_string())?;
            self.order_mut(id)?.purchases.push(Purchase {
                id: purchase,
                supplier,
                generation,
                state: PurchaseState::Pending,
                supplier_order_id: None,
                cost: None,
                currency: currency.unwrap_or_default(),
                attempts: 0,
                attempt_until: None,
                cancel_requested_at: None,
                placed_at: None,
                paid_at: None,
                ended_at: None,
                end_reason: None,
                deadline_at: Some(deadline),
                created_at: now,
                trail: Trail { lines, ..Trail::default() },
            });
        }
        Ok(())
    }

    /// Says what to do next, and claims it where it is a create.
    pub(super) fn claim_purchase(&mut self, id: &PurchaseId, busy_for: Span) -> Result<Outcome> {
        let order = self.order_of_purchase(id)?;
        let now = self.now;
        let purchase = self.purchase(&order, id)?;
        let surplus = purchase.trail.surplus.iter().find(|s| s.ended_at.is_none() && !s.paid);
        // While cancelling a surplus order goes unanswered, the recorded one has its turn too.
        let others_turn = purchase.state.is_placed() && purchase.trail.unanswered % 2 == 1;
        if let Some(surplus) = surplus.filter(|_| !others_turn) {
            let supplier_order_id = surplus.supplier_order_id.clone();
            return Ok(Outcome::Step(PurchaseStep::Cancel { supplier_order_id }));
        }
        let step = match purchase.state {
            PurchaseState::Pending => self.claim_create(&order, id, busy_for)?,
            PurchaseState::Placing => match purchase.attempt_until {
                // Its worker died, or its answer is on the way until then.
                Some(until) if until > now => PurchaseStep::Wait(until),
                _ => {
                    let attempt = purchase.attempts;
                    self.purchase_mut(&order, id)?.trail.answered = attempt;
                    self.lost_create(&order, id)?;
                    PurchaseStep::LookUp { reference: id.to_string() }
                }
            },
            PurchaseState::Unknown => PurchaseStep::LookUp { reference: id.to_string() },
            PurchaseState::Failed | PurchaseState::Cancelled => PurchaseStep::Done,
            PurchaseState::Placed
            | PurchaseState::Paid
            | PurchaseState::Shipped
            | PurchaseState::Received => next_for_placed(purchase),
        };
        Ok(Outcome::Step(step))
    }

    /// `pending → placing`: from here on a cancel is only recorded.
    fn claim_create(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        busy_for: Span,
    ) -> Result<PurchaseStep> {
        let now = self.now;
        if self.doubt_since_restore(order, id)? {
            return Ok(PurchaseStep::LookUp { reference: id.to_string() });
        }
        if self.buying_paused(order, id)? {
            if self.purchase(order, id)?.trail.paused_at.is_none() {
                self.purchase_mut(order, id)?.trail.paused_at = Some(now);
                self.tell(order, "buying_paused", id.to_string())?;
            }
            return Ok(PurchaseStep::Wait(now + PAUSED_FOR));
        }
        self.after_pause(order, id)?;
        let purchase = self.purchase(order, id)?;
        let Some(request) = self.request(order, purchase)? else {
            let why = "there is no address to deliver to";
            self.end_purchase(order, id, PurchaseState::Failed, why)?;
            self.attention(order, why)?;
            return Ok(PurchaseStep::Done);
        };
        let purchase = self.purchase_mut(order, id)?;
        purchase.state = PurchaseState::Placing;
        purchase.attempts = purchase.attempts.saturating_add(1);
        purchase.attempt_until = Some(now + busy_for);
        purchase.trail.clean_lookups.clear();
        let attempt = purchase.attempts;
        self.tell(order, "purchase_placing", format!("{id} attempt {attempt}"))?;
        Ok(PurchaseStep::Place { attempt, request })
    }

    /// Buying goes on: the purchase has its whole time from now on, and its order has, if it was
    /// waiting for nothing else.
    fn after_pause(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        if self.purchase(order, id)?.trail.paused_at.is_none() {
            return Ok(());
        }
        if self.held_up(order)? {
            self.start_anew(order)?;
        }
        self.purchase_mut(order, id)?.trail.paused_at = None;
        self.purchase_deadline(order, id, self.policy.retry_deadline)
    }

    /// Whether a purchase that was surely not made is kept from it by a pause, or has not been
    /// claimed since.
    fn is_held_up(&self, order: &OrderId, id: &PurchaseId) -> Result<bool> {
        let purchase = self.purchase(order, id)?;
        Ok(purchase.state == PurchaseState::Pending
            && (purchase.trail.paused_at.is_some() || self.buying_paused(order, id)?))
    }

    /// Whether an order waits for nothing but buying to go on.
    pub(super) fn held_up(&self, id: &OrderId) -> Result<bool> {
        let order = self.order(id)?;
        let mut any = false;
        for hold in order.holds.iter().filter(|h| h.is_supplier() && h.is_active()) {
            any = true;
            match &hold.purchase {
                Some(purchase) if self.is_held_up(id, purchase)? => {}
                _ => return Ok(false),
            }
        }
        Ok(any && !order.purchases.iter().any(|p| p.state.in_flight()))
    }

    /// A waiting order's deadline starts again.
    pub(super) fn start_anew(&mut self, id: &OrderId) -> Result<()> {
        let state = self.order(id)?.state;
        match state {
            State::Confirming => {
                self.enter(id, state, self.deadline_in(self.policy.retry_deadline))
            }
            State::Attention => {
                self.enter(id, state, self.deadline_in(self.policy.attention_deadline))
            }
            _ => Ok(()),
        }
    }

    /// Something of the purchase must have happened by then.
    pub(super) fn purchase_deadline(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        span: Span,
    ) -> Result<()> {
        let deadline = self.now + span;
        self.purchase_mut(order, id)?.deadline_at = Some(deadline);
        self.world.owe_deadline(deadline);
        Ok(())
    }

    /// Buying goes on: what may have been waiting for it is looked at now, not in its own minute.
    pub(super) fn wake_waiting(&mut self) {
        for purchase in self.world.waiting.clone() {
            self.world.owe(Job::Purchase { purchase }, self.now);
        }
    }

    fn buying_paused(&self, order: &OrderId, id: &PurchaseId) -> Result<bool> {
        let purchase = self.purchase(order, id)?;
        let supplier = self.world.suppliers.get(&purchase.supplier);
        let lines = &self.order(order)?.lines;
        let skus = purchase.trail.lines.iter().filter_map(|l| {
            let line = lines.iter().find(|x| x.no == l.share.line)?;
            self.world.sku(&line.sku)
        });
        let mut paused = skus.map(|s| &s.paused).chain(supplier);
        Ok(paused.any(|p| p.buying.is_some()))
    }

    /// The purchase as asked of the supplier; `None` without an address.
    fn request(&self, order: &OrderId, purchase: &Purchase) -> Result<Option<PurchaseRequest>> {
        let terms = self.policy.suppliers.get(&purchase.supplier);
        let forwarder = terms.and_then(|t| t.deliver_to.clone());
        let deliver_to = forwarder.or_else(|| self.world.orders.get(order)?.ship_to.clone());
        Ok(deliver_to.map(|deliver_to| PurchaseRequest {
            reference: purchase.id.to_string(),
            items: items(purchase),
            deliver_to,
        }))
    }

    /// Whether the lost life of a restored store may have sent a purchase that waits to be sent.
    pub(super) fn is_doubted(&self, order: &OrderId, purchase: &Purchase) -> Result<bool> {
        let restored_at = self.predates_restore(order)?;
        let mut looked_up = purchase.trail.clean_lookups.iter();
        Ok(purchase.state == PurchaseState::Pending
            && restored_at.is_some_and(|restored_at| looked_up.all(|at| *at <= restored_at)))
    }

    /// A purchase that waits to be sent, of an order older than the last restore from a backup: the
    /// lost life of the store may have sent it, so it is as one whose create was not answered, until
    /// it was looked up twice since.
    pub(super) fn doubt_since_restore(&mut self, order: &OrderId, id: &PurchaseId) -> Result<bool> {
        if !self.is_doubted(order, self.purchase(order, id)?)? {
            return Ok(false);
        }
        let restored_at = self.world.restored_at;
        let purchase = self.purchase_mut(order, id)?;
        purchase.state = PurchaseState::Unknown;
        purchase.attempt_until = purchase.attempt_until.max(restored_at);
        purchase.trail.clean_lookups.clear();
        self.world.owe(Job::Purchase { purchase: id.clone() }, self.now);
        self.lost_create(order, id)?;
        Ok(true)
    }

    /// Shares of a paid order for which this life of a restored store has not made a purchase yet, and
    /// the lost one may have.
    pub(super) fn perhaps_bought(&self, id: &OrderId) -> Result<Vec<Key>> {
        let order = self.order(id)?;
        let restored_at = self.predates_restore(id)?.filter(|_| order_awaits(order.state));
        match restored_at {
            Some(at) if order.purchases.iter().all(|p| p.created_at <= at) => {
                self.holds(id, |h| h.is_supplier() && h.is_active() && h.purchase.is_none())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Before such shares are let go: makes their purchases, as if their creates were lost, so that
    /// they are looked up. Answers whether there are any.
    pub(super) fn look_for_lost(&mut self, id: &OrderId) -> Result<bool> {
        let shares = self.perhaps_bought(id)?;
        if shares.is_empty() {
            return Ok(false);
        }
        for key in shares {
            self.hold_mut(id, key)?.confirmation = Some(Confirmation::Confirmed);
        }
        if self.order(id)?.state == State::Paid {
            self.enter(id, State::Confirming, self.deadline_in(self.policy.retry_deadline))?;
        }
        self.buy(id)?;
        for purchase in self.purchases(id, |s| s == PurchaseState::Pending)? {
            self.doubt_since_restore(id, &purchase)?;
        }
        Ok(true)
    }

    /// The answer of a create was lost: it may have been made, and may yet land.
    pub(super) fn lost_create(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        let now = self.now;
        let purchase = self.purchase_mut(order, id)?;
        if purchase.state.in_flight() {
            purchase.state = PurchaseState::Unknown;
        }
        purchase.trail.lost.push(now);
        self.count_lost(order, id)?;
        for (step, after) in LATE_LOOKUPS.into_iter().enumerate() {
            let job = Job::Recheck { purchase: id.clone(), lost_at: now, step };
            self.world.owe(job, now + after);
        }
        self.tell(order, "purchase_unknown", id.to_string())
    }

    /// A definite end. The shares that nothing was bought for are free to go another way.
    pub(super) fn end_purchase(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        state: PurchaseState,
        reason: &str,
    ) -> Result<()> {
        let now = self.now;
        let purchase = self.purchase_mut(order, id)?;
        purchase.state = state;
        purchase.ended_at = Some(now);
        purchase.deadline_at = None;
        purchase.end_reason = Some(reason.to_owned());
        for hold in &mut self.order_mut(order)?.holds {
            if hold.is_active() && hold.purchase.as_ref() == Some(id) {
                hold.purchase = None;
            }
        }
        for kind in [AlertKind::PurchaseUnknown, AlertKind::PurchaseUnpaid] {
            self.world.alerts.push(AlertChange::Close { kind, subject: id.to_string() });
        }
        self.tell(order, &format!("purchase_{state}"), format!("{id}: {reason}"))
    }

    /// A purchase whose deadline has passed: ops are told, again each day. That it is unpaid is only
    /// told by a reading asked for after the deadline; that there is no answer, only if it was waited
    /// for until then.
    pub(super) fn purchase_overdue(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        deadline: Timestamp,
    ) -> Result<()> {
        let next: Timestamp = self.now + REPEAT_EVERY;
        let purchase = self.purchase_mut(order, id)?;
        let state = purchase.state;
        if state.is_end() || state == PurchaseState::Received {
            purchase.deadline_at = None;
            return Ok(());
        }
        if self.is_held_up(order, id)? {
            let now = self.now;
            self.purchase_mut(order, id)?.trail.paused_at.get_or_insert(now);
            return self.purchase_deadline(order, id, self.policy.retry_deadline);
        }
        if state == PurchaseState::Shipped {
            self.purchase_mut(order, id)?.deadline_at = None;
            return self.tell(order, "purchase_left_shipped", id.to_string());
        }
        if !state.is_placed() && self.noticed_late(deadline) {
            self.world.owe(Job::Purchase { purchase: id.clone() }, self.now);
            return self.purchase_deadline(order, id, ONCE_MORE);
        }
        let purchase = self.purchase_mut(order, id)?;
        purchase.deadline_at = Some(next);
        self.world.owe_deadline(next);
        self.world.owe(Job::Purchase { purchase: id.clone() }, self.now);
        match state {
            PurchaseState::Placed => {
                self.purchase_mut(order, id)?.trail.overdue.get_or_insert(deadline);
                self.judge_unpaid(order, id)?;
            }
            PurchaseState::Paid | PurchaseState::Shipped | PurchaseState::Received => {}
            _ => {
                let what = "no definite answer from the supplier";
                self.alert_purchase(order, id, AlertKind::PurchaseUnknown, what);
            }
        }
        Ok(())
    }

    /// Whether an overdue purchase is unpaid, once a reading asked for since can tell.
    pub(super) fn judge_unpaid(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        let purchase = self.purchase(order, id)?;
        let (state, trail) = (purchase.state, &purchase.trail);
        if trail.overdue.is_none_or(|by| trail.polled_at.is_none_or(|read| read < by)) {
            return Ok(());
        }
        self.purchase_mut(order, id)?.trail.overdue = None;
        if state == PurchaseState::Placed {
            self.alert_purchase(order, id, AlertKind::PurchaseUnpaid, "placed and not paid");
        }
        Ok(())
    }

    fn alert_purchase(&mut self, order: &OrderId, id: &PurchaseId, kind: AlertKind, what: &str) {
        self.world.alerts.push(AlertChange::Open {
            kind,
            subject: id.to_string(),
            detail: format!("{what} (order {order})"),
        });
    }

    pub(super) fn retry_purchase(&mut self, id: &PurchaseId) -> Result<Outcome> {
        let (order, now) = (self.order_of_purchase(id)?, self.now);
        let purchase = self.purchase_mut(&order, id)?;
        if purchase.state.is_end() || purchase.state == PurchaseState::Received {
            let why = format!("the purchase is {}", purchase.state);
            return Err(Refusal::Conflict(purchase.state.as_str(), why).into());
        }
        purchase.trail.unanswered = 0;
        if purchase.state == PurchaseState::Shipped && purchase.end_reason.is_none() {
            self.purchase_deadline(&order, id, READ_AFTER_SHIPPED)?;
        }
        self.world.owe(Job::Purchase { purchase: id.clone() }, now);
        self.purchase_answer(&order, id)
    }

    pub(super) fn resolve_purchase(
        &mut self,
        id: &PurchaseId,
        resolution: &PurchaseResolution,
    ) -> Result<Outcome> {
        let order = self.order_of_purchase(id)?;
        let state = self.purchase(&order, id)?.state;
        if state != PurchaseState::Unknown {
            let why = format!("the purchase is {state}, not unknown");
            return Err(Refusal::Conflict(state.as_str(), why).into());
        }
        match resolution {
            PurchaseResolution::Placed { supplier_order_id } => {
                let supplier = self.purchase(&order, id)?.supplier.clone();
                let named = (supplier, supplier_order_id.clone());
                if let Some(other) = self.world.supplier_orders.get(&named) {
                    let why =
                        format!("the supplier's order {supplier_order_id} is that of {other}");
                    return Err(Refusal::Conflict(state.as_str(), why).into());
                }
                self.tell(&order, "ops_resolved", format!("{id} placed"))?;
                let created = Created {
                    supplier_order_id: supplier_order_id.clone(),
                    total: None,
                    left_out: Vec::new(),
                };
                self.lost_found(&order, id)?;
                self.placed(&order, id, &created)?;
                self.world.supplier_orders.insert(named, id.clone());
            }
            PurchaseResolution::NotPlaced => {
                self.tell(&order, "ops_resolved", format!("{id} not placed"))?;
                self.surely_not_there(&order, id)?;
            }
        }
        self.purchase_answer(&order, id)
    }

    fn purchase_answer(&self, order: &OrderId, id: &PurchaseId) -> Result<Outcome> {
        Ok(Outcome::Purchase(Box::new(self.purchase(order, id)?.clone())))
    }
}

fn next_for_placed(purchase: &Purchase) -> PurchaseStep {
    let Some(supplier_order_id) = purchase.supplier_order_id.clone() else {
        return PurchaseStep::Done;
    };
    let cancel = purchase.state == PurchaseState::Placed
        && purchase.cancel_requested_at.is_some()
        && !purchase.trail.cancel_refused
        && !purchase.trail.read_back_first;
    match purchase.state {
        PurchaseState::Received => PurchaseStep::Done,
        // Closed after it was shipped, or shipped long ago: there is nothing more to read.
        PurchaseState::Shipped if purchase.deadline_at.is_none() => PurchaseStep::Done,
        _ if cancel => PurchaseStep::Cancel { supplier_order_id },
        _ => PurchaseStep::Poll { supplier_order_id },
    }
}

/// The items of a purchase, each once.
pub(super) fn items(purchase: &Purchase) -> Vec<PurchaseItem> {
    let mut sums: BTreeMap<&Item, i64> = BTreeMap::new();
    for line in &purchase.trail.lines {
        let sum = sums.entry(&line.share.item).or_default();
        *sum = sum.saturating_add(line.share.quantity);
    }
    let item = |(item, quantity): (&Item, i64)| PurchaseItem { item: item.clone(), quantity };
    sums.into_iter().map(item).collect()
}

/// The lines that an order's purchase has, for answers.
pub(super) fn share_keys(order: &Order, id: &PurchaseId) -> Vec<(i64, i64)> {
    let lines = order.purchase(id).map(|p| p.trail.lines.as_slice()).unwrap_or_default();
    lines.iter().map(|l| (l.share.line, l.share.part)).collect()
}
