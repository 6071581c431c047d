//! Placing an order: all of its stock is held, or nothing is left behind.

use std::collections::BTreeSet;

use super::{Result, Rules};
use crate::domain::availability::{self, Take};
use crate::domain::command::{Placement, PlacementLine};
use crate::domain::names::{LevelId, OrderId, SkuKey};
use crate::domain::order::{Confirmation, Hold, HoldState, Line, Order, State};
use crate::domain::outcome::{Ask, Outcome, Refusal, Stop, Touch};
use crate::domain::policy::KEYS_KEPT;
use crate::domain::pricing;
use crate::domain::sku::{Kind, Sku};

/// Units wanted for a line.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub line: i64,
    pub sku: SkuKey,
    pub quantity: i64,
}

/// Units of a line to be held at a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub line: i64,
    pub sku: SkuKey,
    pub level: LevelId,
    pub quantity: i64,
}

/// A placement ends at most so many of the oldest overdue orders of its levels.
const MAX_ENDED: usize = 50;

impl Rules<'_> {
    pub(super) fn place(&mut self, p: &Placement) -> Result<Outcome> {
        if let Some(replay) = self.replayed(p)? {
            return Ok(replay);
        }
        let external = (p.channel.clone(), p.external_id.clone());
        if let Some(existing) = self.world.external.get(&external).cloned() {
            if self.order(&existing)?.content_hash != p.content_hash {
                return Err(Refusal::ExternalIdConflict.into());
            }
            if let Some(payment) = &p.payment {
                self.pay(&existing, payment)?;
            }
            return self.answer(&existing, Touch::Existing);
        }
        if let Some(payment) = &p.payment
            && self.world.payments.contains_key(&(p.channel.clone(), payment.id.clone()))
        {
            let why = "it belongs to another order".to_owned();
            return Err(Refusal::PaymentConflict(why).into());
        }
        let lines = self.resolve(&p.lines)?;
        let shares = self.choose(&wanted(&lines))?;
        let order = self.new_order(p, &lines)?;
        let (id, expires_at) = (order.id.clone(), order.expires_at);
        self.world.create_order(order);
        self.tell(&id, "order_placed", "")?;
        self.hold_shares(&id, shares)?;
        self.enter(&id, State::PendingPayment, Some(expires_at))?;
        if let Some(payment) = &p.payment {
            self.pay(&id, payment)?;
        } else if self.order(&id)?.total == 0 {
            self.paid_in_full(&id)?;
        }
        self.answer(&id, Touch::Created)
    }

    /// The first answer under the placement's own idempotency key. A key whose time is over is
    /// taken off its order, so that another may have it.
    fn replayed(&mut self, p: &Placement) -> Result<Option<Outcome>> {
        let Some((key, hash)) = &p.idempotency else {
            return Ok(None);
        };
        let Some(existing) = self.world.placement_keys.get(key).cloned() else {
            return Ok(None);
        };
        let order = self.order(&existing)?;
        if order.created_at + KEYS_KEPT <= self.now {
            self.world.free_placement_key(key);
            return Ok(None);
        }
        if order.idempotency.as_ref().is_some_and(|(_, kept)| kept == hash) {
            return self.answer(&existing, Touch::Replayed).map(Some);
        }
        Err(Refusal::KeyReused.into())
    }

    /// The lines with the SKUs' own keys (aliases followed).
    fn resolve(&self, lines: &[PlacementLine]) -> Result<Vec<PlacementLine>> {
        let mut unknown = Vec::new();
        let mut resolved = Vec::with_capacity(lines.len());
        for line in lines {
            match self.world.sku(&line.sku) {
                Some(sku) => resolved.push(PlacementLine { sku: sku.key.clone(), ..line.clone() }),
                None => unknown.push(line.sku.clone()),
            }
        }
        if unknown.is_empty() { Ok(resolved) } else { Err(Refusal::UnknownSku(unknown).into()) }
    }

    fn new_order(&self, p: &Placement, lines: &[PlacementLine]) -> Result<Order> {
        let overflow = || Stop::Refused(Refusal::invalid("lines", "the total is too large"));
        let goods = pricing::gross(lines.iter().map(|l| (&l.quantity, &l.unit_price)));
        let with_shipping = goods.and_then(|g| g.checked_add(p.shipping)).ok_or_else(overflow)?;
        let total = with_shipping.checked_sub(p.discount).filter(|t| *t >= 0);
        let total = total.ok_or_else(|| {
            Stop::Refused(Refusal::invalid("discount", "must not exceed goods and shipping"))
        })?;
        let ttl = lines.iter().filter_map(|l| self.world.sku(&l.sku)).map(|s| s.class);
        let ttl = ttl.map(|class| self.policy.ttl(class)).min().unwrap_or(self.policy.ttl_normal);
        Ok(Order {
            id: p.id.clone(),
            channel: p.channel.clone(),
            external_id: p.external_id.clone(),
            content_hash: p.content_hash.clone(),
            idempotency: p.idempotency.clone(),
            state: State::PendingPayment,
            currency: p.currency.clone(),
            total,
            shipping: p.shipping,
            discount: p.discount,
            short_policy: p.short_policy,
            cancel_reason: None,
            cancel_requested: None,
            created_at: self.now,
            expires_at: self.now + ttl,
            grace_used: false,
            paid_at: None,
            deadline_at: None,
            attention: None,
            customer: p.customer.clone(),
            ship_to: p.ship_to.clone(),
            lines: (1..).zip(lines).map(|(no, l)| new_line(no, l)).collect(),
            holds: Vec::new(),
            payments: Vec::new(),
            refunds: Vec::new(),
            purchases: Vec::new(),
            shipments: Vec::new(),
            events: Vec::new(),
        })
    }

    /// Chooses sources; a choice that would be refused first ends the levels' overdue orders.
    pub(super) fn choose(&mut self, wanted: &[Wanted]) -> Result<Vec<Share>> {
        let mut ended = 0;
        loop {
            let refusal = match self.choose_once(wanted) {
                Ok(shares) => return Ok(shares),
                Err(refusal @ (Refusal::InsufficientStock(_) | Refusal::StaleFeed(_))) => refusal,
                Err(refusal) => return Err(refusal.into()),
            };
            if !self.world.any_overdue || ended >= MAX_ENDED {
                return Err(refusal.into());
            }
            let levels = self.levels_of(wanted);
            let missing: BTreeSet<LevelId> =
                levels.iter().filter(|l| !self.world.overdue.contains_key(*l)).cloned().collect();
            if !missing.is_empty() {
                return Err(Stop::More(Ask::Overdue(missing)));
            }
            let Some(overdue) = self.oldest_overdue(&levels) else {
                return Err(refusal.into());
            };
            self.expire(&overdue)?;
            ended += 1;
        }
    }

    fn choose_once(&self, wanted: &[Wanted]) -> std::result::Result<Vec<Share>, Refusal> {
        let mut sums: Vec<(&Sku, i64)> = Vec::new();
        for want in wanted {
            let sku = self.world.sku(&want.sku);
            let sku = sku.ok_or_else(|| Refusal::UnknownSku(vec![want.sku.clone()]))?;
            match sums.iter_mut().find(|(s, _)| s.key == sku.key) {
                Some((_, n)) => *n = n.saturating_add(want.quantity),
                None => sums.push((sku, want.quantity)),
            }
        }
        let world = &self.world;
        let takes =
            availability::choose(self.policy, &world.suppliers, &world.levels, self.now, &sums)?;
        Ok(distribute(wanted, takes))
    }

    fn levels_of(&self, wanted: &[Wanted]) -> BTreeSet<LevelId> {
        let skus = wanted.iter().filter_map(|w| self.world.sku(&w.sku));
        skus.flat_map(|s| s.sources.iter().map(|source| source.level.clone())).collect()
    }

    /// The oldest loaded order at these levels that is still unpaid and overdue.
    fn oldest_overdue(&self, levels: &BTreeSet<LevelId>) -> Option<OrderId> {
        let orders = levels.iter().filter_map(|l| self.world.overdue.get(l)).flatten();
        let due = orders.filter_map(|id| self.world.orders.get(id)).filter(|o| {
            o.state == State::PendingPayment
                && o.deadline_at.is_some_and(|at| at <= self.now)
                && o.holds.iter().any(|h| h.is_active() && levels.contains(&h.level))
        });
        due.min_by_key(|o| (o.deadline_at, o.id.clone())).map(|o| o.id.clone())
    }

    /// Holds what was chosen.
    pub(super) fn hold_shares(&mut self, order: &OrderId, shares: Vec<Share>) -> Result<()> {
        for share in shares {
            let level = self.level(&share.level)?;
            let (source, kind) = (level.source.clone(), level.kind);
            let part = self.order(order)?.next_part(share.line);
            let hold = Hold {
                line: share.line,
                part,
                sku: share.sku,
                level: share.level,
                source,
                kind,
                quantity: share.quantity,
                state: HoldState::Active,
                confirmation: (kind == Kind::Supplier).then_some(Confirmation::NotDue),
                asked_at: None,
                purchase: None,
                counted_at: None,
                undone_at: None,
                lost: 0,
                surplus: 0,
                created_at: self.now,
                ended_at: None,
            };
            self.occupy(order, hold)?;
        }
        Ok(())
    }
}

fn wanted(lines: &[PlacementLine]) -> Vec<Wanted> {
    let numbered = (1..).zip(lines);
    numbered.map(|(line, l)| Wanted { line, sku: l.sku.clone(), quantity: l.quantity }).collect()
}

/// Deals what was taken for each SKU out to the lines that want it, in line order.
fn distribute(wanted: &[Wanted], takes: Vec<Take>) -> Vec<Share> {
    let mut left: Vec<Take> = takes;
    let mut shares = Vec::new();
    for want in wanted {
        let mut open = want.quantity;
        for take in left.iter_mut().filter(|t| t.quantity > 0 && t.sku == want.sku) {
            let quantity = open.min(take.quantity);
            if quantity > 0 {
                (open, take.quantity) = (open - quantity, take.quantity - quantity);
                shares.push(Share {
                    line: want.line,
                    sku: want.sku.clone(),
                    level: take.level.clone(),
                    quantity,
                });
            }
        }
    }
    shares
}

fn new_line(no: i64, line: &PlacementLine) -> Line {
    Line {
        no,
        sku: line.sku.clone(),
        quantity: line.quantity,
        unit_price: line.unit_price,
        cancelled: 0,
        shipped: 0,
        returned: 0,
    }
}
