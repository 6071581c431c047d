//! The simulator's settings: what it sells, whom it knows, how late and how faulty it is.
//! `config/simulator.toml` documents every key with its default and is equal to `Settings::default`.
//!
//! What must hold: an unknown key is refused by name; what passes `validate` can be simulated
//! without a further check. Money is in fen, lengths of time are text (`length`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::api::Api;
use super::faults::Fault;
use super::length;
use super::offers::{self, Offer};
use crate::clock::Span;
use crate::domain::supply::Item;

/// The longest lag that stock figures are kept for.
pub const MAX_LAG: Span = Span::days(1);

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Seed of everything random: chances, jitter and the other buyers.
    pub seed: u64,
    pub gateway: Gateway,
    pub trade: Trade,
    /// How each call behaves; a call not named here answers at once, truly and without fault.
    pub apis: BTreeMap<Api, Conduct>,
    /// Faults that any call may have.
    pub chances: Vec<Chance>,
    /// Other people who buy the same goods.
    pub buyers: Vec<Buyers>,
    pub offers: Vec<Offer>,
}

/// The application that may call, and the gateway's own rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gateway {
    pub app_key: String,
    pub app_secret: String,
    pub access_token: String,
    pub refresh_token: String,
    /// How long an access token lives; `never` ends by itself never (the real ones live 10 h).
    #[serde(with = "length::or_never")]
    pub access_token_life: Option<Span>,
    /// Calls a second that the application may make, over all calls; 0 is no limit.
    pub calls_per_second: u32,
    /// How long a call that is never answered is held before its connection is cut.
    #[serde(with = "length")]
    pub hang: Span,
    /// Calls that the application has no right to (`gw.APIACLDecline`).
    pub declined: BTreeSet<Api>,
}

/// How orders live, and where the platform's behaviour is unknown, which way it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trade {
    /// When the true stock falls.
    pub stock_counts_at: CountsAt,
    /// What a second create with a known `outOrderId` does.
    pub repeated_reference: Repeated,
    /// How a create says that goods are short.
    pub shortage: Shortage,
    /// Carriage of every order, fen.
    pub post_fee_fen: i64,
    /// An order younger than this cannot be closed by the buyer (`CLOSE_ORDER_TOO_FAST`).
    #[serde(with = "length")]
    pub close_not_before: Span,
    /// After ordering, a person pays on the supplier's site.
    #[serde(with = "length::or_never")]
    pub auto_pay_after: Option<Span>,
    /// After ordering, an unpaid order is closed by the system.
    #[serde(with = "length::or_never")]
    pub unpaid_close_after: Option<Span>,
    /// After payment.
    #[serde(with = "length::or_never")]
    pub ship_after: Option<Span>,
    /// After shipping.
    #[serde(with = "length::or_never")]
    pub receive_after: Option<Span>,
    /// After receiving: from `confirm_goods` to `success`.
    #[serde(with = "length::or_never")]
    pub complete_after: Option<Span>,
    /// The order list does as if `outOrderId` had not been sent.
    pub list_ignores_reference: bool,
    /// Where an order shows its `outOrderId`.
    pub reference_shown_in: ReferenceIn,
    /// How `productInfo` names its parts.
    pub product_shape: ProductShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountsAt {
    Order,
    Payment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeated {
    /// The first order is answered again.
    SameOrder,
    /// Another order is made.
    SecondOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortage {
    /// Nothing is made; `code` is `500_004`.
    Code,
    /// Nothing is made; the short lines are in `failedOfferList`.
    Lines,
    /// An order of the other lines is made; the short ones are in `failedOfferList`.
    LeaveOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceIn {
    BaseInfo,
    ExtAttributes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProductShape {
    /// `productSkuInfos`, `productSaleInfo`: as a public client of the distribution call reads it.
    Fenxiao,
    /// `skuInfos`, `saleInfo`: as the other product calls have it.
    Classic,
}

/// How one call behaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conduct {
    /// The answer tells the state as it was this long ago (product, preview, view, list).
    #[serde(with = "length")]
    pub lag: Span,
    /// Added to `lag`, drawn anew for each answer, between nothing and this.
    #[serde(with = "length")]
    pub lag_jitter: Span,
    /// The answers stand still at the moment when this was switched on.
    pub frozen: bool,
    /// The answer is sent this long after its effect.
    #[serde(with = "length")]
    pub latency: Span,
    /// Calls a second; 0 is no limit.
    pub calls_per_second: u32,
    /// Faults that this call may have.
    pub chances: Vec<Chance>,
}

/// A fault and how often it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chance {
    /// Between 0 and 1.
    pub chance: f64,
    pub fault: Fault,
}

/// Other people who buy one item, at random moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buyers {
    pub offer_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_id: Option<String>,
    /// Purchases a second, on average; at most 1000.
    pub per_second: f64,
    /// Units of one purchase.
    #[serde(default = "one")]
    pub units: i64,
}

const fn one() -> i64 {
    1
}

impl Buyers {
    pub fn item(&self) -> Item {
        Item { offer_id: self.offer_id.clone(), spec_id: self.spec_id.clone() }
    }
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path}: {source}")]
    Toml { path: String, source: Box<toml::de::Error> },
    #[error("{0}")]
    Invalid(String),
}

impl Settings {
    /// Reads and checks a TOML file.
    ///
    /// # Errors
    /// When the file cannot be read, has an unknown key, or a value cannot be simulated.
    pub fn load(path: &Path) -> Result<Settings, Error> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: shown.clone(), source })?;
        Settings::parse(&text, &shown)
    }

    /// Reads and checks TOML text; `name` is what errors call it.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn parse(text: &str, name: &str) -> Result<Settings, Error> {
        let settings: Settings = toml::from_str(text)
            .map_err(|e| Error::Toml { path: name.to_owned(), source: Box::new(e) })?;
        settings.validate()?;
        Ok(settings)
    }

    /// For tests: the same goods and application, a free port, and nothing that is late, limited,
    /// faulty or happens by itself.
    pub fn quiet() -> Settings {
        let lively = Settings::default();
        Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            gateway: Gateway { calls_per_second: 0, ..lively.gateway },
            trade: Trade {
                auto_pay_after: None,
                unpaid_close_after: None,
                ship_after: None,
                receive_after: None,
                complete_after: None,
                ..lively.trade
            },
            apis: BTreeMap::new(),
            chances: Vec::new(),
            buyers: Vec::new(),
            ..lively
        }
    }

    /// How `api` behaves; the default when it is not named.
    pub fn conduct(&self, api: Api) -> Conduct {
        self.apis.get(&api).cloned().unwrap_or_default()
    }

    /// For building settings by hand.
    pub fn conduct_mut(&mut self, api: Api) -> &mut Conduct {
        self.apis.entry(api).or_default()
    }

    /// Whether all of it can be simulated.
    ///
    /// # Errors
    /// Names the first key that cannot.
    pub fn validate(&self) -> Result<(), Error> {
        offers::validate(&self.offers).map_err(Error::Invalid)?;
        if self.gateway.app_key.is_empty() || self.gateway.app_secret.is_empty() {
            return Err(Error::Invalid("gateway.app_key and app_secret must not be empty".into()));
        }
        if self.trade.post_fee_fen < 0 {
            return Err(Error::Invalid("trade.post_fee_fen must not be negative".into()));
        }
        self.validate_conduct()?;
        let shelves: BTreeSet<Item> = self.offers.iter().flat_map(Offer::items).collect();
        for buyers in &self.buyers {
            let item = buyers.item();
            if !shelves.contains(&item) {
                return Err(Error::Invalid(format!("buyers: no such item {item:?}")));
            }
            if !(buyers.per_second > 0.0 && buyers.per_second <= 1000.0) || buyers.units < 1 {
                let wrong = "buyers: per_second is above 0 and at most 1000, units at least 1";
                return Err(Error::Invalid(wrong.into()));
            }
        }
        Ok(())
    }

    fn validate_conduct(&self) -> Result<(), Error> {
        for (api, conduct) in &self.apis {
            let name = api.wire().1;
            let late = conduct.lag != Span::ZERO || conduct.lag_jitter != Span::ZERO;
            if (late || conduct.frozen) && !api.can_lag() {
                let wrong = format!("apis: {name} judges the true state, it cannot have a lag");
                return Err(Error::Invalid(wrong));
            }
            if conduct.lag + conduct.lag_jitter > MAX_LAG {
                return Err(Error::Invalid(format!("apis: the lag of {name} is above 1d")));
            }
            conduct.chances.iter().try_for_each(|chance| chance.fault.check(*api))?;
        }
        // A fault for all calls is met by those that can have it; `late` is only of creates.
        self.chances.iter().try_for_each(|chance| chance.fault.check(Api::Create))?;
        let own = self.apis.values().flat_map(|conduct| &conduct.chances);
        if own.chain(&self.chances).any(|c| !(0.0..=1.0).contains(&c.chance)) {
            return Err(Error::Invalid("a chance is between 0 and 1".into()));
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Settings {
        let product = Conduct { lag: Span::minutes(10), ..Conduct::default() };
        Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8688)),
            seed: 1688,
            gateway: Gateway::default(),
            trade: Trade::default(),
            apis: BTreeMap::from([(Api::Product, product)]),
            chances: Vec::new(),
            buyers: Vec::new(),
            offers: offers::examples(),
        }
    }
}

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway {
            app_key: "1000000".into(),
            app_secret: "test_app_secret_0123456789abcdef".into(),
            access_token: "tok-simple-0001".into(),
            refresh_token: "refresh-simple-0001".into(),
            access_token_life: None,
            calls_per_second: 10,
            hang: Span::minutes(1),
            declined: BTreeSet::new(),
        }
    }
}

impl Default for Trade {
    fn default() -> Trade {
        Trade {
            stock_counts_at: CountsAt::Payment,
            repeated_reference: Repeated::SameOrder,
            shortage: Shortage::Code,
            post_fee_fen: 800,
            close_not_before: Span::secs(10),
            auto_pay_after: Some(Span::minutes(1)),
            unpaid_close_after: Some(Span::hours(12)),
            ship_after: Some(Span::minutes(5)),
            receive_after: Some(Span::days(1)),
            complete_after: Some(Span::days(1)),
            list_ignores_reference: false,
            reference_shown_in: ReferenceIn::BaseInfo,
            product_shape: ProductShape::Fenxiao,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_file_is_the_default() {
        let file = include_str!("../../../config/simulator.toml");
        assert_eq!(Settings::parse(file, "config/simulator.toml").unwrap(), Settings::default());
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        for (text, name) in [
            ("lisen = 1", "lisen"),
            ("[gateway]\nsecret = 'x'", "secret"),
            ("[trade]\nautopay = '1m'", "autopay"),
            ("[apis.create]\nlatencies = '1s'", "latencies"),
            ("[apis.buy]\nlatency = '1s'", "buy"),
            ("[[chances]]\nchance = 1.0\nfault = { kind = 'cut', effects = true }", "effects"),
        ] {
            let error = Settings::parse(text, "test").unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        for (text, word) in [
            ("[apis.create]\nlag = '1m'", "fastCreateOrder"),
            ("[apis.product]\nlag = '25h'", "1d"),
            ("[[chances]]\nchance = 1.5\nfault = { kind = 'cut' }", "between 0 and 1"),
            ("[[buyers]]\noffer_id = '1'\nper_second = 1.0", "no such item"),
            ("[gateway]\napp_secret = ''", "app_secret"),
        ] {
            let error = Settings::parse(text, "test").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
