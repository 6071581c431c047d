//! Lines and shelves with answers worked out by hand.

use super::*;
use crate::domain::availability::Take;
use crate::domain::names::{OrderId, PurchaseId, SkuKey};
use crate::domain::order::{Confirmation, ShortPolicy};
use crate::domain::outcome::{Refusal, Shortage};
use crate::domain::policy::Terms;
use crate::domain::purchase::{Purchase, Trail};
use crate::domain::sku::{Class, Pause, Watermark};
use crate::domain::stock::{Closed, Listing};
use crate::domain::supply::Item;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);

fn order(state: State, holds: Vec<Hold>) -> Order {
    Order {
        id: OrderId::from("o"),
        channel: "web".into(),
        external_id: "1".into(),
        content_hash: String::new(),
        idempotency: None,
        state,
        currency: "USD".into(),
        total: 500,
        shipping: 0,
        discount: 0,
        short_policy: ShortPolicy::CancelOrder,
        cancel_reason: None,
        cancel_requested: None,
        created_at: NOW,
        expires_at: NOW + Span::minutes(30),
        grace_used: false,
        paid_at: None,
        deadline_at: Some(NOW + Span::minutes(30)),
        attention: None,
        customer: None,
        ship_to: None,
        lines: vec![line(5, 0)],
        holds,
        payments: Vec::new(),
        refunds: Vec::new(),
        purchases: Vec::new(),
        shipments: Vec::new(),
        events: Vec::new(),
    }
}

fn line(quantity: i64, cancelled: i64) -> Line {
    Line {
        no: 1,
        sku: SkuKey::from("A"),
        quantity,
        unit_price: 100,
        cancelled,
        shipped: 0,
        returned: 0,
    }
}

fn hold(part: i64, kind: Kind, state: HoldState) -> Hold {
    let supplied = kind == Kind::Supplier;
    Hold {
        line: 1,
        part,
        sku: SkuKey::from("A"),
        level: LevelId::from("l"),
        source: SourceId::from(if supplied { "s1" } else { "main" }),
        kind,
        quantity: 1,
        state,
        confirmation: supplied.then_some(Confirmation::NotDue),
        asked_at: None,
        purchase: None,
        counted_at: None,
        undone_at: None,
        lost: 0,
        surplus: 0,
        created_at: NOW,
        ended_at: None,
    }
}

fn purchase(state: PurchaseState) -> Purchase {
    Purchase {
        id: PurchaseId::from("o-s1-1"),
        supplier: SourceId::from("s1"),
        generation: 1,
        state,
        supplier_order_id: None,
        cost: None,
        currency: "CNY".into(),
        attempts: 1,
        attempt_until: None,
        cancel_requested_at: None,
        placed_at: None,
        paid_at: None,
        ended_at: None,
        end_reason: None,
        deadline_at: None,
        created_at: NOW,
        trail: Trail::default(),
    }
}

fn state_of(order: &Order) -> LineState {
    line_state(order, &order.lines[0])
}

#[test]
fn a_line_is_where_its_least_advanced_share_is() {
    use HoldState::{Active, Committed, Settled};
    use Kind::{Supplier, Warehouse};
    let one = |hold| state_of(&order(State::Paid, vec![hold]));
    assert_eq!(one(hold(1, Warehouse, Active)), LineState::Held);
    assert_eq!(one(hold(1, Supplier, Active)), LineState::Held);
    assert_eq!(one(hold(1, Warehouse, Committed)), LineState::Sold);
    assert_eq!(one(hold(1, Warehouse, Settled)), LineState::Shipped);
    assert_eq!(one(hold(1, Supplier, Committed)), LineState::Purchased);
    // In the feed by now, and still not sent.
    assert_eq!(one(hold(1, Supplier, Settled)), LineState::Purchased);

    let mut asked = hold(2, Supplier, Active);
    asked.asked_at = Some(NOW);
    let split = order(State::Confirming, vec![hold(1, Warehouse, Committed), asked]);
    assert_eq!(state_of(&split), LineState::Confirming);
    let shipped = hold(1, Warehouse, Settled);
    let split = order(State::Confirmed, vec![shipped, hold(2, Warehouse, Committed)]);
    assert_eq!(state_of(&split), LineState::Sold);
}

#[test]
fn a_supplier_s_share_is_shipped_when_its_purchase_is() {
    for (state, want) in [
        (PurchaseState::Placed, LineState::Purchased),
        (PurchaseState::Paid, LineState::Purchased),
        (PurchaseState::Shipped, LineState::Shipped),
        (PurchaseState::Received, LineState::Shipped),
    ] {
        let mut share = hold(1, Kind::Supplier, HoldState::Committed);
        share.purchase = Some(PurchaseId::from("o-s1-1"));
        let mut order = order(State::Confirmed, vec![share]);
        order.purchases.push(purchase(state));
        assert_eq!(state_of(&order), want, "{state}");
    }
}

#[test]
fn a_line_without_a_share_left_is_cancelled_or_released() {
    let ended = || vec![hold(1, Kind::Warehouse, HoldState::Released)];
    assert_eq!(state_of(&order(State::Expired, ended())), LineState::Released);
    assert_eq!(state_of(&order(State::Cancelled, ended())), LineState::Cancelled);
    let mut partly = order(State::Confirmed, ended());
    partly.lines = vec![line(5, 5)];
    assert_eq!(state_of(&partly), LineState::Cancelled);
    // A share that took the place of another counts, the other does not.
    let mut again = ended();
    again.push(hold(2, Kind::Warehouse, HoldState::Committed));
    assert_eq!(state_of(&order(State::Confirmed, again)), LineState::Sold);
    let reversed = vec![hold(1, Kind::Supplier, HoldState::Reversed)];
    assert_eq!(state_of(&order(State::Attention, reversed)), LineState::Released);
}

#[test]
fn the_countdown_is_never_negative_and_ends_with_payment() {
    let unpaid = order(State::PendingPayment, Vec::new());
    assert_eq!(expires_in(&unpaid, NOW), 1800);
    assert_eq!(expires_in(&unpaid, NOW + Span::micros(1)), 1799);
    assert_eq!(expires_in(&unpaid, NOW + Span::hours(9)), 0);
    assert_eq!(expires_in(&order(State::Paid, Vec::new()), NOW), 0);
}

fn policy() -> Policy {
    let terms = Terms { buffer: 2, ..Terms::default() };
    Policy { suppliers: [("s1".into(), terms)].into(), ..Policy::default() }
}

/// Warehouse 5 (1 held) and supplier 8 (3 held, 2 buffer), read `age` ago.
struct Shop {
    sku: Sku,
    levels: BTreeMap<LevelId, Level>,
    suppliers: BTreeMap<SourceId, Paused>,
}

impl Shop {
    fn new(age: Span) -> Shop {
        let key = SkuKey::from("SHOE-42");
        let item = Item { offer_id: "1".into(), spec_id: None };
        let source = |name: &str, item: Option<Item>| {
            let source = SourceId::from(name);
            Source {
                level: match &item {
                    Some(item) => LevelId::supplier(&source, item),
                    None => LevelId::warehouse(&source, &key),
                },
                kind: match &item {
                    Some(_) => Kind::Supplier,
                    None => Kind::Warehouse,
                },
                source,
                item,
                cost: None,
                currency: None,
                min_quantity: 1,
                pack_size: 1,
                buffer: None,
            }
        };
        let sources = vec![source("main", None), source("s1", Some(item.clone()))];
        let level = |s: &Source, quantity, held| Level {
            quantity,
            held,
            ..Level::empty(s.level.clone(), s.source.clone(), s.item.clone())
        };
        let mut upstream = level(&sources[1], 8, 3);
        upstream.listing = Listing::Listed;
        upstream.as_of = Some(NOW - age);
        let levels = [level(&sources[0], 5, 1), upstream];
        Shop {
            sku: Sku {
                key,
                title: "Shoe".into(),
                class: Class::Normal,
                watermark: Watermark::default(),
                sources,
                paused: Paused::default(),
            },
            levels: levels.into_iter().map(|l| (l.id.clone(), l)).collect(),
            suppliers: BTreeMap::new(),
        }
    }

    fn choose(&self, wanted: i64) -> std::result::Result<Vec<Take>, Refusal> {
        choose(&policy(), &self.suppliers, &self.levels, NOW, &[(&self.sku, wanted)])
    }

    fn upstream(&mut self) -> &mut Level {
        self.levels.get_mut("s1:1:").expect("there")
    }

    /// (available, orderable, paused)
    fn offers(&self) -> (i64, bool, bool) {
        let a = availability(&policy(), &self.sku, &self.levels, &self.suppliers, NOW);
        (a.available, a.orderable, a.paused)
    }
}

fn stop() -> Paused {
    Paused { selling: Some(Pause { at: NOW, reason: "x".into() }), buying: None }
}

#[test]
fn exact_and_fresh_sources_add_up_and_each_shows_its_own() {
    let shop = Shop::new(Span::secs(212));
    assert_eq!(shop.offers(), (7, true, false));
    let policy = policy();
    let shown = availability(&policy, &shop.sku, &shop.levels, &shop.suppliers, NOW);
    let own: Vec<_> = shown.sources.iter().map(|s| (s.available, s.buffer, s.freshness)).collect();
    assert_eq!(own, [(4, 0, Freshness::Exact), (3, 2, Freshness::Fresh)]);
}

#[test]
fn stale_missing_unread_blocked_and_stopped_sources_offer_nothing() {
    // L = 1 min, I = 10 min: stale after 13 minutes.
    assert_eq!(Shop::new(Span::minutes(13)).offers(), (7, true, false));
    assert_eq!(Shop::new(Span::minutes(13) + Span::micros(1)).offers(), (4, true, false));
    let mut shop = Shop::new(Span::ZERO);
    shop.upstream().listing = Listing::Missing;
    assert_eq!(shop.offers(), (4, true, false));
    let mut shop = Shop::new(Span::ZERO);
    (shop.upstream().listing, shop.upstream().as_of) = (Listing::Unread, None);
    assert_eq!(shop.offers(), (4, true, false));
    let mut shop = Shop::new(Span::ZERO);
    shop.upstream().blocked_at = Some(NOW);
    assert_eq!(shop.offers(), (4, true, false));
    let mut shop = Shop::new(Span::ZERO);
    shop.suppliers.insert("s1".into(), stop());
    assert_eq!(shop.offers(), (4, true, false));
}

#[test]
fn what_was_refused_for_three_offers_two_and_packs_are_whole() {
    let mut shop = Shop::new(Span::ZERO);
    shop.upstream().closed = Some(Closed { from_quantity: 3, since: NOW });
    assert_eq!(shop.offers(), (6, true, false));
    let mut shop = Shop::new(Span::ZERO);
    shop.sku.sources[1].pack_size = 2;
    assert_eq!(shop.offers(), (6, true, false));
    shop.sku.sources[1].min_quantity = 4;
    assert_eq!(shop.offers(), (4, true, false));
}

#[test]
fn a_shortage_names_what_whole_packs_can_fill() {
    // Four in the warehouse, three of the supplier's for sale.
    let mut shop = Shop::new(Span::ZERO);
    shop.sku.sources[1].pack_size = 2;
    for (wanted, available) in [(7, 6), (5, 4), (4, 4), (6, 6), (9, 6)] {
        let chosen = shop.choose(wanted);
        if available == wanted {
            assert!(chosen.is_ok(), "{wanted}: {chosen:?}");
        } else {
            let sku = shop.sku.key.clone();
            let shortage = Shortage { sku, requested: wanted, available };
            assert_eq!(chosen, Err(Refusal::InsufficientStock(vec![shortage])));
            assert!(shop.choose(available).is_ok(), "what is offered instead can be had");
        }
    }
    shop.sku.sources[1].min_quantity = 4;
    let least = shop.choose(9);
    assert!(matches!(least, Err(Refusal::InsufficientStock(s)) if s[0].available == 4));
}

#[test]
fn a_paused_sku_shows_its_figure_and_cannot_be_ordered() {
    let mut shop = Shop::new(Span::ZERO);
    shop.sku.paused = stop();
    assert_eq!(shop.offers(), (7, false, true));
    // Buying alone does not stop selling.
    shop.sku.paused.buying = shop.sku.paused.selling.take();
    assert_eq!(shop.offers(), (7, true, false));
    // All that is left is a supplier that is stopped.
    shop.sku.sources.remove(0);
    shop.suppliers.insert("s1".into(), stop());
    assert_eq!(shop.offers(), (0, false, true));
    shop.sku.sources.clear();
    assert_eq!(shop.offers(), (0, false, false));
}
