//! What can go wrong with a call: scripted for the next calls of one kind, or by chance.
//!
//! What must hold: a script comes before chance and is used up in order; chance is drawn from a
//! seeded generator of its own, so that the same calls in the same order fail alike.

use std::collections::{BTreeMap, VecDeque};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::api::Api;
use super::length;
use super::settings::{Chance, Error};
use crate::clock::Span;

/// One fault. `effect` says whether the call did what it was asked to before its answer was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// No answer for `gateway.hang`, then the connection is cut.
    NeverAnswer {
        #[serde(default)]
        effect: bool,
    },
    /// Never answered, and the effect takes place `after` the call, when its caller has given up.
    Late {
        #[serde(with = "length")]
        after: Span,
    },
    /// The connection is cut before any answer.
    Cut {
        #[serde(default)]
        effect: bool,
    },
    /// The connection is cut in the middle of the answer.
    Torn {
        #[serde(default)]
        effect: bool,
    },
    /// An HTTP status with a page of a proxy: 500, 502, 503, 504.
    Http {
        status: u16,
        #[serde(default)]
        effect: bool,
    },
    /// HTTP 200 with something that is not JSON.
    Garbage {
        #[serde(default)]
        effect: bool,
    },
    /// An error of the gateway: HTTP `status` (400 unless said) and its JSON.
    Gateway {
        code: String,
        message: String,
        #[serde(default = "bad_request")]
        status: u16,
        #[serde(default)]
        effect: bool,
    },
    /// `success` false in the call's own envelope; with `effect` it is a lie, such as the platform
    /// tells of payments that time out inside.
    Refuse {
        code: String,
        message: String,
        #[serde(default)]
        effect: bool,
    },
    /// The true answer, `by` later than otherwise.
    Slow {
        #[serde(with = "length")]
        by: Span,
    },
}

const fn bad_request() -> u16 {
    400
}

impl Fault {
    /// The effect happens, the answer never comes.
    pub const LOST: Fault = Fault::NeverAnswer { effect: true };
    /// Nothing happens, and nothing is answered.
    pub const TIMED_OUT: Fault = Fault::NeverAnswer { effect: false };

    /// The platform's rate limit.
    pub fn throttled() -> Fault {
        Fault::Gateway {
            code: "gw.QosAppFrequencyLimit".into(),
            message: "App call exceeds limited frequency".into(),
            status: 400,
            effect: false,
        }
    }

    /// An error that nobody has documented.
    pub fn unknown_error() -> Fault {
        Fault::Refuse {
            code: "SYSTEM_ERROR".into(),
            message: "inventory service 0 nodes available".into(),
            effect: false,
        }
    }

    /// The business code for want of stock, whatever the stock is.
    pub fn out_of_stock() -> Fault {
        Fault::Refuse {
            code: "500_004".into(),
            message: "库存不足，请核实库存后订购。".into(),
            effect: false,
        }
    }

    /// Whether the call does what it was asked to, at once.
    pub const fn has_effect(&self) -> bool {
        match self {
            Fault::NeverAnswer { effect }
            | Fault::Cut { effect }
            | Fault::Torn { effect }
            | Fault::Http { effect, .. }
            | Fault::Garbage { effect }
            | Fault::Gateway { effect, .. }
            | Fault::Refuse { effect, .. } => *effect,
            Fault::Slow { .. } => true,
            Fault::Late { .. } => false,
        }
    }

    /// Whether a call of `api` can meet it: only a create can land late, and a status is one of HTTP.
    ///
    /// # Errors
    /// Says why not.
    pub fn check(&self, api: Api) -> Result<(), Error> {
        match self {
            Fault::Late { .. } if api != Api::Create => {
                Err(Error::Invalid("the fault `late` is only of `create`".into()))
            }
            Fault::Http { status, .. } | Fault::Gateway { status, .. }
                if !(200..=599).contains(status) =>
            {
                Err(Error::Invalid(format!("{status} is no HTTP status to answer with")))
            }
            _ => Ok(()),
        }
    }

    /// The name in settings, for counts.
    pub const fn kind(&self) -> &'static str {
        match self {
            Fault::NeverAnswer { .. } => "never_answer",
            Fault::Late { .. } => "late",
            Fault::Cut { .. } => "cut",
            Fault::Torn { .. } => "torn",
            Fault::Http { .. } => "http",
            Fault::Garbage { .. } => "garbage",
            Fault::Gateway { .. } => "gateway",
            Fault::Refuse { .. } => "refuse",
            Fault::Slow { .. } => "slow",
        }
    }
}

/// What was scripted, and the dice.
#[derive(Debug)]
pub struct Faults {
    scripted: BTreeMap<Api, VecDeque<Fault>>,
    dice: StdRng,
}

impl Faults {
    pub fn seeded(seed: u64) -> Faults {
        Faults { scripted: BTreeMap::new(), dice: StdRng::seed_from_u64(seed) }
    }

    /// Puts a fault behind those already scripted for `api`.
    pub fn script(&mut self, api: Api, fault: Fault) {
        self.scripted.entry(api).or_default().push_back(fault);
    }

    /// What is still to come.
    pub fn scripted(&self) -> &BTreeMap<Api, VecDeque<Fault>> {
        &self.scripted
    }

    /// Forgets every script.
    pub fn clear(&mut self) {
        self.scripted.clear();
    }

    /// The fault of the next call of `api`: the next of its script, else the first of `chances`
    /// that comes up.
    pub fn next<'a>(
        &mut self,
        api: Api,
        chances: impl Iterator<Item = &'a Chance>,
    ) -> Option<Fault> {
        if let Some(fault) = self.scripted.get_mut(&api).and_then(VecDeque::pop_front) {
            return Some(fault);
        }
        for chance in chances {
            if self.dice.random::<f64>() < chance.chance {
                return Some(chance.fault.clone());
            }
        }
        None
    }

    /// A length between nothing and `most`, for jitter.
    pub fn up_to(&mut self, most: Span) -> Span {
        Span(self.dice.random_range(0..=most.as_micros().max(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_comes_first_and_in_order() {
        let always = [Chance { chance: 1.0, fault: Fault::Garbage { effect: false } }];
        let mut faults = Faults::seeded(1);
        faults.script(Api::Create, Fault::LOST);
        faults.script(Api::Create, Fault::throttled());
        assert_eq!(faults.next(Api::View, [].iter()), None);
        assert_eq!(faults.next(Api::Create, always.iter()), Some(Fault::LOST));
        assert_eq!(faults.next(Api::Create, always.iter()), Some(Fault::throttled()));
        let by_chance = faults.next(Api::Create, always.iter());
        assert_eq!(by_chance, Some(Fault::Garbage { effect: false }));
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let half = [Chance { chance: 0.5, fault: Fault::LOST }];
        let run = |seed| -> Vec<bool> {
            let mut faults = Faults::seeded(seed);
            (0..200).map(|_| faults.next(Api::List, half.iter()).is_some()).collect()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let hits = run(7).into_iter().filter(|hit| *hit).count();
        assert!((60..140).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn faults_are_written_by_kind() {
        let read = |text: &str| serde_json::from_str::<Fault>(text).map_err(|e| e.to_string());
        assert_eq!(read(r#"{"kind":"never_answer","effect":true}"#), Ok(Fault::LOST));
        let late = Fault::Late { after: Span::secs(30) };
        assert_eq!(read(r#"{"kind":"late","after":"30s"}"#), Ok(late));
        assert!(read(r#"{"kind":"cut","efect":true}"#).unwrap_err().contains("`efect`"));
        assert!(read(r#"{"kind":"burn"}"#).unwrap_err().contains("`burn`"));
    }
}
