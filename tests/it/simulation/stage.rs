//! The shop floor that the simulations play on: six SKUs over two warehouses and two suppliers, two
//! of them on one upstream item, split sources, a pack size and a buffer.

use std::collections::BTreeMap;

use stockhold::clock::{Span, Timestamp};
use stockhold::domain::command::{Capture, Command, Placement, PlacementLine, StockChange};
use stockhold::domain::names::{LevelId, SkuKey, SourceId};
use stockhold::domain::order::ShortPolicy;
use stockhold::domain::policy::{Policy, Terms};
use stockhold::domain::sku::{Class, Kind, Paused, Sku, Source, Watermark};
use stockhold::domain::supply::{Address, Item};

use super::dice::Dice;
use super::driver::Sim;
use super::shop::{Habits, Shop};

pub const START: Timestamp = Timestamp::from_secs(1_800_000_000);
pub const SKUS: [&str; 6] = ["A", "B", "C", "D", "E", "F"];
/// (supplier, offer)
pub const ITEMS: [(&str, &str); 3] = [("east", "x"), ("east", "y"), ("west", "z")];

pub fn terms() -> Terms {
    Terms {
        sync_interval: Span::minutes(10),
        declared_lag: Span::minutes(1),
        counts_at_order: false,
        settle_margin: Span::secs(60),
        lookup_settle: Span::minutes(2),
        unpaid_deadline: Span::hours(1),
        buffer: 0,
        deliver_to: None,
        request_timeout: Span::secs(10),
        currency: "CNY".into(),
    }
}

pub fn policy(counts_at_order: bool) -> Policy {
    let terms = Terms { counts_at_order, ..terms() };
    Policy {
        refunds_by_provider: true,
        suppliers: BTreeMap::from([("east".into(), terms.clone()), ("west".into(), terms)]),
        ..Policy::default()
    }
}

pub fn habits(counts_at_order: bool) -> Habits {
    Habits {
        counts_at_order,
        states_time: false,
        lag: Span::ZERO,
        pays_after: Span::minutes(10),
        never_paid_percent: 0,
        unpaid_timeout: Span::hours(2),
        ships_after: Span::hours(1),
        received_after: Span::hours(1),
    }
}

pub fn item(offer: &str) -> Item {
    Item { offer_id: offer.into(), spec_id: None }
}

pub fn supplier_level(source: &str, offer: &str) -> LevelId {
    LevelId::supplier(&source.into(), &item(offer))
}

pub fn warehouse_level(source: &str, sku: &str) -> LevelId {
    LevelId::warehouse(&source.into(), &sku.into())
}

pub fn own(source: &str, sku: &str) -> Source {
    Source {
        source: source.into(),
        kind: Kind::Warehouse,
        level: warehouse_level(source, sku),
        item: None,
        cost: None,
        currency: None,
        min_quantity: 1,
        pack_size: 1,
        buffer: Some(0),
    }
}

pub fn theirs(source: &str, offer: &str) -> Source {
    Source {
        kind: Kind::Supplier,
        level: supplier_level(source, offer),
        item: Some(item(offer)),
        buffer: None,
        ..own(source, "")
    }
}

pub fn sku(key: &str, class: Class, sources: Vec<Source>) -> Sku {
    Sku {
        key: key.into(),
        title: key.into(),
        class,
        watermark: Watermark::default(),
        sources,
        paused: Paused::default(),
    }
}

pub fn catalogue() -> Vec<Sku> {
    let packed = Source { pack_size: 2, min_quantity: 2, ..theirs("east", "y") };
    let buffered = Source { buffer: Some(1), ..theirs("west", "z") };
    vec![
        sku("A", Class::Normal, vec![own("main", "A")]),
        sku("B", Class::Normal, vec![own("main", "B"), theirs("east", "x")]),
        sku("C", Class::Normal, vec![theirs("east", "x")]),
        sku("D", Class::Normal, vec![packed, theirs("west", "z")]),
        sku("E", Class::Flash, vec![buffered]),
        sku("F", Class::Hot, vec![own("main", "F"), own("side", "F")]),
    ]
}

/// The floor with its shelves filled and its feeds read once.
pub fn open(policy: Policy, habits: &Habits, seed: u64, stock: [i64; 3]) -> Sim {
    let mut shops = BTreeMap::new();
    for (name, prefix) in [("east", "e"), ("west", "w")] {
        let shop = Shop::new(prefix, habits.clone(), Dice(seed ^ prefix.len() as u64));
        shops.insert(SourceId::from(name), shop);
    }
    for ((supplier, offer), units) in ITEMS.into_iter().zip(stock) {
        if let Some(shop) = shops.get_mut(supplier) {
            shop.offer(&item(offer), Some(units), START - Span::days(1));
        }
    }
    let mut sim = Sim::new(policy, shops, START, Dice(seed));
    for sku in catalogue() {
        assert!(sim.submit(&Command::PutSku(Box::new(sku))).is_ok());
    }
    for (source, key, units) in
        [("main", "A", 5), ("main", "B", 2), ("main", "F", 3), ("side", "F", 2)]
    {
        assert!(sim.submit(&stock_change(key, source, StockChange::Delta(units))).is_ok());
    }
    sim.run_for(Span::minutes(1));
    sim
}

pub fn stock_change(sku: &str, source: &str, change: StockChange) -> Command {
    Command::ChangeStock { sku: sku.into(), source: source.into(), change, reason: "count".into() }
}

pub fn address() -> Address {
    Address { name: "n".into(), country: "CN".into(), ..Address::default() }
}

/// A placement of (SKU, units, unit price) lines.
pub fn placement(id: &str, lines: &[(&str, i64, i64)]) -> Placement {
    let line = |(sku, quantity, unit_price): &(&str, i64, i64)| PlacementLine {
        sku: SkuKey::from(*sku),
        quantity: *quantity,
        unit_price: *unit_price,
    };
    Placement {
        id: id.into(),
        channel: "web".into(),
        external_id: format!("ext-{id}"),
        content_hash: format!("{lines:?}"),
        idempotency: None,
        currency: "USD".into(),
        lines: lines.iter().map(line).collect(),
        shipping: 0,
        discount: 0,
        customer: None,
        ship_to: Some(address()),
        payment: None,
        short_policy: ShortPolicy::CancelOrder,
    }
}

pub fn capture(id: &str, amount: i64) -> Capture {
    Capture { id: id.into(), amount, currency: None, paid_at: None }
}
