//! What 64 callers do at a shop, with a supplier that loses, throttles and delays its answers, other
//! buyers, and refunds whose answers get lost: `mixed` plays it and judges how it ended.
//!
//! What must hold: every call is made until it is answered for good, so that what a caller was told is
//! all that was done.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use stockhold::clock::Span;
use stockhold::suppliers::simulator::{Api as Call, Buyers, Chance, Fault, Repeated, Settings};
use tokio::time::Instant;

use super::front::Front;
use super::shop::{Shop, setup};
use crate::blackbox::api::{Api, warehouse};
use crate::faults::refunder::Refunder;
use crate::faults::world::{at_supplier, basket};

/// SKU and its items: a few that many want and many that few want, ours and the supplier's, and
/// some of both.
const HOT: &str = "HOT";
const PLENTY: [&str; 3] = ["W1", "W2", "W3"];
pub const SCARCE_ITEM: &str = "700000000001";
pub const MIXED_ITEM: &str = "700000000002";
pub const PLENTY_ITEMS: [&str; 2] = ["700000000003", "700000000004"];
const MIXED: &str = "MIXED";

/// Settles within a minute or two what production settles in hours; purchases are read back each 5 s.
fn keys(refunder: &Refunder) -> String {
    format!(
        "{}[holds]\nttl_normal = \"5s\"\nttl_hot = \"3s\"\nsweep_interval = \"2s\"\n
        [confirm]\ndelay = \"4s\"\nretry_deadline = \"20s\"\nattention_deadline = \"20s\"\n
        [jobs]\nlease = \"10s\"\n
        [supplier]\nsync_interval = \"10s\"\n",
        refunder.keys()
    )
}

/// Some of everything. What lands late lands while its purchase is still waited for: what lands
/// after that is found by the look-up after 10 min, which is not waited for here.
pub fn misbehave(s: &mut Settings) {
    let chance = |chance, fault| Chance { chance, fault };
    let lost = |effect| Fault::NeverAnswer { effect };
    let cut = |effect| Fault::Cut { effect };
    s.gateway.hang = Span::secs(5);
    s.conduct_mut(Call::Product).chances =
        vec![chance(0.05, Fault::throttled()), chance(0.05, cut(false)), chance(0.05, lost(false))];
    s.conduct_mut(Call::Preview).chances = vec![chance(0.05, cut(false))];
    s.conduct_mut(Call::Create).chances = vec![
        chance(0.05, Fault::Late { after: Span::secs(4) }),
        chance(0.05, lost(true)),
        chance(0.05, lost(false)),
        chance(0.05, cut(true)),
        chance(0.05, cut(false)),
        chance(0.03, Fault::throttled()),
        chance(0.02, Fault::Http { status: 500, effect: true }),
    ];
    s.conduct_mut(Call::List).chances =
        vec![chance(0.1, cut(false)), chance(0.05, Fault::Garbage { effect: false })];
    s.conduct_mut(Call::View).chances = vec![chance(0.05, cut(false))];
    s.conduct_mut(Call::Cancel).chances = vec![chance(0.1, cut(true)), chance(0.1, cut(false))];
    s.trade.repeated_reference = Repeated::SecondOrder;
    s.trade.close_not_before = Span::secs(2);
    // Six at once, so that orders which wait to be confirmed fall short.
    let buyers =
        |offer: &str| Buyers { offer_id: offer.into(), spec_id: None, per_second: 0.08, units: 6 };
    s.buyers = vec![buyers(SCARCE_ITEM), buyers(MIXED_ITEM)];
}

pub fn calm(s: &mut Settings) {
    for api in Call::ALL {
        s.conduct_mut(api).chances.clear();
    }
    s.buyers.clear();
}

pub async fn open(refunder: &Refunder) -> Shop {
    let [plenty, more] = PLENTY_ITEMS;
    let offers = [(SCARCE_ITEM, 40), (MIXED_ITEM, 40), (plenty, 100_000), (more, 100_000)];
    Shop::of(2, setup().with(&keys(refunder)).selling(&offers)).await
}

pub async fn stock(shop: &Shop, api: &Api) {
    api.sku(HOT, &json!({"title": HOT, "class": "hot", "sources": [warehouse()]})).await;
    api.set_stock(HOT, 60).await;
    for sku in PLENTY {
        api.stocked(sku, 100_000).await;
    }
    let sources = json!([warehouse(), at_supplier(MIXED_ITEM, None)]);
    api.sku(MIXED, &json!({"title": MIXED, "sources": sources})).await;
    api.set_stock(MIXED, 20).await;
    let [plenty, more] = PLENTY_ITEMS;
    shop.supply(api, &[SCARCE_ITEM, plenty, more]).await;
}

/// What a caller was told: orders that it has, payments that were taken.
#[derive(Default)]
pub struct Told {
    pub orders: Vec<String>,
    pub payments: u64,
    pub sold_out: u64,
}

/// One of a few kinds of baskets; most are ours alone.
fn lines(dice: &mut StdRng) -> Vec<(&'static str, i64)> {
    let few = dice.random_range(1..=3);
    let plenty = *PLENTY.choose(dice).expect("one");
    match dice.random_range(0..100) {
        0..25 => vec![(HOT, 1)],
        25..30 => vec![(HOT, 1), (plenty, few)],
        30..80 => vec![(plenty, few)],
        80..86 => vec![(SCARCE_ITEM, 1)],
        86..90 => vec![(MIXED, few)],
        90..93 => vec![(MIXED, 1), (PLENTY_ITEMS[0], few)],
        93..97 => vec![(*PLENTY_ITEMS.choose(dice).expect("one"), few)],
        _ => vec![(plenty, 1), (PLENTY_ITEMS[1], 1)],
    }
}

/// Places, and pays, pays late, cancels, or forgets; until the end.
pub async fn caller(front: Front, seed: u64, end: Instant) -> Told {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut told = Told::default();
    let mut n = 0;
    while Instant::now() < end {
        n += 1;
        tokio::time::sleep(Duration::from_millis(dice.random_range(200..900))).await;
        let (name, lines) = (format!("o-{seed}-{n}"), lines(&mut dice));
        let units = lines.iter().map(|(_, units)| units).sum();
        let mut order = basket(&name, &lines);
        if dice.random_ratio(1, 4) {
            order["short_policy"] = "cancel_lines".into();
        }
        let first = dice.random_range(0..2);
        let placed = front.place(first, &order).await;
        if placed.status == 409 {
            let code = placed.code();
            assert!(matches!(&*code, "insufficient_stock" | "stale_feed"), "{}", placed.text);
            told.sold_out += 1;
            continue;
        }
        assert!(matches!(placed.status, 200 | 201), "{} {}", placed.status, placed.text);
        let id = placed.id();
        let then = dice.random_range(0..100);
        if (50..65).contains(&then) {
            // About when it expires, or after it.
            tokio::time::sleep(Duration::from_millis(dice.random_range(2_500..6_500))).await;
        }
        if then < 65 {
            let paid = front.pay(first + 1, &id, &name, units).await;
            assert!(matches!(paid.status, 200 | 201), "{} {}", paid.status, paid.text);
            told.payments += 1;
        }
        if (35..50).contains(&then) {
            // Before the supplier is asked, meanwhile, or when it is bought.
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..12_000))).await;
        }
        if (35..50).contains(&then) || (65..80).contains(&then) {
            let cancelled = front.cancel(first, &id).await;
            assert!(matches!(cancelled.status, 200 | 202 | 409), "{}", cancelled.text);
        }
        told.orders.push(id);
    }
    told
}
