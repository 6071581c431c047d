//! Confirming: by the supplier's answer, which of the orders that wait on an item get it.
//!
//! Everything is judged against one figure, `live`: the reading with the newest as_of known for the
//! item, be it the answer or the level. What counts and why is in `design.md`, *Confirming*.

use std::collections::BTreeMap;

use super::readings::contained;
use super::{Result, Rules};
use crate::clock::{Span, Timestamp};
use crate::domain::backoff;
use crate::domain::lock_ttl;
use crate::domain::names::{LevelId, OrderId, PurchaseId};
use crate::domain::order::{CancelReason, Confirmation, Hold, HoldState, Order, State};
use crate::domain::outcome::{Outcome, Refusal, Stop};
use crate::domain::policy::{ATTENTION_ASK_EVERY, Terms};
use crate::domain::purchase::PurchaseState;
use crate::domain::stock::Listing;
use crate::domain::supply::{Fault, Figure, Reading};
use crate::domain::world::{ItemUnits, ItemView};

/// What stands against the figure before the undecided orders are judged. Units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub live: i64,
    /// Ours: confirmed, placing, unknown, or placed but not surely contained in `live`.
    pub u: i64,
    /// Of `u`: confirmed and not yet sent, of orders whose every supplier share is decided.
    pub p: i64,
    /// May come back: undone but not surely before `live`, being cancelled, or lost.
    pub r: i64,
    /// Of `u`: confirmed shares of orders that are not fully decided.
    pub partial: i64,
    /// The item is closed for this many units and more.
    pub closed_from: Option<i64>,
}

/// An undecided order's claim on the item. Units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub need: i64,
    /// Its own shares of this item that are confirmed already.
    pub partial: i64,
    /// Confirming it would decide its last supplier share.
    pub completes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Enough,
    Short,
    /// Only undecided older orders, or confirmed shares of orders not fully decided, stand before.
    Waiting,
    Unknown,
}

/// Judges claims in order, oldest first. *w*, what older undecided orders need, grows on the way.
pub fn judge(mut s: Standing, claims: &[Claim]) -> Vec<Verdict> {
    let mut w = 0i64;
    let mut verdicts = Vec::with_capacity(claims.len());
    for claim in claims {
        let need = claim.need;
        let closed = s.closed_from.is_some_and(|from| need >= from);
        let left = s.live.saturating_sub(s.u);
        let verdict = if !closed && left.saturating_sub(w) >= need {
            Verdict::Enough
        } else if s.live.saturating_add(s.r).saturating_sub(s.p) < need {
            Verdict::Short
        } else if !closed && left.saturating_add(s.partial) >= need {
            Verdict::Waiting
        } else {
            Verdict::Unknown
        };
        match verdict {
            Verdict::Enough => {
                s.u = s.u.saturating_add(need);
                if claim.completes {
                    s.p = s.p.saturating_add(need).saturating_add(claim.partial);
                    s.partial = s.partial.saturating_sub(claim.partial);
                } else {
                    s.partial = s.partial.saturating_add(need);
                }
            }
            // Its confirmed shares go with it only when that is carried out.
            Verdict::Short => {}
            Verdict::Waiting | Verdict::Unknown => w = w.saturating_add(need),
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// Orders that could not be seen are looked for again after this.
const SOON: Span = Span::secs(1);

/// What the supplier's answer amounts to before any order is looked at.
enum Answer {
    Usable,
    /// No usable answer, and how long it asks us to wait.
    Nothing(Option<Span>),
    Refused(String),
}

impl Rules<'_> {
    pub(super) fn lock_item(&mut self, id: &LevelId, owner: &str) -> Result<Outcome> {
        let now = self.now;
        let Some(level) = self.world.levels.get(id) else {
            return Err(Refusal::NotFound("stock level").into());
        };
        let (Some(item), Some(terms)) =
            (level.item.clone(), self.policy.suppliers.get(&level.source))
        else {
            return Err(Refusal::NotFound("supplier").into());
        };
        if let Some(until) = level.lock.until
            && until > now
            && level.lock.owner.as_deref() != Some(owner)
        {
            return Err(Refusal::Locked(until).into());
        }
        let view = self.world.items.get(id);
        if view.is_none_or(|v| v.undecided.is_empty()) {
            // More, and none seen: others are at work on the oldest at the moment.
            let busy = view.is_some_and(|v| v.more);
            return Ok(Outcome::Again(busy.then(|| now + SOON)));
        }
        let unpaid = view.map(unpaid).unwrap_or_default();
        let ttl = lock_ttl::lock_ttl(terms, lock_ttl::lag(terms, &level.lag_samples));
        let mut token = 0;
        if let Some(level) = self.world.level_mut(id) {
            level.lock.token = level.lock.token.saturating_add(1);
            level.lock.until = Some(now + ttl);
            level.lock.owner = Some(owner.to_owned());
            token = level.lock.token;
        }
        Ok(Outcome::Locked { token, item, unpaid })
    }

    pub(super) fn judge_item(
        &mut self,
        id: &LevelId,
        token: i64,
        answer: &std::result::Result<Reading, Fault>,
        polled: bool,
    ) -> Result<Outcome> {
        let level = self.world.levels.get(id);
        let level = level.ok_or(Stop::Refused(Refusal::NotFound("stock level")))?;
        if level.lock.token != token || level.lock.until.is_none() {
            return Err(Refusal::Fenced(format!("the lock on {id} has another owner")).into());
        }
        let terms = self.policy.suppliers.get(&level.source);
        let terms = terms.ok_or(Stop::Refused(Refusal::NotFound("supplier")))?;
        if let Ok(reading) = answer {
            self.take_reading(id, reading, false)?;
        }
        let view = self.world.items.get(id).cloned().unwrap_or_default();
        let undecided = self.undecided(id, &view);
        let mut decided = !undecided.is_empty();
        let again = match self.weigh(id, terms, answer)? {
            Answer::Refused(code) => {
                self.all_refused(id, &undecided, &code)?;
                None
            }
            Answer::Nothing(wait) => {
                decided = false;
                self.all_unknown(id, &undecided)?;
                self.ask_again(&undecided, terms, wait.or(Some(Span::ZERO)))?
            }
            Answer::Usable => {
                let verdicts = self.verdicts(id, terms, &view, &undecided)?;
                let unpaid = unpaid(&view);
                if !polled && verdicts.contains(&Verdict::Short) && !unpaid.is_empty() {
                    return Ok(Outcome::PollFirst(unpaid));
                }
                let open = |v: &Verdict| matches!(v, Verdict::Waiting | Verdict::Unknown);
                decided = !verdicts.iter().all(open);
                self.carry_out(id, &undecided, &verdicts)?;
                self.ask_again(&undecided, terms, None)?
            }
        };
        if let Some(level) = self.world.level_mut(id) {
            level.lock.until = None;
        }
        // Those not seen (beyond the 500 oldest, or others were at work on them) have their turn
        // when some of these are out of the way.
        let now = self.now;
        Ok(Outcome::Again(match view.more {
            true if decided => Some(now),
            true => again.or(Some(now + SOON)),
            false => again,
        }))
    }

    /// There must be an answer to a question sent within `max_answer_age`, and the newest figure
    /// known must be no older than `L + 1.2 × I`.
    fn weigh(
        &self,
        id: &LevelId,
        terms: &Terms,
        answer: &std::result::Result<Reading, Fault>,
    ) -> Result<Answer> {
        let level = self.level(id)?;
        let reading = match answer {
            Ok(reading) => reading,
            Err(Fault::Refused { code, .. }) => return Ok(Answer::Refused(code.clone())),
            Err(Fault::Unknown { retry_after, .. }) => return Ok(Answer::Nothing(*retry_after)),
            Err(_) => return Ok(Answer::Nothing(None)),
        };
        let late = self.now.since(reading.sent_at) > self.policy.max_answer_age;
        if late || matches!(reading.figure, Figure::Unknown(_)) {
            return Ok(Answer::Nothing(None));
        }
        let limit = lock_ttl::stale_after(terms, lock_ttl::lag(terms, &level.lag_samples));
        let fresh = level.as_of.is_some_and(|at| self.now.since(at) <= limit);
        Ok(match level.listing {
            Listing::Missing if fresh => Answer::Refused("not_listed".into()),
            Listing::Listed if fresh => Answer::Usable,
            _ => Answer::Nothing(None),
        })
    }

    /// The orders of the view that are still undecided here, oldest first.
    fn undecided(&self, id: &LevelId, view: &ItemView) -> Vec<OrderId> {
        let orders = view.undecided.iter().filter_map(|o| self.world.orders.get(o));
        let mut open: Vec<_> = orders.filter(|o| need(o, id) > 0).collect();
        open.sort_by_key(|o| (o.paid_at, o.id.clone()));
        open.iter().map(|o| o.id.clone()).collect()
    }

    fn verdicts(
        &self,
        id: &LevelId,
        terms: &Terms,
        view: &ItemView,
        undecided: &[OrderId],
    ) -> Result<Vec<Verdict>> {
        let level = self.level(id)?;
        let as_of = level.as_of.unwrap_or_default();
        let mut standing = Standing {
            live: level.quantity,
            closed_from: level.closed.map(|c| c.from_quantity),
            ..Standing::default()
        };
        for units in self.all_units(id, view) {
            standing.add(&units, terms, as_of);
        }
        let claims: Vec<Claim> = undecided
            .iter()
            .filter_map(|o| self.world.orders.get(o))
            .map(|o| Claim {
                need: need(o, id),
                partial: sum(o, |h| {
                    &h.level == id
                        && h.is_active()
                        && h.confirmation == Some(Confirmation::Confirmed)
                        && h.purchase.is_none()
                }),
                completes: o.holds.iter().all(|h| {
                    !h.is_supplier()
                        || !h.is_active()
                        || &h.level == id
                        || h.confirmation == Some(Confirmation::Confirmed)
                }),
            })
            .collect();
        Ok(judge(standing, &claims))
    }

    /// The item's units: as the rows say for orders that are not loaded, as the world says (which
    /// this group may have changed) for those that are.
    fn all_units(&self, id: &LevelId, view: &ItemView) -> Vec<ItemUnits> {
        let rows = view.units.iter().filter(|u| !self.world.orders.contains_key(&u.order));
        let loaded = self
            .world
            .orders
            .values()
            .flat_map(|o| o.holds.iter().filter(|h| &h.level == id).map(|h| units_of(o, h)));
        rows.cloned().chain(loaded).collect()
    }

    fn carry_out(&mut self, id: &LevelId, orders: &[OrderId], verdicts: &[Verdict]) -> Result<()> {
        for (order, verdict) in orders.iter().zip(verdicts) {
            match verdict {
                Verdict::Enough => {
                    self.set_confirmation(order, id, Confirmation::Confirmed)?;
                    self.tell(order, "share_confirmed", id.to_string())?;
                    self.advance(order)?;
                }
                Verdict::Short => {
                    let lines = self.set_confirmation(order, id, Confirmation::Short)?;
                    self.tell(order, "supplier_short", id.to_string())?;
                    self.fall_short(order, &lines, CancelReason::SupplierShort)?;
                }
                Verdict::Waiting => {
                    self.set_confirmation(order, id, Confirmation::Waiting)?;
                }
                Verdict::Unknown => {
                    self.set_confirmation(order, id, Confirmation::Unknown)?;
                }
            }
        }
        Ok(())
    }

    fn all_refused(&mut self, id: &LevelId, orders: &[OrderId], code: &str) -> Result<()> {
        for order in orders {
            let lines = self.set_confirmation(order, id, Confirmation::Refused)?;
            self.tell(order, "supplier_refused", format!("{id}: {code}"))?;
            self.fall_short(order, &lines, CancelReason::SupplierRefused)?;
        }
        Ok(())
    }

    fn all_unknown(&mut self, id: &LevelId, orders: &[OrderId]) -> Result<()> {
        for order in orders {
            self.set_confirmation(order, id, Confirmation::Unknown)?;
        }
        Ok(())
    }

    /// Sets what is said of an order's undecided shares of an item; returns their lines.
    fn set_confirmation(
        &mut self,
        order: &OrderId,
        id: &LevelId,
        to: Confirmation,
    ) -> Result<Vec<i64>> {
        let now = self.now;
        let keys = self.holds(order, |h| is_undecided(h, id))?;
        let mut lines = Vec::new();
        for key in keys {
            let hold = self.hold_mut(order, key)?;
            hold.confirmation = Some(to);
            hold.asked_at.get_or_insert(now);
            if !lines.contains(&key.0) {
                lines.push(key.0);
            }
        }
        Ok(lines)
    }

    /// When to ask again for those still undecided: after the settle margin; after no usable
    /// answer with doubling intervals; every 10 min once all are in attention.
    fn ask_again(
        &self,
        orders: &[OrderId],
        terms: &Terms,
        no_answer: Option<Span>,
    ) -> Result<Option<Timestamp>> {
        let open = orders.iter().filter_map(|o| self.world.orders.get(o)).filter(|o| {
            matches!(o.state, State::Confirming | State::Attention)
                && o.holds.iter().any(|h| {
                    h.is_active()
                        && matches!(
                            h.confirmation,
                            Some(Confirmation::Waiting | Confirmation::Unknown)
                        )
                })
        });
        let open: Vec<_> = open.collect();
        if open.is_empty() {
            return Ok(None);
        }
        if open.iter().all(|o| o.state == State::Attention) {
            return Ok(Some(self.now + ATTENTION_ASK_EVERY));
        }
        let margin = terms.settle_margin.max(Span::secs(1));
        let wait = match no_answer {
            None => margin,
            Some(asked) => {
                let first = open.iter().flat_map(|o| &o.holds).filter_map(|h| h.asked_at).max();
                let waited = first.map_or(Span::ZERO, |at| self.now.since(at));
                let least = margin.min(Span::secs(5));
                backoff::doubling(waited, least, ATTENTION_ASK_EVERY).max(asked)
            }
        };
        Ok(Some(self.now + wait))
    }
}

impl Standing {
    fn add(&mut self, x: &ItemUnits, terms: &Terms, as_of: Timestamp) {
        let n = x.quantity;
        let confirmed =
            x.state == HoldState::Active && x.confirmation == Some(Confirmation::Confirmed);
        let bought = x.state == HoldState::Committed && !contained(terms, x.counted_at, as_of);
        if confirmed || bought {
            self.u = self.u.saturating_add(n);
        }
        if confirmed && x.purchase.is_none() {
            self.partial = self.partial.saturating_add(n);
        }
        if confirmed && x.purchase_state == Some(PurchaseState::Pending) {
            self.p = self.p.saturating_add(n);
        }
        let undone = x.undone_at.is_some() && !contained(terms, x.undone_at, as_of);
        // In the figure already, where that falls at order, and not paid: cancelled, it comes back.
        let unpaid = x.purchase_state == Some(PurchaseState::Placed);
        let open = match x.state {
            HoldState::Active | HoldState::Committed => true,
            HoldState::Settled => unpaid,
            HoldState::Released | HoldState::Reversed => false,
        };
        for may_come_back in [undone, open && x.cancel_requested] {
            if may_come_back {
                self.r = self.r.saturating_add(n);
            }
        }
        self.u = self.u.saturating_add(x.surplus);
        // Each lost create and each surplus order may have taken them: all of these may come back.
        self.r = self.r.saturating_add(x.lost).saturating_add(x.surplus);
    }
}

fn units_of(order: &Order, hold: &Hold) -> ItemUnits {
    let purchase = hold.purchase.as_ref().and_then(|p| order.purchase(p));
    ItemUnits {
        order: order.id.clone(),
        quantity: hold.quantity,
        state: hold.state,
        confirmation: hold.confirmation,
        purchase: hold.purchase.clone(),
        purchase_state: purchase.map(|p| p.state),
        cancel_requested: purchase.is_some_and(|p| p.cancel_requested_at.is_some()),
        counted_at: hold.counted_at,
        undone_at: hold.undone_at,
        lost: hold.lost,
        surplus: hold.surplus,
        unpaid_supplier_order: purchase
            .filter(|p| p.state == PurchaseState::Placed)
            .and_then(|p| p.supplier_order_id.clone()),
    }
}

/// Active, asked about, and not decided yet.
fn is_undecided(hold: &Hold, id: &LevelId) -> bool {
    &hold.level == id
        && hold.is_active()
        && matches!(hold.confirmation, Some(Confirmation::Waiting | Confirmation::Unknown))
}

fn sum(order: &Order, keep: impl Fn(&Hold) -> bool) -> i64 {
    let holds = order.holds.iter().filter(|h| keep(h));
    holds.fold(0, |sum, h| sum.saturating_add(h.quantity))
}

/// The units of an item that an order still waits for.
fn need(order: &Order, id: &LevelId) -> i64 {
    let waits = matches!(order.state, State::Confirming | State::Attention)
        && order.cancel_requested.is_none();
    if waits { sum(order, |h| is_undecided(h, id)) } else { 0 }
}

/// Placed, unpaid purchases of an item.
fn unpaid(view: &ItemView) -> Vec<(PurchaseId, String)> {
    let mut found: BTreeMap<PurchaseId, String> = BTreeMap::new();
    for units in &view.units {
        if let (Some(purchase), Some(order)) = (&units.purchase, &units.unpaid_supplier_order) {
            found.insert(purchase.clone(), order.clone());
        }
    }
    found.into_iter().collect()
}
