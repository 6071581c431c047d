//! Buying: one purchase for each supplier of an order, made only when all of its supplier shares
//! are confirmed or cancelled by policy, and the next thing to do about each.

use std::collections::BTreeMap;

use super::{Result, Rules};
use crate::clock::{Span, Timestamp};
use crate::domain::alert::{AlertChange, AlertKind};
use crate::domain::command::PurchaseResolution;
use crate::domain::job::Job;
use crate::domain::names::{OrderId, PurchaseId, SourceId};
use crate::domain::order::{Hold, Order, Share};
use crate::domain::outcome::{Outcome, PurchaseStep, Refusal};
use crate::domain::policy::{LATE_LOOKUPS, REPEAT_EVERY};
use crate::domain::purchase::{Purchase, PurchaseLine, PurchaseState, Trail};
use crate::domain::supply::{Created, Item, PurchaseItem, PurchaseRequest};

/// While buying is paused the purchase is looked at again this often.
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
        if self.buying_paused(order, id)? {
            return Ok(PurchaseStep::Wait(now + PAUSED_FOR));
        }
        let purchase = self.purchase(order, id)?;
        if self.world.look_up_first && purchase.trail.clean_lookups.is_empty() {
            return Ok(PurchaseStep::LookUp { reference: id.to_string() });
        }
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

    /// The answer of a create was lost: it may have been made, and may yet land.
    pub(super) fn lost_create(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        let now = self.now;
        let purchase = self.purchase_mut(order, id)?;
        if purchase.state.in_flight() {
            purchase.state = PurchaseState::Unknown;
        }
        purchase.trail.lost.push(now);
        let shares: Vec<_> =
            purchase.trail.lines.iter().map(|l| (l.share.line, l.share.part)).collect();
        for key in shares {
            self.hold_mut(order, key)?.lost_at = Some(now);
        }
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

    /// A purchase whose deadline has passed: ops are told, again each day.
    pub(super) fn purchase_overdue(&mut self, order: &OrderId, id: &PurchaseId) -> Result<()> {
        let next: Timestamp = self.now + REPEAT_EVERY;
        let purchase = self.purchase_mut(order, id)?;
        let state = purchase.state;
        if state.is_end() || state == PurchaseState::Received {
            purchase.deadline_at = None;
            return Ok(());
        }
        purchase.deadline_at = Some(next);
        self.world.owe_deadline(next);
        self.world.owe(Job::Purchase { purchase: id.clone() }, self.now);
        let (kind, detail) = match state {
            PurchaseState::Placed => (AlertKind::PurchaseUnpaid, "placed and not paid"),
            PurchaseState::Paid | PurchaseState::Shipped | PurchaseState::Received => {
                return Ok(());
            }
            _ => (AlertKind::PurchaseUnknown, "no definite answer from the supplier"),
        };
        self.world.alerts.push(AlertChange::Open {
            kind,
            subject: id.to_string(),
            detail: format!("{detail} (order {order})"),
        });
        Ok(())
    }

    pub(super) fn retry_purchase(&mut self, id: &PurchaseId) -> Result<Outcome> {
        let (order, now) = (self.order_of_purchase(id)?, self.now);
        let purchase = self.purchase_mut(&order, id)?;
        if purchase.state.is_end() || purchase.state == PurchaseState::Received {
            let why = format!("the purchase is {}", purchase.state);
            return Err(Refusal::Conflict(purchase.state.as_str(), why).into());
        }
        purchase.trail.unanswered = 0;
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
                self.tell(&order, "ops_resolved", format!("{id} placed"))?;
                let created = Created {
                    supplier_order_id: supplier_order_id.clone(),
                    total: None,
                    left_out: Vec::new(),
                };
                self.placed(&order, id, &created)?;
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
        // Closed after it was shipped: there is nothing more to read.
        _ if purchase.end_reason.is_some() => PurchaseStep::Done,
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
