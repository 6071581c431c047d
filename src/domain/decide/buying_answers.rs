//! What the supplier said to a create, or to a look-up by our reference.
//!
//! What must hold: only a definite answer ends a purchase; after a lost create nothing is created,
//! refused or given up before two clean look-ups, the second at least `lookup_settle` after the
//! last attempt surely ended.

use std::collections::{BTreeMap, BTreeSet};

use super::buying::{items, share_keys};
use super::{Result, Rules};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::backoff;
use crate::domain::job::Job;
use crate::domain::names::{LevelId, OrderId, PurchaseId};
use crate::domain::order::{CancelReason, Confirmation, HoldState};
use crate::domain::outcome::{Ask, Outcome, Stop};
use crate::domain::policy::{LOST_UNTIL, Terms};
use crate::domain::purchase::{Purchase, PurchaseLine, PurchaseState, Surplus};
use crate::domain::stock::Closed;
use crate::domain::supply::{Created, Fault, Item, LeftOut, UpstreamOrder, UpstreamState};

impl Rules<'_> {
    pub(super) fn create_answered(
        &mut self,
        id: &PurchaseId,
        attempt: i64,
        sent: bool,
        answer: &std::result::Result<Created, Fault>,
    ) -> Result<Outcome> {
        let (order, now) = (self.order_of_purchase(id)?, self.now);
        let purchase = self.purchase_mut(&order, id)?;
        let first_answer = attempt > purchase.trail.answered;
        purchase.trail.answered = purchase.trail.answered.max(attempt);
        if purchase.state != PurchaseState::Placing || purchase.attempts != attempt {
            return self.answered_late(&order, id, sent && first_answer, answer);
        }
        let lost_before = !purchase.trail.lost.is_empty();
        match answer {
            Ok(created) => self.placed(&order, id, created)?,
            Err(fault @ (Fault::OutOfStock { .. } | Fault::Refused { .. })) if lost_before => {
                // Our own lost attempt may have taken the stock: believed after look-ups.
                let purchase = self.purchase_mut(&order, id)?;
                purchase.state = PurchaseState::Unknown;
                purchase.trail.doubted = Some(fault.clone());
                return Ok(Outcome::Again(purchase.attempt_until));
            }
            Err(fault @ (Fault::OutOfStock { .. } | Fault::Refused { .. })) => {
                self.refused(&order, id, fault)?;
            }
            Err(fault) => {
                let wait = self.unanswered(&order, id, fault)?;
                if sent {
                    self.lost_create(&order, id)?;
                } else {
                    self.give_back_claim(&order, id)?;
                }
                return Ok(Outcome::Again(Some(now + wait)));
            }
        }
        self.next_look(&order, id)
    }

    /// The create never went out: the claim is given back, or a cancel carried out.
    fn give_back_claim(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        self.purchase_mut(order, id)?.state = PurchaseState::Pending;
        if self.order(order)?.cancel_requested.is_some() {
            let why = "the order was cancelled";
            self.end_purchase(order, id, PurchaseState::Cancelled, why)?;
            self.advance(order)?;
        }
        Ok(())
    }

    /// An answer to an attempt that the purchase has gone on from. What it made is never dropped.
    /// `lost`: without a definite answer its create is a lost one that is not noted yet.
    fn answered_late(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        lost: bool,
        answer: &std::result::Result<Created, Fault>,
    ) -> Result<Outcome> {
        let purchase = self.purchase(order, id)?;
        let recorded = purchase.supplier_order_id.clone();
        match answer {
            Ok(created) if recorded.as_ref() == Some(&created.supplier_order_id) => {}
            Ok(created) if recorded.is_none() && !purchase.state.is_end() => {
                self.placed(order, id, created)?;
            }
            Ok(created) => {
                self.surplus_found(order, id, &created.supplier_order_id, false)?;
            }
            Err(Fault::Unknown { .. } | Fault::TooSoon) if lost => self.lost_create(order, id)?,
            Err(_) => {}
        }
        self.next_look(order, id)
    }

    /// Notes an unanswered call; returns how long to wait.
    fn unanswered(&mut self, order: &OrderId, id: &PurchaseId, fault: &Fault) -> Result<Span> {
        let trail = &mut self.purchase_mut(order, id)?.trail;
        let wait = backoff::exponential(trail.unanswered, Span::secs(1), Span::minutes(10));
        trail.unanswered = trail.unanswered.saturating_add(1);
        Ok(match fault {
            Fault::Unknown { retry_after: Some(asked), .. } => wait.max(*asked),
            Fault::TooSoon => Span::secs(10),
            _ => wait,
        })
    }

    /// When the purchase's job comes again after a definite answer.
    pub(super) fn next_look(&self, order: &OrderId, id: &PurchaseId) -> Result<Outcome> {
        let purchase = self.purchase(order, id)?;
        let poll = self.poll_every(order, id)?;
        let pending_cancel = purchase.cancel_requested_at.is_some()
            && purchase.state == PurchaseState::Placed
            && !purchase.trail.cancel_refused;
        let open_surplus = purchase.trail.surplus.iter().any(|s| s.ended_at.is_none() && !s.paid);
        Ok(Outcome::Again(match purchase.state {
            _ if open_surplus || pending_cancel => Some(self.now),
            PurchaseState::Failed | PurchaseState::Cancelled | PurchaseState::Received => None,
            PurchaseState::Shipped if purchase.deadline_at.is_none() => None,
            PurchaseState::Pending | PurchaseState::Placing | PurchaseState::Unknown => {
                Some(self.now)
            }
            PurchaseState::Placed | PurchaseState::Paid | PurchaseState::Shipped => {
                Some(self.now + poll)
            }
        }))
    }

    pub(super) fn poll_every(&self, order: &OrderId, id: &PurchaseId) -> Result<Span> {
        let terms = self.policy.suppliers.get(&self.purchase(order, id)?.supplier);
        Ok(terms.map_or(Span::minutes(5), Terms::poll_every))
    }

    /// The supplier has the order.
    pub(super) fn placed(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        created: &Created,
    ) -> Result<()> {
        let now = self.now;
        let supplier = self.purchase(order, id)?.supplier.clone();
        let terms = self.policy.suppliers.get(&supplier);
        let at_order = terms.is_some_and(|t| t.counts_at_order);
        let unpaid_after = terms.map_or(Span::hours(8), |t| t.unpaid_deadline);
        let purchase = self.purchase_mut(order, id)?;
        purchase.state = PurchaseState::Placed;
        purchase.supplier_order_id = Some(created.supplier_order_id.clone());
        purchase.cost = created.total;
        purchase.placed_at = Some(now);
        purchase.deadline_at = Some(now + unpaid_after);
        purchase.trail.unanswered = 0;
        purchase.trail.doubted = None;
        let left_out = |item: &Item| created.left_out.iter().find(|l| &l.item == item);
        for line in &mut purchase.trail.lines {
            line.result = Some(left_out(&line.share.item).map_or("placed".into(), code));
        }
        let lines = purchase.trail.lines.clone();
        self.world.owe_deadline(now + unpaid_after);
        for line in &lines {
            let key = (line.share.line, line.share.part);
            if let Some(left) = left_out(&line.share.item) {
                let asked = lines.iter().filter(|l| l.share.item == line.share.item);
                let asked = asked.fold(0i64, |sum, l| sum.saturating_add(l.share.quantity));
                self.leave_out(order, line, asked, &left.fault)?;
                continue;
            }
            self.step(order, key, HoldState::Committed)?;
            if at_order {
                self.hold_mut(order, key)?.counted_at = Some(now);
            }
        }
        let kind = AlertKind::PurchaseUnknown;
        self.world.alerts.push(AlertChange::Close { kind, subject: id.to_string() });
        self.tell(order, "purchase_placed", format!("{id} as {}", created.supplier_order_id))?;
        for (said, reason) in [
            (Confirmation::Short, CancelReason::SupplierShort),
            (Confirmation::Refused, CancelReason::SupplierRefused),
        ] {
            let keys = lines.iter().map(|l| (l.share.line, l.share.part));
            let o = self.order(order)?;
            let left = keys.filter(|k| {
                let hold = o.hold(k.0, k.1);
                hold.is_some_and(|h| h.is_active() && h.confirmation == Some(said))
            });
            let left: Vec<i64> = left.map(|k| k.0).collect();
            if !left.is_empty() && !o.is_end() && o.cancel_requested.is_none() {
                self.fall_short(order, &left, reason)?;
            }
        }
        self.advance(order)
    }

    /// A line that the supplier left out of an order it made: refused for itself. `asked`: all units
    /// of its item in the purchase, which were refused together.
    fn leave_out(
        &mut self,
        order: &OrderId,
        line: &PurchaseLine,
        asked: i64,
        fault: &Fault,
    ) -> Result<()> {
        let hold = self.hold_mut(order, (line.share.line, line.share.part))?;
        hold.purchase = None;
        hold.confirmation = Some(match fault {
            Fault::OutOfStock { .. } => Confirmation::Short,
            Fault::Refused { .. } => Confirmation::Refused,
            // Surely left out, the reason not known: asked again.
            Fault::Unknown { .. } | Fault::TooSoon => Confirmation::Unknown,
        });
        let level = line.share.level.clone();
        match fault {
            Fault::OutOfStock { .. } => self.close_level(&level, asked),
            Fault::Refused { .. } => {}
            _ => self.world.owe(Job::Confirm { level }, self.now),
        }
        Ok(())
    }

    /// A definite refusal at preview or create: nothing was made.
    fn refused(&mut self, order: &OrderId, id: &PurchaseId, fault: &Fault) -> Result<()> {
        let purchase = self.purchase(order, id)?.clone();
        let of_stock = matches!(fault, Fault::OutOfStock { .. });
        let levels: BTreeSet<LevelId> =
            purchase.trail.lines.iter().map(|l| l.share.level.clone()).collect();
        if of_stock {
            let missing: BTreeSet<LevelId> =
                levels.iter().filter(|l| !self.world.unbought.contains_key(*l)).cloned().collect();
            if !missing.is_empty() {
                return Err(Stop::More(Ask::Unbought(missing)));
            }
        }
        let keys = share_keys(self.order(order)?, id);
        let code = fault_code(fault);
        for line in &mut self.purchase_mut(order, id)?.trail.lines {
            line.result = Some(code.clone());
        }
        self.end_purchase(order, id, PurchaseState::Failed, &fault.to_string())?;
        if of_stock {
            for item in items(&purchase) {
                let level = LevelId::supplier(&purchase.supplier, &item.item);
                self.close_level(&level, item.quantity);
                self.reopen(&level)?;
            }
        }
        if self.order(order)?.cancel_requested.is_some() {
            return self.advance(order);
        }
        if of_stock && levels.len() > 1 {
            // Which item is short is not said: each is asked about again (`reopen` owes that), and
            // is closed for what was refused until a newer reading. The deadline runs on.
            for key in keys {
                let hold = self.hold_mut(order, key)?;
                if hold.is_active() {
                    hold.confirmation = Some(Confirmation::Unknown);
                }
            }
            return Ok(());
        }
        let (to, reason) = if of_stock {
            (Confirmation::Short, CancelReason::SupplierShort)
        } else {
            (Confirmation::Refused, CancelReason::SupplierRefused)
        };
        let mut lines: Vec<i64> = Vec::new();
        for key in keys {
            self.hold_mut(order, key)?.confirmation = Some(to);
            if !lines.contains(&key.0) {
                lines.push(key.0);
            }
        }
        self.fall_short(order, &lines, reason)
    }

    /// Closes an item for a quantity and more until a reading whose as_of is after now.
    fn close_level(&mut self, id: &LevelId, quantity: i64) {
        let now = self.now;
        if let Some(level) = self.world.level_mut(id) {
            let from = level.closed.map_or(quantity, |c| c.from_quantity.min(quantity));
            level.closed = Some(Closed { from_quantity: from, since: now });
        }
    }

    /// Reopens the decision for every confirmed share of an item that nothing was sent for.
    fn reopen(&mut self, level: &LevelId) -> Result<()> {
        for order in self.world.unbought.get(level).cloned().unwrap_or_default() {
            let waiting = self.holds(&order, |h| {
                &h.level == level
                    && h.is_active()
                    && h.confirmation == Some(Confirmation::Confirmed)
            })?;
            for key in waiting {
                if let Some(purchase) = self.hold(&order, key)?.purchase.clone() {
                    if self.purchase(&order, &purchase)?.state != PurchaseState::Pending {
                        continue;
                    }
                    let why = "the supplier refused another purchase of the item";
                    self.end_purchase(&order, &purchase, PurchaseState::Cancelled, why)?;
                }
                self.hold_mut(&order, key)?.confirmation = Some(Confirmation::Waiting);
                self.tell(&order, "share_reopened", level.to_string())?;
            }
        }
        self.world.owe(Job::Confirm { level: level.clone() }, self.now);
        Ok(())
    }

    pub(super) fn looked_up(
        &mut self,
        id: &PurchaseId,
        late: Option<(Timestamp, usize)>,
        answer: &std::result::Result<Vec<UpstreamOrder>, Fault>,
    ) -> Result<Outcome> {
        let (order, now) = (self.order_of_purchase(id)?, self.now);
        let found = match answer {
            Ok(found) => found,
            Err(fault) => {
                let wait = self.unanswered(&order, id, fault)?;
                return Ok(Outcome::Again(Some(now + wait)));
            }
        };
        let mine = self.sort_out(&order, id, found)?;
        if let Some((lost_at, step)) = late {
            if step >= LOST_UNTIL {
                self.lost_no_more(&order, id, lost_at)?;
            }
            if mine.is_none() {
                return Ok(Outcome::Again(None));
            }
        }
        match mine {
            Some(upstream) => self.found(&order, id, &upstream),
            None => match self.purchase(&order, id)?.state {
                PurchaseState::Unknown => self.not_found(&order, id),
                PurchaseState::Pending => {
                    self.purchase_mut(&order, id)?.trail.looked_up(now);
                    Ok(Outcome::Again(Some(now)))
                }
                _ => self.next_look(&order, id),
            },
        }
    }

    /// Of the orders found, the one to record, if none is recorded yet; the others are surplus.
    fn sort_out(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        found: &[UpstreamOrder],
    ) -> Result<Option<UpstreamOrder>> {
        let purchase = self.purchase(order, id)?.clone();
        let takes_one = purchase.state.in_flight() || purchase.state == PurchaseState::Pending;
        let alive = |o: &&UpstreamOrder| {
            !matches!(o.state, UpstreamState::ClosedUnpaid | UpstreamState::ClosedBySeller)
        };
        let ours = |o: &&UpstreamOrder| covers(&purchase, o);
        let mine = found.iter().filter(alive).find(ours).or_else(|| found.iter().find(ours));
        let mine = mine.filter(|_| takes_one).cloned();
        for gone in found.iter().filter(|o| !alive(o)) {
            self.surplus_ended(order, id, &gone.supplier_order_id, false)?;
        }
        for other in found.iter().filter(alive) {
            let recorded = purchase.supplier_order_id.as_deref() == Some(&other.supplier_order_id);
            let chosen =
                mine.as_ref().is_some_and(|m| m.supplier_order_id == other.supplier_order_id);
            if !recorded && !chosen {
                let paid = other.state != UpstreamState::AwaitingPayment;
                self.surplus_found(order, id, &other.supplier_order_id, paid)?;
            }
        }
        Ok(mine)
    }

    fn surplus_found(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        other: &str,
        paid: bool,
    ) -> Result<()> {
        let now = self.now;
        let known = &self.purchase(order, id)?.trail.surplus;
        if known.iter().any(|s| s.supplier_order_id == other) {
            return Ok(());
        }
        self.purchase_mut(order, id)?.trail.surplus.push(Surplus {
            supplier_order_id: other.to_owned(),
            found_at: now,
            ended_at: None,
            paid,
        });
        self.count_surplus(order, id, paid)?;
        self.lost_found(order, id)?;
        self.world.owe(Job::Purchase { purchase: id.clone() }, now);
        self.world.alerts.push(AlertChange::Open {
            kind: AlertKind::UpstreamDuplicate,
            subject: format!("{id}/{other}"),
            detail: format!(
                "the supplier has a second order {other} for {id}{}",
                if paid { ", already paid" } else { ", being cancelled" }
            ),
        });
        self.tell(order, "upstream_duplicate", other)
    }

    /// Counts each share's units in surplus orders of any generation that may still take them or
    /// give them back. `undone`: some of these orders' fate is known from now on.
    pub(super) fn count_surplus(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        undone: bool,
    ) -> Result<()> {
        let now = self.now;
        for key in share_keys(self.order(order)?, id) {
            let purchases = self.order(order)?.purchases.iter();
            let units = purchases.map(|p| surplus_units(p, key)).fold(0, i64::saturating_add);
            let hold = self.hold_mut(order, key)?;
            hold.surplus = units;
            if undone {
                hold.undone_at = Some(now);
            }
        }
        Ok(())
    }

    /// The late look-up of a lost create is done: its units do not come back any more.
    fn lost_no_more(&mut self, order: &OrderId, id: &PurchaseId, lost_at: Timestamp) -> Result<()> {
        let known = &mut self.purchase_mut(order, id)?.trail.lost_known;
        *known = (*known).max(Some(lost_at));
        self.count_lost(order, id)
    }

    /// An order under the reference was found that no answer told of: a lost create's. As many of
    /// them as orders are found have landed, and cannot land any more.
    pub(super) fn lost_found(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        let trail = &mut self.purchase_mut(order, id)?.trail;
        trail.lost_found = trail.lost.len().min(trail.lost_found.saturating_add(1));
        self.count_lost(order, id)
    }

    /// Counts each share's units in lost creates of any generation that may still turn up.
    pub(super) fn count_lost(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        for key in share_keys(self.order(order)?, id) {
            let purchases = self.order(order)?.purchases.iter();
            let units = purchases.map(|p| lost_units(p, key)).fold(0, i64::saturating_add);
            self.hold_mut(order, key)?.lost = units;
        }
        Ok(())
    }

    /// A look-up found the order that an unanswered create made.
    fn found(
        &mut self,
        order: &OrderId,
        id: &PurchaseId,
        upstream: &UpstreamOrder,
    ) -> Result<Outcome> {
        let there: BTreeSet<&Item> = upstream.items.iter().map(|i| &i.item).collect();
        let left_out = items(self.purchase(order, id)?)
            .into_iter()
            .filter(|i| !there.contains(&i.item))
            .map(|i| LeftOut {
                item: i.item,
                fault: Fault::Unknown {
                    code: "left_out".into(),
                    message: "not in the order that was found".into(),
                    retry_after: None,
                },
            });
        let created = Created {
            supplier_order_id: upstream.supplier_order_id.clone(),
            total: upstream.total,
            left_out: left_out.collect(),
        };
        self.lost_found(order, id)?;
        self.placed(order, id, &created)?;
        self.polled(id, self.now, &Ok(upstream.clone()))
    }

    /// A clean look-up found nothing.
    fn not_found(&mut self, order: &OrderId, id: &PurchaseId) -> Result<Outcome> {
        let now = self.now;
        let settle = self
            .policy
            .suppliers
            .get(&self.purchase(order, id)?.supplier)
            .map_or(Span::minutes(2), |t| t.lookup_settle);
        let purchase = self.purchase_mut(order, id)?;
        purchase.trail.unanswered = 0;
        let sure_from = purchase.attempt_until.unwrap_or(now) + settle;
        purchase.trail.looked_up(now);
        if purchase.trail.clean_lookups.len() < 2 || now < sure_from {
            let soon = now + Span::secs(1);
            return Ok(Outcome::Again(Some(sure_from.max(soon))));
        }
        self.surely_not_there(order, id)?;
        self.next_look(order, id)
    }

    /// Nothing was made: cancelled if that was asked, refused if that was said, else tried again.
    pub(super) fn surely_not_there(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        if self.order(order)?.cancel_requested.is_some() {
            self.end_purchase(order, id, PurchaseState::Cancelled, "surely not placed")?;
            return self.advance(order);
        }
        let purchase = self.purchase_mut(order, id)?;
        match purchase.trail.doubted.take() {
            Some(fault) => self.refused(order, id, &fault),
            None => {
                purchase.state = PurchaseState::Pending;
                self.world.owe(Job::Purchase { purchase: id.clone() }, self.now);
                self.tell(order, "purchase_pending", format!("{id}: surely not placed"))
            }
        }
    }
}

/// Units of a share in a purchase's open surplus orders.
fn surplus_units(purchase: &Purchase, key: (i64, i64)) -> i64 {
    units_in(purchase, key, purchase.trail.surplus.iter().filter(|s| s.ended_at.is_none()).count())
}

/// Units of a share in a purchase's lost creates of which it is not known yet what they took.
fn lost_units(purchase: &Purchase, key: (i64, i64)) -> i64 {
    units_in(purchase, key, purchase.trail.lost_open())
}

/// Units of a share in so many orders of a purchase's lines.
fn units_in(purchase: &Purchase, key: (i64, i64), orders: usize) -> i64 {
    let orders = i64::try_from(orders).unwrap_or(i64::MAX);
    let lines = purchase.trail.lines.iter().filter(|l| (l.share.line, l.share.part) == key);
    lines.fold(0, |sum, l| sum.saturating_add(l.share.quantity.saturating_mul(orders)))
}

/// Whether a supplier's order has nothing but lines of the purchase, each whole.
fn covers(purchase: &Purchase, upstream: &UpstreamOrder) -> bool {
    let asked: BTreeMap<Item, i64> =
        items(purchase).into_iter().map(|i| (i.item, i.quantity)).collect();
    let mut got: BTreeMap<&Item, i64> = BTreeMap::new();
    for line in &upstream.items {
        let sum = got.entry(&line.item).or_default();
        *sum = sum.saturating_add(line.quantity);
    }
    !got.is_empty() && got.iter().all(|(item, n)| asked.get(*item) == Some(n))
}

fn fault_code(fault: &Fault) -> String {
    match fault {
        Fault::Unknown { code, .. }
        | Fault::OutOfStock { code, .. }
        | Fault::Refused { code, .. } => code.clone(),
        Fault::TooSoon => "too_soon".into(),
    }
}

fn code(left: &LeftOut) -> String {
    fault_code(&left.fault)
}
