//! What was called: counts for each call, and the last calls one by one.

use std::collections::{BTreeMap, VecDeque};

use serde::{Serialize, Serializer};

use super::api::Api;
use super::transport::Call;
use crate::clock::Timestamp;

const KEPT: usize = 500;
/// Parameters that say which thing a call was about.
const TELLING: [&str; 6] = ["offerId", "openOfferId", "outOrderId", "orderId", "tradeID", "page"];

/// Counts of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All that came, refused ones included.
    pub calls: u64,
    /// Refused by the gateway: signature, token, rights, rate, parameters.
    pub refused: u64,
    /// Met by a fault, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Signed in the order of keys where that differs from the official SDKs' order.
    pub sorted_by_key: u64,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// RFC 3339 in JSON.
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub api: Api,
    /// Which offer, order or reference it was about.
    pub about: BTreeMap<&'static str, String>,
    /// `answered`, the gateway's error code, or the kind of the fault.
    pub outcome: String,
}

fn rfc3339<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&at.rfc3339())
}

/// All counts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    pub counts: BTreeMap<Api, Count>,
    /// Oldest first, the last 500.
    pub last: VecDeque<Record>,
}

impl Tally {
    pub fn count(&mut self, api: Api) -> &mut Count {
        self.counts.entry(api).or_default()
    }

    pub fn record(&mut self, at: Timestamp, api: Api, call: &Call, outcome: &str) {
        let about = TELLING
            .into_iter()
            .filter_map(|name| Some((name, call.param(name)?.to_owned())))
            .collect();
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Record { at, api, about, outcome: outcome.to_owned() });
    }
}
