//! The gateway: who may call what and how often, which fault the call meets, and its answer.
//!
//! Pure but for what it holds: given a call and a time it says what to answer and when; the server
//! does it. What must hold: checks come in the platform's order (application, call and signature,
//! rate, token, rights, parameters), and a call that fails one has no effect.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api::Api;
use super::faults::{Fault, Faults};
use super::settings::{Error, Settings};
use super::shop::Shop;
use super::signature::{self, Sorting};
use super::tally::Tally;
use super::tokens::Tokens;
use super::transport::Call;
use super::wire;
use crate::clock::{Span, Timestamp};

/// The simulated platform, whole.
#[derive(Debug)]
pub struct Gateway {
    settings: Settings,
    pub shop: Shop,
    pub faults: Faults,
    pub tally: Tally,
    pub tokens: Tokens,
    /// Since when the answers of a call stand still.
    frozen: BTreeMap<Api, Timestamp>,
    /// Calls in the current second, in all and of one call.
    rates: BTreeMap<Option<Api>, (i64, u32)>,
    requests: u64,
}

/// What the server is to do with a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub delay: Span,
    pub act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Answer(Reply),
    /// Hold the connection for this long, then cut it.
    Hang(Span),
    Cut,
    /// Send half of it, then cut.
    Torn(Reply),
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Reply {
    pub fn json(status: u16, body: &Value) -> Reply {
        let content_type = "application/json;charset=UTF-8";
        Reply { status, content_type, body: body.to_string() }
    }

    fn garbage() -> Reply {
        let content_type = "application/json;charset=UTF-8";
        Reply { status: 200, content_type, body: "{\"success\":tru".into() }
    }

    fn page(status: u16, text: &str) -> Reply {
        let body = format!("<html><body><h1>{text}</h1></body></html>");
        Reply { status, content_type: "text/html", body }
    }
}

/// An error of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    status: u16,
    code: String,
    message: String,
}

impl Refused {
    fn new(code: &str, message: impl Into<String>) -> Refused {
        Refused { status: 400, code: code.into(), message: message.into() }
    }
}

impl Gateway {
    pub fn new(settings: Settings, now: Timestamp) -> Gateway {
        let mut shop = Shop::new(settings.trade.clone(), &settings.offers, settings.seed, now);
        shop.set_buyers(settings.buyers.clone(), now);
        let mut gateway = Gateway {
            shop,
            faults: Faults::seeded(settings.seed),
            tally: Tally::default(),
            tokens: Tokens::new(&settings.gateway, now),
            frozen: BTreeMap::new(),
            rates: BTreeMap::new(),
            requests: 0,
            settings,
        };
        gateway.freeze(now);
        gateway
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// New settings from `now` on. Offers, address and seed are those of the start.
    ///
    /// # Errors
    /// When they cannot be simulated, or would change what is fixed.
    pub fn change(&mut self, settings: Settings, now: Timestamp) -> Result<(), Error> {
        settings.validate()?;
        let old = &self.settings;
        if (&settings.offers, settings.listen, settings.seed) != (&old.offers, old.listen, old.seed)
        {
            let wrong = "offers, listen and seed cannot be changed while it runs";
            return Err(Error::Invalid(wrong.into()));
        }
        let now = self.shop.settle(now);
        if settings.buyers != self.settings.buyers {
            self.shop.set_buyers(settings.buyers.clone(), now);
        }
        let tokens = |s: &Settings| {
            let app = &s.gateway;
            (app.access_token.clone(), app.refresh_token.clone(), app.access_token_life)
        };
        if tokens(&settings) != tokens(&self.settings) {
            self.tokens = Tokens::new(&settings.gateway, now);
        }
        self.shop.set_trade(settings.trade.clone());
        self.settings = settings;
        self.freeze(now);
        Ok(())
    }

    /// Puts a fault behind those scripted for the next calls of `api`.
    ///
    /// # Errors
    /// When the call cannot have that fault.
    pub fn script(&mut self, api: Api, fault: Fault) -> Result<(), Error> {
        fault.check(api)?;
        self.faults.script(api, fault);
        Ok(())
    }

    /// What to do with `call` at `now`. Its effect, if it has one, has happened.
    pub fn answer(&mut self, call: &Call, now: Timestamp) -> Plan {
        let now = self.shop.settle(now);
        let found = Api::find(&call.version, &call.namespace, &call.name);
        if let Some(api) = found {
            self.tally.count(api).calls += 1;
        }
        let api = match self.admit(found, call, now) {
            Ok(api) => api,
            Err(refused) => {
                if let Some(api) = found {
                    self.tally.count(api).refused += 1;
                    self.tally.record(now, api, call, &refused.code);
                }
                return Plan { delay: Span::ZERO, act: Act::Answer(self.error(&refused)) };
            }
        };
        let conduct = self.settings.conduct(api);
        let chances = conduct.chances.iter().chain(&self.settings.chances);
        let fault = self.faults.next(api, chances.filter(|c| c.fault.check(api).is_ok()));
        let outcome = fault.as_ref().map_or("answered", Fault::kind);
        if fault.is_some() {
            *self.tally.count(api).faults.entry(outcome).or_default() += 1;
        }
        self.tally.record(now, api, call, outcome);
        let slower = if let Some(Fault::Slow { by }) = fault { by } else { Span::ZERO };
        Plan { delay: conduct.latency + slower, act: self.act(fault, api, call, now) }
    }

    fn act(&mut self, fault: Option<Fault>, api: Api, call: &Call, now: Timestamp) -> Act {
        let Some(fault) = fault else {
            return Act::Answer(self.perform(api, call, now));
        };
        let answer = if fault.has_effect() {
            self.perform(api, call, now)
        } else {
            Reply::json(200, &json!({ "success": true, "result": {} }))
        };
        let hang = Act::Hang(self.settings.gateway.hang);
        match fault {
            Fault::Slow { .. } => Act::Answer(answer),
            Fault::Torn { .. } => Act::Torn(answer),
            Fault::NeverAnswer { .. } => hang,
            Fault::Late { after } => {
                // An unreadable basket makes no order, late or not.
                if let Ok(basket) = wire::trade::basket(call) {
                    self.shop.place_later(basket, now + after);
                }
                hang
            }
            Fault::Cut { .. } => Act::Cut,
            Fault::Http { status, .. } => Act::Answer(Reply::page(status, "Bad Gateway")),
            Fault::Garbage { .. } => Act::Answer(Reply::garbage()),
            Fault::Gateway { code, message, status, .. } => {
                Act::Answer(self.error(&Refused { status, code, message }))
            }
            Fault::Refuse { code, message, .. } => {
                Act::Answer(Reply::json(200, &wire::refusal(api, &code, &message)))
            }
        }
    }

    fn admit(&mut self, found: Option<Api>, call: &Call, now: Timestamp) -> Result<Api, Refused> {
        let app = &self.settings.gateway;
        if call.app_key != app.app_key {
            return Err(Refused::new("gw.AppKeyNotFound", "AppKey is not found"));
        }
        let protocol = call.protocol.as_str();
        let api = found
            .filter(|api| protocol == "param2" || (protocol == "http" && *api == Api::Token))
            .ok_or_else(|| {
                let name = format!("{}:{}-{}", call.namespace, call.name, call.version);
                Refused::new("gw.APIUnsupported", format!("API is unsupported: {name}"))
            })?;
        if api != Api::Token {
            self.check_signature(api, call)?;
        }
        self.check_rate(api, now)?;
        if api.needs_token() && !self.tokens.is_good(call.param("access_token").unwrap_or(""), now)
        {
            let message = "Request need user authorized".to_owned();
            return Err(Refused { status: 401, code: "401".into(), message });
        }
        if self.settings.gateway.declined.contains(&api) {
            return Err(Refused::new("gw.APIACLDecline", "AppKey is not allowed(acl)"));
        }
        match api.missing(|name| call.param(name).is_some()) {
            Some(name) => Err(Refused::new("gw.ParamMissing", format!("{name} is required"))),
            None => Ok(api),
        }
    }

    fn check_signature(&mut self, api: Api, call: &Call) -> Result<(), Refused> {
        let secret = &self.settings.gateway.app_secret;
        let Some(given) = &call.signature else {
            return Err(Refused::new("gw.SignatureMissing", "Signature is missing"));
        };
        match signature::check(secret, &call.url_path, &call.params, given) {
            Some(Sorting::Joined) => Ok(()),
            Some(Sorting::Key) => {
                self.tally.count(api).sorted_by_key += 1;
                Ok(())
            }
            None => Err(Refused::new("gw.SignatureInvalid", "Invalid signature")),
        }
    }

    fn check_rate(&mut self, api: Api, now: Timestamp) -> Result<(), Refused> {
        let second = now.as_micros().div_euclid(1_000_000);
        let limits = [
            (None, self.settings.gateway.calls_per_second),
            (Some(api), self.settings.conduct(api).calls_per_second),
        ];
        for (key, limit) in limits {
            let rate = self.rates.entry(key).or_default();
            *rate = if rate.0 == second { (second, rate.1.saturating_add(1)) } else { (second, 1) };
            if limit > 0 && rate.1 > limit {
                let message = "App call exceeds limited frequency";
                return Err(Refused::new("gw.QosAppFrequencyLimit", message));
            }
        }
        Ok(())
    }

    fn perform(&mut self, api: Api, call: &Call, now: Timestamp) -> Reply {
        let seen = self.seen(api, now);
        let (shop, trade) = (&mut self.shop, &self.settings.trade);
        let answer = match api {
            Api::Product => wire::product::get(shop, trade.product_shape, call, seen),
            Api::Preview => wire::trade::preview(shop, trade.post_fee_fen, call, seen),
            Api::Create => wire::trade::create(shop, call, now),
            Api::View => wire::orders::view(shop, trade, call, seen),
            Api::List => wire::orders::list(shop, trade, call, seen),
            Api::Cancel => wire::trade::cancel(shop, call, now),
            Api::Pay => wire::trade::pay(shop, call, now),
            Api::Addresses => wire::logistics::addresses(),
            Api::Parcels => wire::logistics::parcels(shop, call),
            Api::Trace => wire::logistics::trace(shop, call),
            Api::Companies => wire::logistics::companies(),
            Api::Time => json!({ "result": wire::stamp(now) }),
            Api::TimeMillis => json!({ "result": now.as_micros().div_euclid(1_000) }),
            Api::Token => match self.tokens.give(&self.settings.gateway, call, now) {
                Ok(answer) => answer,
                Err(error) => return Reply::json(400, &error),
            },
        };
        Reply::json(200, &answer)
    }

    /// The instant whose state an answer of `api` tells.
    fn seen(&mut self, api: Api, now: Timestamp) -> Timestamp {
        let conduct = self.settings.conduct(api);
        let from = self.frozen.get(&api).copied().unwrap_or(now).min(now);
        from - conduct.lag - self.faults.up_to(conduct.lag_jitter)
    }

    fn freeze(&mut self, now: Timestamp) {
        for api in Api::ALL {
            if self.settings.conduct(api).frozen {
                self.frozen.entry(api).or_insert(now);
            } else {
                self.frozen.remove(&api);
            }
        }
    }

    fn error(&mut self, refused: &Refused) -> Reply {
        self.requests += 1;
        let body = json!({
            "error_code": refused.code,
            "error_message": refused.message,
            "exception": refused.message,
            "request_id": format!("sim-{}", self.requests),
        });
        Reply::json(refused.status, &body)
    }
}
