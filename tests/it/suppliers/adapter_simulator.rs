//! The adapter against the simulator: each was written from the protocol's description, without
//! sight of the other. What the one means the other must understand, and every fault of the wire
//! must come out as no answer.

use secrecy::{ExposeSecret, SecretString};
use stockhold::clock::{Clock, Span, Timestamp};
use stockhold::domain::supply::{
    Address, Created, Fault, Figure, Item, PurchaseItem, PurchaseRequest, UpstreamState,
};
use stockhold::suppliers::Supplier;
use stockhold::suppliers::alibaba1688::{Alibaba1688, Terms};
use stockhold::suppliers::simulator::{
    Api, By, Fault as Wire, Handle, ProductShape, ReferenceIn, Repeated, Settings, Shortage,
    Simulator,
};

use super::caller::{SHOE, SIZE_42, tape};

const REFERENCE: &str = "o1-s1688-1";
/// An order's carriage and the prices, fen.
const POST: i64 = 800;
const SHOE_PRICE: i64 = 12_800;
const TAPE_PRICE: i64 = 990;

struct Pair {
    sim: Handle,
    adapter: Alibaba1688,
    clock: Clock,
}

fn terms(sim: &Handle, clock: &Clock) -> Terms {
    let app = Settings::default().gateway;
    Terms {
        gateway: sim.gateway_url(),
        app_key: app.app_key,
        app_secret: SecretString::from(app.app_secret),
        access_token: SecretString::from(app.access_token),
        refresh_token: Some(SecretString::from(app.refresh_token)),
        flow: "general".into(),
        // Long enough for a busy machine; `another` gives up sooner.
        request_timeout: Span::secs(20),
        max_requests_per_second: 0,
        page_size: 2,
        clock: clock.clone(),
    }
}

impl Pair {
    async fn start(change: impl FnOnce(&mut Settings)) -> Pair {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut settings = Settings::quiet();
        change(&mut settings);
        let clock = Clock::manual(Timestamp::from_secs(1_796_040_000));
        let sim = Simulator::start(settings, clock.clone()).await.expect("a simulator");
        let adapter = Alibaba1688::new(terms(&sim, &clock)).expect("an adapter");
        Pair { sim, adapter, clock }
    }

    /// An adapter of its own, since a throttled one waits; and one that gives up soon where the
    /// call hangs.
    fn another(&self, hangs: bool) -> Alibaba1688 {
        let mut terms = terms(&self.sim, &self.clock);
        if hangs {
            terms.request_timeout = Span::millis(400);
        }
        Alibaba1688::new(terms).expect("an adapter")
    }

    async fn create(&self, lines: &[(Item, i64)]) -> Result<Created, Fault> {
        self.adapter.create(&request(REFERENCE, lines)).await
    }

    async fn created(&self, reference: &str) -> String {
        let request = request(reference, &[(shoe(), 1)]);
        self.adapter.create(&request).await.expect("made").supplier_order_id
    }

    async fn found(&self) -> Vec<String> {
        let found = self.adapter.look_up(REFERENCE).await.expect("a complete look-up");
        found.into_iter().map(|order| order.supplier_order_id).collect()
    }
}

fn shoe() -> Item {
    Item { offer_id: SHOE.into(), spec_id: Some(SIZE_42.into()) }
}

fn request(reference: &str, lines: &[(Item, i64)]) -> PurchaseRequest {
    let line =
        |(item, quantity): &(Item, i64)| PurchaseItem { item: item.clone(), quantity: *quantity };
    PurchaseRequest {
        reference: reference.into(),
        items: lines.iter().map(line).collect(),
        deliver_to: Address {
            name: "张三".into(),
            phone: "13800138000".into(),
            country: "CN".into(),
            province: "浙江省".into(),
            city: "杭州市".into(),
            district: "西湖区".into(),
            address: "文一西路 969 号 & +%2B".into(),
            postcode: "310000".into(),
        },
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Fault>) -> (&'static str, String) {
    match answer.expect_err("a fault") {
        Fault::Unknown { code, .. } => ("unknown", code),
        Fault::OutOfStock { code, .. } => ("short", code),
        Fault::Refused { code, .. } => ("refused", code),
        Fault::TooSoon => ("too_soon", String::new()),
    }
}

#[tokio::test]
async fn both_shapes_of_a_product_are_read_alike() {
    for shape in [ProductShape::Fenxiao, ProductShape::Classic] {
        let pair = Pair::start(|s| s.trade.product_shape = shape).await;
        let gone = Item { spec_id: Some("0".repeat(32)), ..shoe() };
        let never = Item { offer_id: "999".into(), spec_id: None };
        let items = [shoe(), tape(), gone, never];
        let feed = pair.adapter.feed(&items).await.expect("a feed");
        assert!(feed.iter().map(|r| &r.item).eq(items.iter()));
        assert_eq!(feed[0].figure, Figure::Listed(40));
        assert_eq!(feed[1].figure, Figure::Listed(500));
        assert_eq!(feed[2].figure, Figure::Missing);
        assert!(matches!(feed[3].figure, Figure::Unknown(_)), "{:?}", feed[3]);
        assert_eq!((feed[0].sent_at, feed[0].stated_at), (pair.clock.now(), None));
        pair.sim.set_stock(&shoe(), 0).expect("a shoe");
        let asked = pair.adapter.ask(&shoe()).await.expect("an answer");
        assert_eq!(asked.figure, Figure::Listed(0), "none is not missing");
        pair.sim.set_offer_status(SHOE, "expired").expect("an offer");
        let asked = pair.adapter.ask(&shoe()).await.expect("an answer");
        assert_eq!(asked.figure, Figure::Missing);
    }
}

#[tokio::test]
async fn a_preview_and_a_create_agree_on_the_sum() {
    let pair = Pair::start(|_| {}).await;
    let lines = [(shoe(), 2)];
    let preview = pair.adapter.preview(&request(REFERENCE, &lines)).await.expect("a preview");
    let total = 2 * SHOE_PRICE + POST;
    assert_eq!((preview.total, preview.orders), (total, 1));
    let created = pair.create(&lines).await.expect("made");
    assert_eq!((created.total, created.left_out.len()), (Some(total), 0));
    let order = pair.sim.orders_of(REFERENCE).pop().expect("an order");
    assert_eq!(created.supplier_order_id, order.id.to_string());
    assert_eq!(order.address["address"], "文一西路 969 号 & +%2B");
    let read = pair.adapter.order(&created.supplier_order_id).await.expect("an order");
    assert_eq!((read.total, read.reference.as_deref()), (Some(total), Some(REFERENCE)));
    assert_eq!(read.items, request(REFERENCE, &lines).items);
    assert_eq!(pair.sim.counts().values().map(|c| c.sorted_by_key).sum::<u64>(), 0);
}

#[tokio::test]
async fn every_form_of_a_shortage_is_understood() {
    let lines = [(shoe(), 2), (tape(), 10)];
    for shortage in [Shortage::Code, Shortage::Lines, Shortage::LeaveOut] {
        let pair = Pair::start(|s| s.trade.shortage = shortage).await;
        pair.sim.set_stock(&shoe(), 1).expect("a shoe");
        let preview = pair.adapter.preview(&request(REFERENCE, &lines)).await;
        assert_eq!(code(preview), ("short", "500_004".into()));
        let created = pair.create(&lines).await;
        if shortage == Shortage::LeaveOut {
            let created = created.expect("made without the shoes");
            assert_eq!(created.total, Some(10 * TAPE_PRICE + POST));
            assert_eq!(created.left_out.len(), 1);
            assert_eq!(created.left_out[0].item, shoe());
            assert!(
                matches!(&created.left_out[0].fault, Fault::OutOfStock { code, .. } if code == "500_004")
            );
        } else {
            assert_eq!(code(created), ("short", "500_004".into()));
            assert!(pair.sim.orders().is_empty());
        }
        pair.sim.set_stock(&tape(), 0).expect("tape");
        let nothing = pair.adapter.create(&request("o2-s1688-1", &lines)).await;
        assert_eq!(code(nothing), ("short", "500_004".into()));
    }
    let pair = Pair::start(|_| {}).await;
    pair.sim.set_offer_status(SHOE, "expired").expect("an offer");
    assert_eq!(code(pair.create(&lines).await), ("refused", "500_001".into()));
    assert_eq!(code(pair.create(&[(tape(), 3)]).await).0, "refused");
}

#[tokio::test]
async fn a_look_up_finds_what_carries_the_reference_wherever_it_is_shown() {
    for ignored in [false, true] {
        for shown in [ReferenceIn::BaseInfo, ReferenceIn::ExtAttributes] {
            let pair = Pair::start(|s| {
                s.trade.list_ignores_reference = ignored;
                s.trade.reference_shown_in = shown;
                s.trade.repeated_reference = Repeated::SecondOrder;
            })
            .await;
            for n in 2..7 {
                pair.created(&format!("o{n}-s1688-1")).await;
            }
            assert_eq!(pair.found().await, Vec::<String>::new(), "{ignored} {shown:?}");
            let first = pair.created(REFERENCE).await;
            assert_eq!(pair.found().await, std::slice::from_ref(&first), "{ignored} {shown:?}");
            let second = pair.created(REFERENCE).await;
            assert_eq!(pair.found().await, [first, second], "{ignored} {shown:?}");
        }
    }
}

#[tokio::test]
async fn a_repeated_reference_is_the_same_order_where_the_platform_keeps_it() {
    let pair = Pair::start(|_| {}).await;
    let first = pair.created(REFERENCE).await;
    assert_eq!(pair.created(REFERENCE).await, first);
    assert_eq!(pair.found().await, [first]);
}

#[tokio::test]
async fn an_order_is_followed_through_its_life_and_its_ends() {
    let pair = Pair::start(|_| {}).await;
    let id = pair.created(REFERENCE).await;
    let number: u64 = id.parse().expect("digits");
    let state = async || pair.adapter.order(&id).await.expect("an order").state;
    assert_eq!(state().await, UpstreamState::AwaitingPayment);
    pair.sim.pay(number).expect("paid");
    assert_eq!(state().await, UpstreamState::Paid);
    pair.sim.ship(number).expect("shipped");
    assert_eq!(state().await, UpstreamState::Shipped);
    let parcels = pair.adapter.order(&id).await.expect("an order").parcels;
    assert_eq!(parcels.len(), 1);
    pair.sim.receive(number).expect("received");
    assert_eq!(state().await, UpstreamState::Received);
    for (n, closer, want) in [
        (2, By::Seller, UpstreamState::ClosedBySeller),
        (3, By::Bops, UpstreamState::ClosedBySeller),
        (4, By::System, UpstreamState::ClosedUnpaid),
        (5, By::Buyer, UpstreamState::ClosedUnpaid),
    ] {
        let id = pair.created(&format!("o{n}-s1688-1")).await;
        pair.sim.close(id.parse().expect("digits"), closer, "x").expect("closed");
        let order = pair.adapter.order(&id).await.expect("an order");
        assert_eq!(order.state, want, "{closer:?}");
    }
}

#[tokio::test]
async fn a_cancel_is_too_soon_then_done_or_refused() {
    let pair = Pair::start(|_| {}).await;
    let (id, paid) = (pair.created(REFERENCE).await, pair.created("o2-s1688-1").await);
    assert_eq!(pair.adapter.cancel(&id).await, Err(Fault::TooSoon));
    pair.clock.advance(Span::secs(11));
    assert_eq!(pair.adapter.cancel(&id).await, Ok(()));
    assert_eq!(code(pair.adapter.cancel(&id).await), ("refused", "ORDER_STATUS_ERROR".into()));
    pair.sim.pay(paid.parse().expect("digits")).expect("paid");
    assert_eq!(code(pair.adapter.cancel(&paid).await), ("refused", "ORDER_STATUS_ERROR".into()));
    assert_eq!(code(pair.adapter.cancel("17").await), ("refused", "ORDER_NOT_EXIST".into()));
    let closed = pair.sim.order(id.parse().expect("digits")).expect("an order").closed;
    assert_eq!(closed.expect("closed").by, By::Buyer);
}

#[tokio::test]
async fn an_ended_token_is_refreshed_and_the_call_made_once() {
    let pair = Pair::start(|s| s.gateway.access_token_life = Some(Span::hours(10))).await;
    for round in 1..=3 {
        pair.clock.advance(Span::hours(11));
        let id = pair.created(&format!("o{round}-s1688-1")).await;
        assert!(pair.sim.order(id.parse().expect("digits")).is_some());
        assert_eq!(pair.sim.calls(Api::Token), round);
    }
    assert_eq!(pair.sim.orders().len(), 3);
    let kept = pair.adapter.tokens().borrow().clone();
    let again = Terms {
        access_token: kept.access.clone(),
        refresh_token: kept.refresh,
        ..terms(&pair.sim, &pair.clock)
    };
    assert_ne!(kept.access.expose_secret(), Settings::default().gateway.access_token);
    let adapter = Alibaba1688::new(again).expect("an adapter");
    assert!(adapter.ask(&shoe()).await.is_ok());
    assert_eq!(pair.sim.calls(Api::Token), 3);
}

/// Every fault that a call can meet, with what the adapter is to call it.
fn faults() -> Vec<(Wire, &'static str)> {
    let message = || "x".to_owned();
    vec![
        (Wire::TIMED_OUT, "timeout"),
        (Wire::LOST, "timeout"),
        (Wire::Cut { effect: true }, "transport"),
        (Wire::Torn { effect: true }, "torn"),
        (Wire::Http { status: 500, effect: true }, "http_500"),
        (Wire::Http { status: 502, effect: false }, "http_502"),
        (Wire::Http { status: 503, effect: false }, "http_503"),
        (Wire::Garbage { effect: true }, "unreadable"),
        (Wire::throttled(), "gw.QosAppFrequencyLimit"),
        (
            Wire::Gateway {
                code: "gw.APIACLDecline".into(),
                message: message(),
                status: 403,
                effect: false,
            },
            "gw.APIACLDecline",
        ),
        (Wire::unknown_error(), "SYSTEM_ERROR"),
    ]
}

#[tokio::test]
async fn no_fault_of_the_wire_is_ever_definite() {
    let pair = Pair::start(|_| {}).await;
    let id = pair.created(REFERENCE).await;
    pair.clock.advance(Span::secs(11));
    let slow = Wire::Slow { by: Span::secs(3) };
    for (fault, want) in faults().into_iter().chain([(slow, "timeout")]) {
        let another = || pair.another(want == "timeout");
        let script = |api| pair.sim.script(api, fault.clone()).expect("a fault");
        let hasty = another();
        script(Api::Product);
        assert_eq!(code(hasty.ask(&shoe()).await), ("unknown", want.into()), "ask {fault:?}");
        let hasty = another();
        script(Api::Preview);
        let asked = request("o9-s1688-1", &[(shoe(), 1)]);
        assert_eq!(
            code(hasty.preview(&asked).await),
            ("unknown", want.into()),
            "preview {fault:?}"
        );
        let hasty = another();
        script(Api::Create);
        assert_eq!(code(hasty.create(&asked).await), ("unknown", want.into()), "create {fault:?}");
        let hasty = another();
        script(Api::List);
        assert_eq!(
            code(hasty.look_up(REFERENCE).await),
            ("unknown", want.into()),
            "list {fault:?}"
        );
        let hasty = another();
        script(Api::View);
        assert_eq!(code(hasty.order(&id).await), ("unknown", want.into()), "view {fault:?}");
        if !fault.has_effect() {
            let hasty = another();
            script(Api::Cancel);
            assert_eq!(code(hasty.cancel(&id).await), ("unknown", want.into()), "cancel {fault:?}");
        }
    }
    pair.sim.script(Api::Cancel, Wire::LOST).expect("a fault");
    assert_eq!(code(pair.another(true).cancel(&id).await), ("unknown", "timeout".into()));
    let closed = pair.adapter.order(&id).await.expect("an order");
    assert_eq!(closed.state, UpstreamState::ClosedUnpaid, "it was done all the same");
    // Whatever was lost, the reference was kept to one order.
    assert_eq!(pair.sim.orders_of("o9-s1688-1").len(), 1);
}

#[tokio::test]
async fn a_create_that_lands_late_is_found_when_it_is_there() {
    let pair = Pair::start(|_| {}).await;
    pair.sim.script(Api::Create, Wire::Late { after: Span::secs(90) }).expect("a fault");
    let lost = pair.another(true).create(&request(REFERENCE, &[(shoe(), 1)])).await;
    assert_eq!(code(lost), ("unknown", "timeout".into()));
    pair.clock.advance(Span::secs(89));
    assert_eq!(pair.found().await, Vec::<String>::new());
    pair.clock.advance(Span::secs(1));
    assert_eq!(pair.found().await, [pair.sim.orders()[0].id.to_string()]);
}
