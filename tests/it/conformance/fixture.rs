//! Aggregates with every field set, made by hand.

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::names::{LevelId, OrderId, PurchaseId, SkuKey, SourceId};
use stockhold::domain::order::{
    CancelReason, CancelRequest, Confirmation, Customer, Event, Hold, HoldState, Line, Order,
    Payment, Share, Shipment, ShortPolicy, State,
};
use stockhold::domain::purchase::{Purchase, PurchaseLine, PurchaseState, Surplus, Trail};
use stockhold::domain::refund::{Refund, RefundState, id_of};
use stockhold::domain::sku::{Class, Kind, Pause, Paused, Sku, Source, Watermark};
use stockhold::domain::stock::{Closed, Entry, ItemLock, Level, Listing, Shift};
use stockhold::domain::supply::{Address, Fault, Item, Parcel};

use super::at;

pub fn item() -> Item {
    Item { offer_id: "610947572360".into(), spec_id: Some("b266e0".into()) }
}

pub fn source(id: &str) -> SourceId {
    SourceId::from(id)
}

/// `main:SHOE-42`, our own: 10 on the shelf.
pub fn warehouse() -> Level {
    let id = LevelId::warehouse(&source("main"), &SkuKey::from("SHOE-42"));
    Level {
        quantity: 10,
        held: 2,
        committed: 1,
        version: 7,
        ..Level::empty(id, source("main"), None)
    }
}

/// `s1688:610947572360:b266e0`, with every field set.
pub fn upstream() -> Level {
    let id = LevelId::supplier(&source("s1688"), &item());
    Level {
        quantity: 8,
        held: 9,
        committed: 4,
        version: 41,
        listing: Listing::Listed,
        as_of: Some(at(90)),
        feed_as_of: Some(at(80)),
        lag_samples: vec![Span::secs(60), Span::minutes(40)],
        closed: Some(Closed { from_quantity: 3, since: at(70) }),
        blocked_at: Some(at(60)),
        lock: ItemLock { token: 5, until: Some(at(120)), owner: Some("confirm:x".into()) },
        ..Level::empty(id, source("s1688"), Some(item()))
    }
}

/// `SHOE-42` from both levels.
pub fn sku() -> Sku {
    Sku {
        key: SkuKey::from("SHOE-42"),
        title: "Schuh „42“ 鞋\n\"quoted\" \\u0000 and \\ too".into(),
        class: Class::Hot,
        watermark: Watermark { low: Some(5), recover: Some(8) },
        sources: vec![
            Source {
                source: source("main"),
                kind: Kind::Warehouse,
                level: warehouse().id,
                item: None,
                cost: None,
                currency: None,
                min_quantity: 1,
                pack_size: 1,
                buffer: Some(0),
            },
            Source {
                source: source("s1688"),
                kind: Kind::Supplier,
                level: upstream().id,
                item: Some(item()),
                cost: Some(12_800),
                currency: Some("CNY".into()),
                min_quantity: 2,
                pack_size: 6,
                buffer: None,
            },
        ],
        paused: Paused {
            selling: Some(Pause { at: at(11), reason: "counted wrongly".into() }),
            buying: None,
        },
    }
}

pub fn hold(line: i64, part: i64, level: &Level, quantity: i64, state: HoldState) -> Hold {
    let supplier = level.kind == Kind::Supplier;
    Hold {
        line,
        part,
        sku: SkuKey::from("SHOE-42"),
        level: level.id.clone(),
        source: level.source.clone(),
        kind: level.kind,
        quantity,
        state,
        confirmation: supplier.then_some(Confirmation::NotDue),
        asked_at: None,
        purchase: None,
        counted_at: None,
        undone_at: None,
        lost: 0,
        surplus: 0,
        created_at: at(100),
        ended_at: None,
    }
}

/// A plain unpaid order of one line, `quantity` units of the warehouse level.
pub fn unpaid(id: &str, quantity: i64, deadline: Timestamp) -> Order {
    Order {
        id: OrderId::from(id),
        channel: "web".into(),
        external_id: format!("W-{id}"),
        content_hash: "c0".into(),
        idempotency: None,
        state: State::PendingPayment,
        currency: "USD".into(),
        total: 1999 * quantity,
        shipping: 0,
        discount: 0,
        short_policy: ShortPolicy::CancelOrder,
        cancel_reason: None,
        cancel_requested: None,
        created_at: at(100),
        expires_at: deadline,
        grace_used: false,
        paid_at: None,
        deadline_at: Some(deadline),
        attention: None,
        customer: None,
        ship_to: None,
        lines: vec![Line {
            no: 1,
            sku: SkuKey::from("SHOE-42"),
            quantity,
            unit_price: 1999,
            cancelled: 0,
            shipped: 0,
            returned: 0,
        }],
        holds: vec![hold(1, 1, &warehouse(), quantity, HoldState::Active)],
        payments: Vec::new(),
        refunds: Vec::new(),
        purchases: Vec::new(),
        shipments: Vec::new(),
        events: vec![event(1, "order_placed")],
    }
}

pub fn event(n: i64, event: &str) -> Event {
    Event { n, at: at(100 + n), event: event.into(), detail: format!("detail {n}") }
}

fn shipment() -> Shipment {
    Shipment {
        at: at(500),
        lines: vec![(1, 1)],
        carrier: "SF".into(),
        tracking_number: "SF0001".into(),
    }
}

/// A line of which `gone` units each are cancelled, shipped and returned.
fn line(no: i64, quantity: i64, unit_price: i64, gone: i64) -> Line {
    let sku = SkuKey::from("SHOE-42");
    Line { no, sku, quantity, unit_price, cancelled: gone, shipped: gone, returned: gone }
}

/// An order with every field set, in both sources, paid, partly bought and partly refunded.
pub fn full(id: &str) -> Order {
    let order = OrderId::from(id);
    let purchase = purchase(&order, 1, PurchaseState::Placed);
    let mut bought = hold(1, 2, &upstream(), 6, HoldState::Committed);
    bought.confirmation = Some(Confirmation::Confirmed);
    bought.asked_at = Some(at(400));
    bought.purchase = Some(purchase.id.clone());
    bought.counted_at = Some(at(410));
    bought.undone_at = Some(at(420));
    bought.lost = 12;
    bought.surplus = 6;
    let mut gone = hold(1, 3, &warehouse(), 1, HoldState::Released);
    gone.ended_at = Some(at(300));
    let cause = "line_cancelled:3";
    Order {
        idempotency: Some(("shop\nk-1".into(), "b0".into())),
        state: State::Attention,
        total: 9_007_199_254_740_993,
        shipping: 400,
        discount: 150,
        short_policy: ShortPolicy::CancelLines,
        cancel_reason: Some(CancelReason::SupplierShort),
        cancel_requested: Some(CancelRequest { at: at(430), reason: CancelReason::Customer }),
        grace_used: true,
        paid_at: Some(at(200)),
        attention: Some("the supplier does not answer".into()),
        customer: Some(Customer { id: Some("c-17".into()), email: None }),
        ship_to: Some(Address {
            name: "王小明".into(), city: "杭州".into(), ..Address::default()
        }),
        lines: vec![line(1, 8, 1999, 1), line(2, 1, 0, 0)],
        holds: vec![
            hold(1, 1, &warehouse(), 1, HoldState::Committed),
            bought,
            gone,
            hold(2, 1, &upstream(), 1, HoldState::Active),
        ],
        payments: vec![
            Payment {
                id: format!("pay-2-{id}"),
                amount: 2000,
                paid_at: Some(at(199)),
                recorded_at: at(200),
            },
            Payment { id: format!("pay-1-{id}"), amount: 1, paid_at: None, recorded_at: at(200) },
        ],
        refunds: vec![Refund {
            id: id_of(&order, "pay-2", 1),
            cause: cause.into(),
            reason: "one line less".into(),
            payment_id: format!("pay-2-{id}"),
            amount: 1999,
            state: RefundState::NeedsAttention,
            attempt: 1,
            asked_at: Some(at(310)),
            reference: Some("R-9".into()),
            note: Some("card closed".into()),
            created_at: at(300),
            deadline_at: Some(at(86_700)),
        }],
        purchases: vec![purchase],
        shipments: vec![shipment()],
        events: vec![event(1, "order_placed"), event(2, "order_paid")],
        ..unpaid(id, 1, at(1900))
    }
}

/// A purchase with every field set.
pub fn purchase(order: &OrderId, generation: i64, state: PurchaseState) -> Purchase {
    Purchase {
        id: PurchaseId::of(order, &source("s1688"), generation),
        supplier: source("s1688"),
        generation,
        state,
        supplier_order_id: Some("00123456789012345678".into()),
        cost: Some(76_800),
        currency: "CNY".into(),
        attempts: 2,
        attempt_until: Some(at(401)),
        cancel_requested_at: Some(at(402)),
        placed_at: Some(at(403)),
        paid_at: Some(at(404)),
        ended_at: None,
        end_reason: Some("none yet".into()),
        deadline_at: Some(at(9000)),
        created_at: at(400),
        trail: Trail {
            lines: vec![PurchaseLine {
                share: Share { line: 1, part: 2, level: upstream().id, item: item(), quantity: 6 },
                result: Some("placed".into()),
            }],
            surplus: vec![Surplus {
                supplier_order_id: "77".into(),
                found_at: at(405),
                ended_at: None,
                paid: true,
            }],
            answered: 2,
            lost: vec![at(406)],
            clean_lookups: vec![at(407)],
            doubted: Some(Fault::OutOfStock { code: "500_004".into(), message: "缺货".into() }),
            parcels: vec![Parcel { carrier: "YTO".into(), tracking_number: "YT1".into() }],
            polled_at: Some(at(408)),
            overdue: Some(at(435)),
            paused_at: Some(at(401)),
            lost_found: 1,
            lost_known: Some(at(402)),
            unanswered: 3,
            cancel_refused: true,
            read_back_first: false,
        },
    }
}

pub fn entry(level: &Level, event: &'static str, held: i64) -> Entry {
    Entry {
        at: at(100),
        level: level.id.clone(),
        sku: Some(SkuKey::from("SHOE-42")),
        order: Some(OrderId::from("o1")),
        hold: Some((1, 1)),
        event,
        by: Shift { quantity: 0, held, committed: 0 },
        note: String::new(),
    }
}
