//! The five promises, checked from outside: by counting rows, ledger entries, captured money and
//! the shops' own books. Nothing here asks the core's formulas.

use std::collections::{BTreeMap, BTreeSet};

use stockhold::clock::Timestamp;
use stockhold::domain::alert::AlertKind;
use stockhold::domain::command::{Command, StockChange};
use stockhold::domain::job::Job;
use stockhold::domain::names::{LevelId, OrderId, SourceId};
use stockhold::domain::order::{Confirmation, Hold, HoldState, Order, State};
use stockhold::domain::outcome::{Outcome, Refusal};
use stockhold::domain::purchase::PurchaseState;
use stockhold::domain::refund::RefundState;
use stockhold::domain::sku::Kind;
use stockhold::domain::stock::Entry;

use super::memory::Store;
use super::shop::Shop;

type Shops = BTreeMap<SourceId, Shop>;

/// What was just done in one transaction, for the words of a failure.
struct Step<'a> {
    now: Timestamp,
    commands: &'a [Command],
    answers: &'a [Answer],
}

type Answer = Result<Outcome, Refusal>;

impl Step<'_> {
    /// The commands that were not refused.
    fn done(&self) -> impl Iterator<Item = (&Command, &Outcome)> {
        let both = self.commands.iter().zip(self.answers);
        both.filter_map(|(command, answer)| Some((command, answer.as_ref().ok()?)))
    }
}

impl std::fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} after {:?}\nanswered {:?}", self.now, self.commands, self.answers)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Every figure told was true and nobody else buys: nothing confirmed may ever be refused.
    pub honest: bool,
    seen: BTreeMap<OrderId, Order>,
    /// Ledger sums for each level: quantity, held, committed.
    sums: BTreeMap<LevelId, (i64, i64, i64)>,
    read: usize,
    /// What must be on the warehouse's shelves.
    shelf: BTreeMap<LevelId, i64>,
    /// Captured money by order and payment.
    captured: BTreeMap<OrderId, BTreeMap<String, i64>>,
    given_by_ops: BTreeMap<OrderId, i64>,
}

impl Audit {
    pub fn after(
        &mut self,
        store: &Store,
        shops: &Shops,
        now: Timestamp,
        commands: &[Command],
        answers: &[Answer],
    ) {
        let context = &Step { now, commands, answers };
        context.done().for_each(|(command, outcome)| self.remember(command, outcome));
        let entries = &store.ledger[self.read..];
        self.ledger(store, entries, context);
        self.shelves(store, entries, context);
        for order in store.orders.values() {
            let before = self.seen.get(&order.id);
            if before == Some(order) {
                continue;
            }
            self.arrows(before, order, entries, context);
            self.lines(order, context);
            self.money(order, context);
            self.ends(before, order, context);
            self.seen.insert(order.id.clone(), order.clone());
        }
        self.read = store.ledger.len();
        if self.honest {
            honest(store, shops, context);
        }
    }

    /// Money that was taken in, and stock that was counted, by the commands that said so.
    fn remember(&mut self, command: &Command, outcome: &Outcome) {
        let (order, payment) = match (command, outcome) {
            (Command::Pay { order, payment }, _) => (order.clone(), payment.clone()),
            (Command::Place(p), Outcome::Order { order, .. }) => match &p.payment {
                Some(payment) => (order.id.clone(), payment.clone()),
                None => return,
            },
            (Command::RefundOrder { order, amount, .. }, _) => {
                *self.given_by_ops.entry(order.clone()).or_default() += amount;
                return;
            }
            _ => return,
        };
        let known = self.captured.entry(order).or_default();
        let amount = *known.entry(payment.id).or_insert(payment.amount);
        assert_eq!(amount, payment.amount, "one payment id was taken with two amounts");
    }

    /// Every figure is the sum of its ledger entries, and of its rows.
    fn ledger(&mut self, store: &Store, entries: &[Entry], context: &Step) {
        assert!(store.recounted.is_empty(), "counters {:?} drifted {context}", store.recounted);
        for e in entries {
            let s = self.sums.entry(e.level.clone()).or_default();
            *s = (s.0 + e.by.quantity, s.1 + e.by.held, s.2 + e.by.committed);
        }
        let mut rows: BTreeMap<&LevelId, (i64, i64)> = BTreeMap::new();
        for hold in store.orders.values().flat_map(|o| &o.holds) {
            let row = rows.entry(&hold.level).or_default();
            match hold.state {
                HoldState::Active => row.0 += hold.quantity,
                HoldState::Committed => row.1 += hold.quantity,
                _ => {}
            }
        }
        for id in store.levels.keys() {
            let (quantity, held, committed) = store.figures(id);
            let sums = self.sums.get(id).copied().unwrap_or_default();
            assert_eq!((quantity, held, committed), sums, "ledger of {id} {context}");
            let rows = rows.get(id).copied().unwrap_or_default();
            assert_eq!((held, committed), rows, "rows of {id} {context}");
        }
    }

    /// A shelf holds what was counted onto it less what left.
    fn shelves(&mut self, store: &Store, entries: &[Entry], context: &Step) {
        let mut to_leave = 0;
        for (command, outcome) in context.done() {
            match (command, outcome) {
                (Command::ChangeStock { change, .. }, Outcome::Level(level, _)) => {
                    let shelf = self.shelf.entry(level.id.clone()).or_default();
                    match change {
                        StockChange::Delta(by) => *shelf += by,
                        StockChange::Set { to, .. } => *shelf = *to,
                    }
                }
                (Command::Ship { lines, .. }, _) => {
                    to_leave += lines.iter().map(|l| l.1).sum::<i64>();
                }
                _ => {}
            }
        }
        for e in entries.iter().filter(|e| e.event == "shipped") {
            *self.shelf.entry(e.level.clone()).or_default() += e.by.quantity;
            to_leave += e.by.quantity;
        }
        assert_eq!(to_leave, 0, "{context}");
        for (id, units) in &self.shelf {
            assert_eq!(store.levels[id].quantity, *units, "shelf {id} {context}");
        }
    }

    /// Holds walk along the arrows, each step with its entry.
    fn arrows(&self, before: Option<&Order>, order: &Order, entries: &[Entry], context: &Step) {
        let old = |h: &Hold| before.and_then(|b| b.hold(h.line, h.part));
        for hold in &order.holds {
            let key = Some((hold.line, hold.part));
            let mine =
                entries.iter().filter(|e| e.order.as_ref() == Some(&order.id) && e.hold == key);
            let events: Vec<&str> = mine.map(|e| e.event).collect();
            let was = old(hold);
            if let Some(was) = was {
                assert!(hold.quantity <= was.quantity && hold.quantity > 0, "{hold:?} {context}");
                assert_eq!((&was.level, &was.sku), (&hold.level, &hold.sku), "{context}");
            }
            let cut = was.is_none() && events.first() != Some(&"placed");
            let start = match was {
                Some(was) => Some(was.state),
                None if cut => Some(cut_from(before, order, hold, context)),
                None => None,
            };
            let walked = events.iter().try_fold(start, |state, event| walk(state, event));
            let walked = walked.unwrap_or_else(|| panic!("{start:?} by {events:?} {context}"));
            assert_eq!(walked, Some(hold.state), "{hold:?} by {events:?} {context}");
        }
        for was in before.map(|b| b.holds.as_slice()).unwrap_or_default() {
            let is = order.hold(was.line, was.part);
            let is = is.unwrap_or_else(|| panic!("{was:?} vanished {context}"));
            let new = order.holds.iter().filter(|h| h.line == was.line && old(h).is_none());
            let new: i64 = new.map(|h| h.quantity).sum();
            assert!(was.quantity - is.quantity <= new, "units of {was:?} vanished {context}");
        }
    }

    /// Every unit that the customer is still to have is held, sold, bought or gone.
    fn lines(&self, order: &Order, context: &Step) {
        let reserved = !matches!(order.state, State::Cancelled | State::Expired);
        for line in &order.lines {
            assert!(line.shipped >= 0 && line.cancelled >= 0, "{line:?} {context}");
            assert!(line.shipped + line.cancelled <= line.quantity, "{line:?} {context}");
            let holds = order.holds.iter().filter(|h| h.line == line.no);
            let undone = |h: &Hold| {
                let purchase = h.purchase.as_ref().and_then(|p| order.purchase(p));
                purchase.is_some_and(|p| p.state.is_end())
            };
            let settled = |h: &Hold| h.state == HoldState::Settled && !undone(h);
            let here = holds.filter(|h| h.is_open() || settled(h));
            let units: i64 = here.map(|h| h.quantity).sum();
            let kept = line.quantity - line.cancelled;
            if reserved && order.cancel_reason.is_none() {
                assert_eq!(units, kept, "{line:?} of {order:?} {context}");
            } else if reserved {
                assert!(units >= kept, "{line:?} of {order:?} {context}");
            }
        }
    }

    fn money(&self, order: &Order, context: &Step) {
        let taken = self.captured.get(&order.id).cloned().unwrap_or_default();
        let rows: BTreeMap<String, i64> =
            order.payments.iter().map(|p| (p.id.clone(), p.amount)).collect();
        assert_eq!(rows, taken, "payments {context}");
        let causes: BTreeSet<_> = order.refunds.iter().map(|r| (&r.cause, &r.payment_id)).collect();
        let ids: BTreeSet<_> = order.refunds.iter().map(|r| &r.id).collect();
        assert_eq!(
            (causes.len(), ids.len()),
            (order.refunds.len(), order.refunds.len()),
            "{context}"
        );
        assert!(order.refunds.iter().all(|r| r.amount > 0), "{context}");
        for (payment, amount) in &taken {
            let back = order.refunds.iter().filter(|r| &r.payment_id == payment);
            let back: i64 = back.map(|r| r.amount).sum();
            assert!(back <= *amount, "more than {payment} goes back {context}");
        }
        let captured: i64 = taken.values().sum();
        let refunded: i64 = order.refunds.iter().map(|r| r.amount).sum();
        let (net, ops) =
            (captured - refunded, self.given_by_ops.get(&order.id).copied().unwrap_or(0));
        match order.state {
            State::Cancelled | State::Expired => assert_eq!(net, 0, "{order:?} {context}"),
            State::PendingPayment => {
                let due = worth(order, |l| l.quantity - l.cancelled);
                let paid = captured > 0 && net + ops >= due;
                assert!(!paid, "paid and still pending: {order:?} {context}");
            }
            _ => {
                let kept = worth(order, |l| l.quantity - l.cancelled);
                // What ops gave is a gift: excess goes back at once all the same, while any is left.
                let back = net + ops <= kept || net == 0;
                assert!(back, "{net} kept for {kept}, {ops} given: {order:?} {context}");
                // A discount above the price of the goods may leave more owed than was asked.
                let gross: i64 = order.lines.iter().map(|l| l.quantity * l.unit_price).sum();
                let enough = net + ops >= kept || order.discount > gross;
                assert!(enough, "{net} kept for {kept}: {order:?} {context}");
            }
        }
    }

    fn ends(&self, before: Option<&Order>, order: &Order, context: &Step) {
        let ended = matches!(order.state, State::Completed | State::Cancelled | State::Expired);
        if !ended {
            return;
        }
        assert_eq!(order.deadline_at, None, "{context}");
        assert!(!order.holds.iter().any(Hold::is_active), "a ghost: {order:?} {context}");
        if order.state != State::Completed {
            let own = order.holds.iter().filter(|h| h.kind == Kind::Warehouse);
            assert!(own.clone().all(|h| !h.is_open()), "sold for nobody: {order:?} {context}");
        }
        let in_flight = order.purchases.iter().any(|p| {
            matches!(
                p.state,
                PurchaseState::Pending | PurchaseState::Placing | PurchaseState::Unknown
            )
        });
        assert!(!in_flight, "ended while unknown: {order:?} {context}");
        // Only a paid purchase that could not be undone outlives a cancelled order, by ops' word.
        let placed = order.purchases.iter().any(|p| p.state == PurchaseState::Placed);
        assert!(!placed || order.state == State::Completed, "{order:?} {context}");
        if let Some(was) = before {
            let revived = matches!(was.state, State::Completed | State::Cancelled);
            assert!(!revived || was.state == order.state, "{context}");
        }
    }

    /// Whatever waits has a deadline, and a job that will come to it in time.
    pub fn idle(&self, store: &Store, running: &BTreeSet<String>, grace: Timestamp) {
        let owed = |job: Job, by: Option<Timestamp>| {
            let key = job.key();
            let latest = by.map(|at| at.max(grace));
            let job = store.jobs.get(&key);
            let in_time = job.is_some_and(|(_, at)| latest.is_none_or(|latest| *at <= latest));
            assert!(in_time || running.contains(&key), "{key} is owed to nobody");
        };
        let deadline = |what: &str, at: Option<Timestamp>| {
            let at = at.unwrap_or_else(|| panic!("{what} has no deadline"));
            let second = at.ceil_secs();
            owed(Job::Deadline { second }, Some(Timestamp::from_secs(second)));
        };
        for o in store.orders.values() {
            if !o.is_end() {
                deadline(o.id.as_str(), o.deadline_at);
            }
            for p in o.purchases.iter().filter(|p| !p.state.is_end()) {
                let unknown = (AlertKind::PurchaseUnknown, p.id.to_string());
                let told = store.alerts.contains_key(&unknown);
                assert!(p.attempts > 0 || !told, "never tried, and called unknown: {p:?}");
                // What was shipped is read back for a time only.
                let left = p.state == PurchaseState::Shipped && p.deadline_at.is_none();
                if p.state != PurchaseState::Received && !left {
                    deadline(p.id.as_str(), p.deadline_at);
                    owed(Job::Purchase { purchase: p.id.clone() }, None);
                }
            }
            for r in o.refunds.iter().filter(|r| r.state != RefundState::Succeeded) {
                deadline(r.id.as_str(), r.deadline_at);
                if r.state == RefundState::Pending {
                    owed(Job::Refund { refund: r.id.clone() }, None);
                }
            }
            if matches!(o.state, State::Confirming | State::Attention)
                && o.cancel_requested.is_none()
            {
                for h in o.holds.iter().filter(|h| h.is_active()) {
                    if matches!(h.confirmation, Some(Confirmation::Waiting | Confirmation::Unknown))
                    {
                        owed(Job::Confirm { level: h.level.clone() }, None);
                    }
                }
            }
        }
    }
}

/// The state that a cut-off part was in: that of the hold of its line that lost units.
fn cut_from(before: Option<&Order>, order: &Order, hold: &Hold, context: &Step) -> HoldState {
    let lost = before.into_iter().flat_map(|b| &b.holds).find(|was| {
        let is = order.hold(was.line, was.part);
        was.line == hold.line
            && was.level == hold.level
            && is.is_some_and(|is| is.quantity < was.quantity)
    });
    lost.unwrap_or_else(|| panic!("{hold:?} came from nowhere {context}")).state
}

fn walk(state: Option<HoldState>, event: &str) -> Option<Option<HoldState>> {
    use HoldState::{Active, Committed, Released, Reversed, Settled};
    let to = match (state, event) {
        (None, "placed") => Active,
        (Some(Active), "sold" | "bought") => Committed,
        (Some(Active), "released") => Released,
        (Some(Committed), "reversed") => Reversed,
        (Some(Committed), "shipped" | "in_feed") => Settled,
        _ => return None,
    };
    Some(Some(to))
}

/// What the first `kept` units of each line are worth, by dealing the discount out unit by unit.
pub fn worth(order: &Order, kept: impl Fn(&stockhold::domain::order::Line) -> i64) -> i64 {
    let mut units: Vec<(usize, i64)> = Vec::new();
    for (i, line) in order.lines.iter().enumerate() {
        units.extend((0..line.quantity).map(|_| (i, line.unit_price)));
    }
    let gross: i64 = units.iter().map(|u| u.1).sum();
    let share = |price: i64| {
        if gross == 0 {
            (0, 0)
        } else {
            (order.discount * price / gross, order.discount * price % gross)
        }
    };
    let mut off: Vec<i64> = units.iter().map(|u| share(u.1).0).collect();
    let mut left = if gross == 0 { 0 } else { order.discount - off.iter().sum::<i64>() };
    let mut by_remainder: Vec<usize> = (0..units.len()).collect();
    by_remainder.sort_by_key(|i| std::cmp::Reverse(share(units[*i].1).1));
    for i in by_remainder {
        if left > 0 {
            off[i] += 1;
            left -= 1;
        }
    }
    let mut taken = vec![0; order.lines.len()];
    let mut sum = 0;
    for ((line, price), off) in units.iter().zip(off) {
        if taken[*line] < kept(&order.lines[*line]) {
            taken[*line] += 1;
            sum += price - off;
        }
    }
    if taken.iter().sum::<i64>() == 0 {
        return 0;
    }
    let shipping = if gross == 0 { order.shipping - order.discount } else { order.shipping };
    (sum + shipping).max(0)
}

/// No more is confirmed than the supplier has.
fn honest(store: &Store, shops: &Shops, context: &Step) {
    let mut confirmed: BTreeMap<&LevelId, i64> = BTreeMap::new();
    for o in store.orders.values() {
        for h in o.holds.iter().filter(|h| h.kind == Kind::Supplier && h.is_active()) {
            let sent = h
                .purchase
                .as_ref()
                .is_some_and(|p| !shops[&h.source].by_reference(p.as_str()).is_empty());
            if h.confirmation == Some(Confirmation::Confirmed) && !sent {
                *confirmed.entry(&h.level).or_default() += h.quantity;
            }
        }
    }
    for (level, units) in confirmed {
        let l = &store.levels[level];
        let (shop, item) = (&shops[&l.source], l.item.as_ref().expect("an item"));
        let has = shop.has(item) - shop.uncounted(item);
        assert!(units <= has, "{units} of {level} are confirmed, the shop has {has} {context}");
    }
}
