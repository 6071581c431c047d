//! The core alone: deciding groups of commands, and reading the 1688 wire. `cargo bench --bench core`.
//!
//! Left out: everything that waits (database, network), which `scripts/bench` measures; and reading a
//! placement's body, which is private to `http`.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use stockhold::clock::Timestamp;
use stockhold::domain::command::{Capture, Command, Placement, PlacementLine};
use stockhold::domain::decide::decide;
use stockhold::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use stockhold::domain::order::{CancelReason, ShortPolicy};
use stockhold::domain::policy::Policy;
use stockhold::domain::sku::{Class, Kind, Paused, Sku, Source, Watermark};
use stockhold::domain::stock::{Level, Shift};
use stockhold::domain::supply::{Address, Item, PurchaseItem, PurchaseRequest};
use stockhold::domain::world::World;

// The wire's files name `crate::domain` and `crate::clock`; here those are the library's.
#[allow(unused_imports)]
use stockhold::{clock, domain};

/// The same files that the adapter is made of, which keeps them to itself.
#[allow(dead_code, unused_imports)]
#[path = "../src/suppliers/alibaba1688/wire/mod.rs"]
mod wire;

/// Where the files' own unit tests, which do not run here, look for each other.
#[cfg(test)]
mod suppliers {
    pub mod alibaba1688 {
        pub(crate) use crate::wire;
    }
}

const NOW: Timestamp = Timestamp::from_secs(1_796_040_000);
const SIZES: [u64; 3] = [1, 50, 1_000];

fn key(n: u64) -> SkuKey {
    SkuKey::from(format!("BENCH-{n}"))
}

/// What a group has loaded: `skus` SKUs with plenty on the shelf.
fn world(skus: u64) -> World {
    let main = SourceId::from("main");
    let mut world = World::default();
    for n in 0..skus {
        let id = LevelId::warehouse(&main, &key(n));
        let source = Source {
            source: main.clone(),
            kind: Kind::Warehouse,
            level: id.clone(),
            item: None,
            cost: None,
            currency: None,
            min_quantity: 1,
            pack_size: 1,
            buffer: None,
        };
        let sku = Sku {
            key: key(n),
            title: "a thing".into(),
            class: Class::Normal,
            watermark: Watermark::default(),
            sources: vec![source],
            paused: Paused::default(),
        };
        world.skus.insert(key(n), sku.into());
        let mut level = Level::empty(id.clone(), main.clone(), None);
        let stocked = level.shift(Shift { quantity: 1_000_000_000, ..Shift::default() });
        assert!(stocked.is_ok(), "a billion units fit");
        world.levels.insert(id, level.into());
    }
    world
}

fn id(n: u64) -> OrderId {
    OrderId::from(format!("{n:032x}"))
}

fn placement(n: u64, skus: u64) -> Command {
    let line = PlacementLine { sku: key(n % skus), quantity: 1, unit_price: 100 };
    Command::Place(Box::new(Placement {
        id: id(n),
        channel: "bench".into(),
        external_id: format!("bench-{n}"),
        content_hash: "0".repeat(64),
        idempotency: None,
        currency: "USD".into(),
        lines: vec![line],
        shipping: 0,
        discount: 0,
        customer: None,
        ship_to: None,
        payment: None,
        short_policy: ShortPolicy::CancelOrder,
    }))
}

fn payment(n: u64) -> Command {
    let payment = Capture {
        id: format!("pay-{n}"),
        amount: 100,
        currency: Some("USD".into()),
        paid_at: None,
    };
    Command::Pay { order: id(n), payment }
}

fn cancel(n: u64) -> Command {
    Command::Cancel { order: id(n), reason: CancelReason::Customer }
}

/// Decides all of them; every one must be accepted.
fn decide_all(world: &mut World, policy: &Policy, commands: &[Command]) {
    for command in commands {
        let decided = decide(world, policy, NOW, command);
        assert!(decided.is_ok(), "{decided:?}");
        let _ = black_box(decided);
    }
}

fn deciding(c: &mut Criterion) {
    let policy = Policy::default();
    let mut group = c.benchmark_group("decide");
    for size in SIZES {
        group.throughput(Throughput::Elements(size));
        let kinds = [("hot", 1), ("spread", size)];
        for (kind, skus) in kinds.into_iter().filter(|(kind, _)| size > 1 || *kind == "hot") {
            let commands: Vec<Command> = (0..size).map(|n| placement(n, skus)).collect();
            let loaded = world(skus);
            group.bench_function(format!("place/{kind}/{size}"), |b| {
                let decide = |mut world: World| {
                    decide_all(&mut world, &policy, &commands);
                    world
                };
                b.iter_batched(|| loaded.clone(), decide, BatchSize::SmallInput);
            });
        }
        // What is paid or cancelled was placed before, by other groups.
        let mut placed = world(1);
        let commands: Vec<Command> = (0..size).map(|n| placement(n, 1)).collect();
        decide_all(&mut placed, &policy, &commands);
        for (kind, command) in [("pay", payment as fn(u64) -> Command), ("cancel", cancel)] {
            let commands: Vec<Command> = (0..size).map(command).collect();
            group.bench_function(format!("{kind}/hot/{size}"), |b| {
                let decide = |mut world: World| {
                    decide_all(&mut world, &policy, &commands);
                    world
                };
                b.iter_batched(|| placed.clone(), decide, BatchSize::SmallInput);
            });
        }
    }
    group.finish();
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/fixtures/suppliers/1688/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn purchase() -> PurchaseRequest {
    let item = |offer: &str, spec: Option<&str>, quantity| PurchaseItem {
        item: Item { offer_id: offer.into(), spec_id: spec.map(Into::into) },
        quantity,
    };
    PurchaseRequest {
        reference: "so-1001".into(),
        items: vec![
            item("554456348334", Some("b266e0726506185beaf205cbae88530d"), 2),
            item("612345678901", None, 1),
        ],
        deliver_to: Address {
            name: "张三".into(),
            phone: "15251667788".into(),
            country: "CN".into(),
            province: "浙江省".into(),
            city: "杭州市".into(),
            district: "滨江区".into(),
            address: "网商路699号".into(),
            postcode: String::new(),
        },
    }
}

fn reading(c: &mut Criterion) {
    let mut group = c.benchmark_group("1688");
    let purchase = purchase();
    macro_rules! reads {
        ($name:literal, $body:ident => $read:expr) => {
            let $body = fixture($name);
            assert!($read.is_ok(), "{}: {:?}", $name, $read.err());
            group.throughput(Throughput::Bytes($body.len() as u64));
            group.bench_function($name, |b| b.iter(|| black_box($read.is_ok())));
        };
    }
    reads!("offer.json", body => wire::offer::answer(black_box(&body), "554456348334"));
    reads!("preview.json", body => wire::preview::preview(black_box(&body)));
    reads!("create.json", body => wire::create::created(black_box(&body), &purchase));
    reads!("order.json", body => wire::order::order(black_box(&body), ORDER));
    reads!("orders.json", body => wire::list::page(black_box(&body)));
    group.throughput(Throughput::Elements(1));
    group.bench_function("create's form", |b| {
        b.iter(|| black_box(wire::purchase::create_params(black_box(&purchase), "general")));
    });
    group.finish();
}

/// The order in `order.json`.
const ORDER: &str = "3657499272179232333";

criterion_group!(core, deciding, reading);
criterion_main!(core);
