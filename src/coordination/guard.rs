//! The guard against an order that is sent twice: a customer's impatient second click, or a
//! storefront that numbers anew what it repeats.
//!
//! What must hold: only an order that was *accepted* stands in the way of another, for [`GUARD`];
//! the same external id is never a duplicate of itself; an order that names no customer is never
//! compared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::recent::{MOST, Recent};
use super::ticks::Ticks;
use super::{GUARD, Wait};
use crate::domain::command::Placement;

/// What two orders of one customer have in common when they are the same.
pub(super) type Fingerprint = [u8; 32];

/// An order that names its customer, as the guard sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    fingerprint: Fingerprint,
    external_id: Arc<str>,
}

impl Submission {
    /// `None` when the order names no customer: nobody can tell whose it is. Customers are the
    /// channel's; lines are the same in any order.
    pub fn of(placement: &Placement) -> Option<Submission> {
        let customer = placement.customer.as_ref()?;
        let named = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (id, email) = (named(&customer.id), named(&customer.email));
        if id.is_none() && email.is_none() {
            return None;
        }
        let mut lines: Vec<_> =
            placement.lines.iter().map(|l| (l.sku.as_str(), l.quantity, l.unit_price)).collect();
        lines.sort_unstable();
        let same = json!([placement.channel, id, email, placement.currency, lines]).to_string();
        Some(Submission {
            fingerprint: Sha256::digest(same.as_bytes()).into(),
            external_id: placement.external_id.as_str().into(),
        })
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) fn external_id(&self) -> &str {
        &self.external_id
    }
}

/// What this process has accepted lately.
pub(super) struct Guard {
    accepted: Mutex<Recent<Fingerprint, (Arc<str>, Duration)>>,
    ticks: Ticks,
}

impl Guard {
    pub fn new(ticks: Ticks) -> Guard {
        Guard { accepted: Mutex::new(Recent::new(MOST)), ticks }
    }

    fn accepted(&self) -> MutexGuard<'_, Recent<Fingerprint, (Arc<str>, Duration)>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long until `submission` is no duplicate; `None` when it is none.
    pub fn seen(&self, submission: &Submission) -> Option<Wait> {
        let now = self.ticks.now();
        let accepted = self.accepted();
        let (external_id, at) = accepted.get(&submission.fingerprint)?;
        let left = (*at + GUARD).checked_sub(now).filter(|left| !left.is_zero())?;
        (*external_id != submission.external_id).then_some(Wait(left))
    }

    pub fn remember(&self, submission: &Submission) {
        let accepted = (Arc::clone(&submission.external_id), self.ticks.now());
        self.accepted().put(submission.fingerprint, accepted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Span, Timestamp};
    use crate::domain::command::PlacementLine;
    use crate::domain::order::{Customer, ShortPolicy};

    fn placement(external_id: &str, customer: Option<(&str, &str)>) -> Placement {
        let line = |sku: &str| PlacementLine { sku: sku.into(), quantity: 1, unit_price: 1_999 };
        let text = |text: &str| Some(text.to_owned());
        Placement {
            id: external_id.into(),
            channel: "web".into(),
            external_id: external_id.into(),
            content_hash: String::new(),
            idempotency: None,
            currency: "USD".into(),
            lines: vec![line("A"), line("B")],
            shipping: 0,
            discount: 0,
            customer: customer.map(|(id, email)| Customer { id: text(id), email: text(email) }),
            ship_to: None,
            payment: None,
            short_policy: ShortPolicy::CancelOrder,
        }
    }

    fn submission(external_id: &str) -> Submission {
        Submission::of(&placement(external_id, Some(("c-17", "")))).expect("names a customer")
    }

    #[test]
    fn customer_channel_and_lines_make_orders_the_same() {
        let named = placement("W-1", Some(("c-17", "a@b.example")));
        let same = Submission::of(&named).expect("named").fingerprint;
        let of = |change: &dyn Fn(&mut Placement)| {
            let mut other = named.clone();
            change(&mut other);
            Submission::of(&other).expect("named").fingerprint
        };
        assert_eq!(of(&|p| p.external_id = "W-2".into()), same);
        assert_eq!(of(&|p| p.shipping = 400), same);
        assert_eq!(of(&|p| p.lines.reverse()), same);
        assert_ne!(of(&|p| p.channel = "app".into()), same);
        assert_ne!(
            of(&|p| p.customer = Some(Customer { id: None, email: Some("x".into()) })),
            same
        );
        assert_ne!(of(&|p| p.lines[0].quantity = 2), same);
        assert_ne!(of(&|p| p.lines.truncate(1)), same);
        assert_eq!(Submission::of(&placement("W-1", None)), None);
        assert_eq!(Submission::of(&placement("W-1", Some(("", " ")))), None);
    }

    #[test]
    fn an_accepted_order_stands_in_the_way_for_three_seconds() {
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        let guard = Guard::new(Ticks::new(&clock));
        assert_eq!(guard.seen(&submission("W-1")), None);
        guard.remember(&submission("W-1"));
        assert_eq!(guard.seen(&submission("W-1")), None);
        assert_eq!(guard.seen(&submission("W-2")), Some(Wait(Duration::from_secs(3))));
        clock.advance(Span::millis(2_999));
        assert_eq!(guard.seen(&submission("W-2")), Some(Wait(Duration::from_millis(1))));
        clock.advance(Span::millis(1));
        assert_eq!(guard.seen(&submission("W-2")), None);
    }
}
