//! A running simulator on a clock of the test's, and a small client of its own that signs.

use serde_json::{Value, json};
use stockhold::clock::{Clock, Timestamp};
use stockhold::domain::supply::Item;
use stockhold::suppliers::simulator::{Api, Handle, Settings, Simulator, Sorting, sign};

pub const SHOE: &str = "610947572360";
pub const SIZE_42: &str = "b266e0726506185beaf205cbae88530d";
pub const TAPE: &str = "554456348334";
const ADDRESS: &str = r#"{"fullName":"张三","mobile":"13800138000","provinceText":"浙江省","cityText":"杭州市","areaText":"西湖区","address":"文一西路 969 号"}"#;

pub type Params = Vec<(String, String)>;

/// A running simulator, its clock, and a client that signs.
pub struct Caller {
    pub simulator: Handle,
    pub clock: Clock,
    pub http: reqwest::Client,
}

pub fn tape() -> Item {
    Item { offer_id: TAPE.into(), spec_id: None }
}

pub fn pairs(list: &[(&str, &str)]) -> Params {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Parameters of a create or preview of some tape.
pub fn tape_order(reference: &str, units: i64) -> Params {
    let cargo = json!([{ "offerId": 554_456_348_334_u64, "quantity": units }]).to_string();
    pairs(&[
        ("flow", "general"),
        ("addressParam", ADDRESS),
        ("cargoParamList", &cargo),
        ("outOrderId", reference),
    ])
}

impl Caller {
    pub async fn start(change: impl FnOnce(&mut Settings)) -> Caller {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut settings = Settings::quiet();
        change(&mut settings);
        let clock = Clock::manual(Timestamp::parse_rfc3339("2026-11-30T08:00:00Z").unwrap());
        let simulator = Simulator::start(settings, clock.clone()).await.unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Caller { simulator, clock, http }
    }

    pub fn path(api: Api) -> String {
        let (namespace, name) = api.wire();
        format!("param2/1/{namespace}/{name}/1000000")
    }

    /// The parameters with token and signature.
    pub fn signed(api: Api, params: &Params) -> Params {
        let app = Settings::default().gateway;
        let mut all = params.clone();
        all.push(("access_token".into(), app.access_token));
        let signature = sign(&app.app_secret, &Caller::path(api), &all, Sorting::Joined);
        all.push(("_aop_signature".into(), signature));
        all
    }

    pub fn url(&self, api: Api) -> String {
        format!("{}/{}", self.simulator.gateway_url(), Caller::path(api))
    }

    pub fn request(&self, api: Api, params: &Params) -> reqwest::RequestBuilder {
        self.http.post(self.url(api)).form(&Caller::signed(api, params))
    }

    /// Status and JSON of a good call.
    pub async fn call(&self, api: Api, params: &Params) -> (u16, Value) {
        self.send(self.request(api, params)).await
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Orders tape; the order's id.
    pub async fn order_tape(&self, reference: &str, units: i64) -> u64 {
        let (_, answer) = self.call(Api::Create, &tape_order(reference, units)).await;
        answer["result"]["orderId"].as_str().unwrap().parse().unwrap()
    }

    /// `result` of the view of one order.
    pub async fn view(&self, id: u64) -> Value {
        let params = pairs(&[("webSite", "1688"), ("orderId", &id.to_string())]);
        self.call(Api::View, &params).await.1["result"].clone()
    }

    /// POST with a body or GET without one, below `/sim`.
    pub async fn sim(&self, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("http://{}/sim/{path}", self.simulator.address());
        let request = match body {
            Some(body) => self.http.post(url).body(body.to_string()),
            None => self.http.get(url),
        };
        self.send(request).await
    }
}
