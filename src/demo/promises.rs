//! The five promises as checks over the books, each by arithmetic of its own: what a customer is owed
//! is computed from the storefront's notes, what was bought from the supplier's accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::books::{Books, Level, Upstream, supplier_level};
use super::customer::Visit;
use super::shop::{OrderView, PurchaseView, cents, money};
use super::verdict::Check;
use crate::domain::supply::Item;

/// Every check of a promise.
pub fn all(books: &Books) -> Vec<Check> {
    vec![
        shelves(books),
        supplies(books),
        purchases(books),
        references(books),
        ends(books),
        holds(books),
        once(books),
        there(books),
        refunds(books),
        accounts(books),
        work(books),
        ledger(books),
        answers(books),
    ]
}

/// Units sold or promised beyond what there was, over all goods.
pub fn oversold(books: &Books) -> i64 {
    let shelves = books.levels.iter().filter_map(|level| Some(taken(books, level) - level.shelf?));
    let bought = promised(books);
    let supplies = books.goods.iter().map(|goods| {
        let promised = bought.get(&goods.level).copied().unwrap_or(0);
        goods.bought.max(promised) - goods.had
    });
    shelves.chain(supplies).map(|over| over.max(0)).sum()
}

/// Units of a warehouse's level in holds that were not given back.
pub fn taken(books: &Books, level: &Level) -> i64 {
    units(books, level, &["active", "committed", "settled"])
}

fn units(books: &Books, level: &Level, states: &[&str]) -> i64 {
    let lines = books.orders.iter().flat_map(|o| &o.lines).filter(|l| l.sku == level.name);
    let shares = lines.flat_map(|l| &l.allocations).filter(|a| a.kind == "warehouse");
    shares.filter(|a| states.contains(&a.hold_state.as_str())).map(|a| a.quantity).sum()
}

fn is_placed(purchase: &PurchaseView) -> bool {
    matches!(purchase.state.as_str(), "placed" | "paid" | "shipped" | "received")
}

/// What a purchase has bought, by level.
fn bought_by(purchase: &PurchaseView) -> BTreeMap<String, i64> {
    let mut units = BTreeMap::new();
    for line in purchase.lines.iter().filter(|l| l.result.as_deref() == Some("placed")) {
        let item = Item { offer_id: line.offer_id.clone(), spec_id: line.spec_id.clone() };
        *units.entry(supplier_level(&item)).or_default() += line.quantity;
    }
    units
}

/// Supplier units that standing orders were promised, by level.
fn promised(books: &Books) -> BTreeMap<String, i64> {
    let mut units: BTreeMap<String, i64> = BTreeMap::new();
    let standing = books.orders.iter().filter(|o| o.stands());
    for purchase in standing.flat_map(|o| &o.purchase_orders).filter(|p| is_placed(p)) {
        for (level, n) in bought_by(purchase) {
            *units.entry(level).or_default() += n;
        }
    }
    units
}

fn shelves(books: &Books) -> Check {
    let (mut looked_at, mut faults) = (0, Vec::new());
    for level in &books.levels {
        let Some(shelf) = level.shelf else { continue };
        looked_at += 1;
        let taken = taken(books, level);
        if taken > shelf {
            faults.push(format!("{}: {taken} promised, {shelf} were there", level.name));
        }
        let left = shelf - units(books, level, &["settled"]);
        if level.shown.quantity != left {
            let shown = level.shown.quantity;
            faults.push(format!("{}: {shown} on the shelf, {left} should be", level.name));
        }
    }
    Check { about: "never oversold: no shelf promised more than it had", looked_at, faults }
}

fn supplies(books: &Books) -> Check {
    let promised = promised(books);
    let mut faults = Vec::new();
    for goods in &books.goods {
        let promised = promised.get(&goods.level).copied().unwrap_or(0);
        if goods.bought > goods.had || promised > goods.had {
            let (name, had, bought) = (&goods.name, goods.had, goods.bought);
            faults.push(format!("{name}: {promised} promised, {bought} bought, {had} were there"));
        }
    }
    let about = "never oversold: no more confirmed or bought than the supplier had";
    Check { about, looked_at: promised.len(), faults }
}

fn purchases(books: &Books) -> Check {
    let mut open: BTreeMap<&str, Vec<&Upstream>> = BTreeMap::new();
    for order in books.upstream.iter().filter(|u| u.open) {
        open.entry(order.reference.as_deref().unwrap_or_default()).or_default().push(order);
    }
    let (mut looked_at, mut faults) = (0, Vec::new());
    for order in &books.orders {
        for purchase in order.purchase_orders.iter().filter(|p| is_placed(p)) {
            looked_at += 1;
            let there = open.remove(purchase.reference.as_str()).unwrap_or_default();
            faults.extend(purchase_fault(order, purchase, &there));
        }
    }
    for (reference, orders) in open {
        let ids: Vec<&str> = orders.iter().map(|o| o.id.as_str()).collect();
        faults.push(format!("{}: nothing of ours stands for `{reference}`", ids.join(", ")));
    }
    let about = "every confirmed unit is bought and paid, and nothing else is";
    Check { about, looked_at, faults }
}

fn purchase_fault(
    order: &OrderView,
    purchase: &PurchaseView,
    there: &[&Upstream],
) -> Option<String> {
    let reference = &purchase.reference;
    if !order.stands() {
        return Some(format!("{reference}: bought, and its order is {}", order.state));
    }
    let [upstream] = there else {
        return Some(format!("{reference}: the supplier has {} open orders", there.len()));
    };
    let recorded =
        purchase.supplier_orders.iter().any(|s| s.role == "recorded" && s.id == upstream.id);
    let held = order.lines.iter().flat_map(|l| &l.allocations);
    let held = held.filter(|a| {
        a.kind == "supplier" && matches!(a.hold_state.as_str(), "committed" | "settled")
    });
    let held: i64 = held.map(|a| a.quantity).sum();
    let all = order.purchase_orders.iter().filter(|p| is_placed(p)).flat_map(bought_by);
    let all: i64 = all.map(|(_, n)| n).sum();
    if !recorded {
        Some(format!("{reference}: {} is not the recorded order", upstream.id))
    } else if !upstream.paid {
        Some(format!("{reference}: {} is not paid", upstream.id))
    } else if upstream.units != bought_by(purchase) {
        Some(format!("{reference}: the supplier has {:?}", upstream.units))
    } else if held != all {
        Some(format!("{}: {held} units held, {all} bought", order.external_id))
    } else {
        None
    }
}

fn references(books: &Books) -> Check {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for reference in books.upstream.iter().filter(|u| u.open).filter_map(|u| u.reference.as_ref()) {
        *count.entry(reference).or_default() += 1;
    }
    let twice = count.iter().filter(|(_, n)| **n > 1);
    let faults = twice.map(|(reference, n)| format!("{reference}: bought {n} times")).collect();
    let about = "nothing twice: no purchase was made twice";
    Check { about, looked_at: count.len(), faults }
}

fn ends(books: &Books) -> Check {
    let open = books.orders.iter().filter(|o| !o.at_rest());
    let faults = open.map(|o| {
        let last = o.timeline.last().map_or(String::new(), |e| format!("{} {}", e.event, e.detail));
        format!("{} is {}: {last}", o.external_id, o.state)
    });
    let about = "every order found its end: goods on their way, or none and the money back";
    Check { about, looked_at: books.orders.len(), faults: faults.collect() }
}

fn holds(books: &Books) -> Check {
    let active = books.active_holds.iter().map(|hold| format!("{hold} is active"));
    let held = books.levels.iter().filter(|l| l.shown.held != 0);
    let held = held.map(|l| format!("{}: {} held", l.id, l.shown.held));
    let about = "no ghost lock: no hold outlived its order";
    Check { about, looked_at: books.orders.len(), faults: active.chain(held).collect() }
}

fn once(books: &Books) -> Check {
    let mut faults = Vec::new();
    for visit in &books.visits {
        if visit.accepted > 1 {
            faults.push(format!("{} was accepted {} times", visit.external_id, visit.accepted));
        }
        for stray in &visit.strays {
            faults.push(format!("{}: answered with {stray} as well", visit.external_id));
        }
    }
    let ours: BTreeSet<&str> = books.visits.iter().filter_map(|v| v.order.as_deref()).collect();
    let mut seen = BTreeSet::new();
    for order in &books.orders {
        if !seen.insert(order.external_id.as_str()) {
            faults.push(format!("{} has two orders", order.external_id));
        }
        if !ours.contains(order.id.as_str()) {
            faults
                .push(format!("{}: order {} was answered to nobody", order.external_id, order.id));
        }
    }
    let repeated = books.visits.iter().filter(|v| v.repeated > 0).count();
    Check {
        about: "nothing twice: one order for each submission, however often",
        looked_at: repeated,
        faults,
    }
}

fn there(books: &Books) -> Check {
    let by_id: BTreeMap<&str, &OrderView> =
        books.orders.iter().map(|o| (o.id.as_str(), o)).collect();
    let (mut looked_at, mut faults) = (0, Vec::new());
    for visit in &books.visits {
        let Some(id) = visit.order.as_deref() else { continue };
        looked_at += 1;
        let there = by_id.get(id).is_some_and(|order| {
            let lines = order.lines.iter().map(|l| (l.sku.as_str(), l.quantity));
            order.external_id == visit.external_id
                && lines.eq(visit.lines.iter().map(|(sku, n, _)| (sku.as_str(), *n)))
        });
        if !there {
            faults.push(format!("{}: {id} was accepted and is gone", visit.external_id));
        }
    }
    Check { about: "nothing lost: every accepted order is still there", looked_at, faults }
}

fn refunds(books: &Books) -> Check {
    let open = books.refunds.iter().filter(|r| r.state != "succeeded");
    let faults = open.map(|r| format!("{}: {} is {}", r.id, r.amount, r.state)).collect();
    let about = "nothing lost: every refund owed is made";
    Check { about, looked_at: books.refunds.len(), faults }
}

/// What of an order the customer has or will have, cents.
fn kept(visit: &Visit, order: &OrderView) -> i64 {
    let ended = matches!(order.state.as_str(), "cancelled" | "expired");
    let mut any = false;
    let goods: i64 = (order.lines.iter())
        .map(|line| {
            let units =
                if ended { line.shipped_quantity } else { line.quantity - line.cancelled_quantity };
            any |= units > 0;
            let price = visit.lines.iter().find(|(sku, ..)| *sku == line.sku);
            units * price.map_or(0, |(_, _, cents)| *cents)
        })
        .sum();
    if any { goods + visit.shipping } else { goods }
}

fn accounts(books: &Books) -> Check {
    let mut back: BTreeMap<&str, i64> = BTreeMap::new();
    let mut faults = Vec::new();
    for refund in &books.refunds {
        match cents(&refund.amount) {
            Ok(amount) => *back.entry(&refund.order_id).or_default() += amount,
            Err(wrong) => faults.push(wrong),
        }
    }
    let mut looked_at = 0;
    for visit in &books.visits {
        let order = books.orders.iter().find(|o| Some(&o.id) == visit.order.as_ref());
        let Some(order) = order else { continue };
        looked_at += 1;
        let captured: i64 = visit.captured.iter().map(|(_, cents)| cents).sum();
        let owed = kept(visit, order);
        let back = back.get(order.id.as_str()).copied().unwrap_or(0);
        if cents(&order.paid) != Ok(captured) {
            let paid = &order.paid;
            faults.push(format!(
                "{}: {} captured, {paid} known",
                order.external_id,
                money(captured)
            ));
        }
        if captured - owed != back {
            let (captured, owed, back) = (money(captured), money(owed), money(back));
            let name = &order.external_id;
            faults.push(format!("{name}: {captured} captured, {owed} for goods, {back} refunded"));
        }
    }
    let about = "every cent: captured = goods on their way + refunded, order by order";
    Check { about, looked_at, faults }
}

fn work(books: &Books) -> Check {
    let about = "nothing lost: no job was given up";
    Check { about, looked_at: books.orders.len(), faults: books.dead_jobs.clone() }
}

fn ledger(books: &Books) -> Check {
    let wrong = books.levels.iter().filter(|l| l.shown != l.counted);
    let faults =
        wrong.map(|l| format!("{}: shows {:?}, adds up to {:?}", l.id, l.shown, l.counted));
    let faults = faults.collect();
    let looked_at = if books.ledger_entries == 0 { 0 } else { books.levels.len() };
    Check { about: "explained: each balance is the sum of its ledger", looked_at, faults }
}

fn answers(books: &Books) -> Check {
    let faults = books
        .visits
        .iter()
        .flat_map(|v| v.troubles.iter().map(|trouble| format!("{}: {trouble}", v.external_id)));
    let about = "every request got an answer that a storefront can work with";
    Check { about, looked_at: books.visits.len(), faults: faults.collect() }
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;
