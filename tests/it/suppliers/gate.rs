//! A stand-in for the 1688 gateway: answers from a script and checks every signature.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use secrecy::SecretString;
use stockhold::clock::{Clock, Span, Timestamp};
use stockhold::domain::supply::{Address, Fault, Item, PurchaseItem, PurchaseRequest};
use stockhold::suppliers::alibaba1688::{Alibaba1688, Terms, sign};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

pub const SECRET: &str = "test_app_secret_0123456789abcdef";
pub const OFFER: &str = "alibaba.fenxiao.productInfo.get";
pub const PREVIEW: &str = "alibaba.createOrder.preview";
pub const CREATE: &str = "alibaba.trade.fastCreateOrder";
pub const ORDER: &str = "alibaba.trade.get.buyerView";
pub const ORDERS: &str = "alibaba.trade.getBuyerOrderList";
pub const CANCEL: &str = "alibaba.trade.cancel";
pub const TOKEN: &str = "getToken";
pub const ID: &str = "3657499272179232333";
pub const RED: &str = "b266e0726506185beaf205cbae88530d";
pub const NOW: Timestamp = Timestamp(1_728_273_600_000_000);

type Script = Arc<Mutex<HashMap<String, VecDeque<ResponseTemplate>>>>;

/// One call as it arrived.
#[derive(Clone, Debug)]
pub struct Call {
    pub api: String,
    pub form: BTreeMap<String, String>,
}

pub struct Gate {
    pub server: MockServer,
    script: Script,
}

impl Gate {
    pub async fn start() -> Gate {
        let (server, script) = (MockServer::start().await, Script::default());
        let answers = Arc::clone(&script);
        let respond = move |request: &Request| {
            let call = call(request);
            let mut script = answers.lock().expect("the script");
            let subjects = ["offerId", "orderId", "page", "outOrderId"];
            let subject = subjects.into_iter().find_map(|key| call.form.get(key));
            let exact = format!("{} {}", call.api, subject.map_or("", String::as_str));
            let mut next = |key: &str| script.get_mut(key).and_then(VecDeque::pop_front);
            next(&exact)
                .or_else(|| next(&call.api))
                .unwrap_or_else(|| ResponseTemplate::new(501).set_body_string("not in the script"))
        };
        Mock::given(method("POST")).respond_with(respond).mount(&server).await;
        Gate { server, script }
    }

    /// The next answer to `what`: an API, or an API and its offer, order, page or reference.
    pub fn answer(&self, what: &str, answer: ResponseTemplate) -> &Gate {
        let mut script = self.script.lock().expect("the script");
        script.entry(what.to_owned()).or_default().push_back(answer);
        self
    }

    /// The next answer to `what`: JSON with HTTP 200.
    pub fn json(&self, what: &str, body: impl Into<String>) -> &Gate {
        self.answer(what, json(200, body))
    }

    pub fn client(&self) -> Alibaba1688 {
        self.client_with(|_| {})
    }

    pub fn client_with(&self, change: impl FnOnce(&mut Terms)) -> Alibaba1688 {
        let mut terms = terms(&format!("{}/openapi", self.server.uri()));
        change(&mut terms);
        Alibaba1688::new(terms).expect("an adapter")
    }

    /// All calls so far; every one but a token refresh is rightly signed.
    pub async fn calls(&self) -> Vec<Call> {
        let requests = self.server.received_requests().await.expect("recorded requests");
        for request in requests.iter().filter(|r| !r.url.path().contains("getToken")) {
            assert_signed(request);
        }
        requests.iter().map(call).collect()
    }

    /// How often `api` was called.
    pub async fn count(&self, api: &str) -> usize {
        self.calls().await.iter().filter(|c| c.api == api).count()
    }
}

pub fn json(status: u16, body: impl Into<String>) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(body.into(), "application/json;charset=UTF-8")
}

pub fn fixture(name: &str) -> String {
    let path = format!("{}/fixtures/suppliers/1688/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub fn terms(gateway: &str) -> Terms {
    Terms {
        gateway: gateway.into(),
        app_key: "1000000".into(),
        app_secret: SecretString::from(SECRET),
        access_token: SecretString::from("tok-0001"),
        refresh_token: Some(SecretString::from("refresh-0001")),
        flow: "general".into(),
        request_timeout: Span::secs(30),
        max_requests_per_second: 0,
        page_size: 2,
        clock: Clock::manual(NOW),
    }
}

fn call(request: &Request) -> Call {
    let segments: Vec<&str> = request.url.path().split('/').collect();
    let api = segments.iter().rev().nth(1).expect("an API name");
    let form = url::form_urlencoded::parse(&request.body).into_owned().collect();
    Call { api: (*api).to_owned(), form }
}

fn assert_signed(request: &Request) {
    let url_path = request.url.path().strip_prefix("/openapi/").expect("the gateway's prefix");
    let form = call(request).form;
    let pairs = form.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let want = sign::request_signature(SECRET, url_path, pairs);
    assert_eq!(form.get(sign::SIGNATURE), Some(&want), "{url_path}");
    assert_eq!(form.get("_aop_timestamp").map(String::as_str), Some("1728273600000"));
}

pub fn red() -> Item {
    Item { offer_id: "554456348334".into(), spec_id: Some(RED.into()) }
}

pub fn plain() -> Item {
    Item { offer_id: "612345678901".into(), spec_id: None }
}

pub fn purchase() -> PurchaseRequest {
    PurchaseRequest {
        reference: "so-1001".into(),
        items: vec![
            PurchaseItem { item: red(), quantity: 2 },
            PurchaseItem { item: plain(), quantity: 1 },
        ],
        deliver_to: Address {
            name: "张三".into(),
            phone: "15251667788".into(),
            province: "浙江省".into(),
            city: "杭州市".into(),
            district: "滨江区".into(),
            address: "网商路699号 & +%2B".into(),
            ..Address::default()
        },
    }
}

/// The code of an unknown outcome; anything else fails the test.
pub fn unknown<T: std::fmt::Debug>(got: Result<T, Fault>) -> String {
    match got {
        Err(Fault::Unknown { code, .. }) => code,
        other => panic!("not unknown: {other:?}"),
    }
}
