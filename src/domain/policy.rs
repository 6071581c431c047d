//! The settings that rules depend on, as plain values.

use std::collections::BTreeMap;

use super::lock_ttl;
use super::names::SourceId;
use super::sku::{Class, Source};
use super::stock::Level;
use super::supply::Address;
use crate::clock::Span;

/// A supplier's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub sync_interval: Span,
    /// How much older a figure can be than its stated reading time, or else than our request.
    pub declared_lag: Span,
    /// The supplier's figure falls at order (and somebody has checked it); otherwise at payment.
    pub counts_at_order: bool,
    /// After the event that counts, before a snapshot surely contains it.
    pub settle_margin: Span,
    /// After a lost create, before "not there" is believed.
    pub lookup_settle: Span,
    /// A placed purchase that is unpaid for longer alerts.
    pub unpaid_deadline: Span,
    /// Units never sold, for SKUs that state none.
    pub buffer: i64,
    /// A forwarder's address instead of the customer's.
    pub deliver_to: Option<Address>,
    /// Longest time that one call to the supplier takes.
    pub request_timeout: Span,
    /// The currency of its prices.
    pub currency: String,
}

impl Terms {
    /// How often a placed purchase is read back: half the sync interval, 1 s to 5 min.
    pub fn poll_every(&self) -> Span {
        self.sync_interval.times(1, 2).clamp(Span::secs(1), Span::minutes(5))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub ttl_normal: Span,
    pub ttl_hot: Span,
    pub ttl_flash: Span,
    pub payment_grace: Span,
    pub confirm_delay: Span,
    pub max_answer_age: Span,
    pub retry_deadline: Span,
    pub attention_deadline: Span,
    pub ship_deadline: Span,
    pub complete_after: Span,
    pub low: i64,
    pub recover: i64,
    pub remind_every: Span,
    /// Refunds are made by a provider (webhook), not by hand.
    pub refunds_by_provider: bool,
    pub suppliers: BTreeMap<SourceId, Terms>,
}

/// Those of a 1688 supplier whose configuration says nothing but how to reach it.
impl Default for Terms {
    fn default() -> Terms {
        Terms {
            sync_interval: Span::minutes(10),
            declared_lag: Span::minutes(1),
            counts_at_order: false,
            settle_margin: Span::secs(60),
            lookup_settle: Span::minutes(2),
            unpaid_deadline: Span::hours(8),
            buffer: 0,
            deliver_to: None,
            request_timeout: Span::secs(10),
            currency: "CNY".into(),
        }
    }
}

/// That of a configuration that says nothing: no supplier, and refunds by hand.
impl Default for Policy {
    fn default() -> Policy {
        Policy {
            ttl_normal: Span::minutes(30),
            ttl_hot: Span::minutes(12),
            ttl_flash: Span::minutes(5),
            payment_grace: Span::secs(60),
            confirm_delay: Span::minutes(5),
            max_answer_age: Span::secs(60),
            retry_deadline: Span::hours(2),
            attention_deadline: Span::hours(24),
            ship_deadline: Span::days(7),
            complete_after: Span::days(14),
            low: 5,
            recover: 8,
            remind_every: Span::hours(24),
            refunds_by_provider: false,
            suppliers: BTreeMap::new(),
        }
    }
}

/// How long an idempotency key is kept where it is not kept for ever.
pub const KEYS_KEPT: Span = Span::hours(24);
/// How long an alert is kept once it is closed.
pub const ALERTS_KEPT: Span = Span::days(90);
/// An unanswered refund alerts after this.
pub const REFUND_ALERT_AFTER: Span = Span::hours(24);
/// In attention the supplier is still asked this often.
pub const ATTENTION_ASK_EVERY: Span = Span::minutes(10);
/// A shipped purchase is read back for so long at most: many buyers never say that they received.
pub const READ_AFTER_SHIPPED: Span = Span::days(30);
/// A deadline noticed so much after it passed while nobody was there to ask.
pub const NOTICED_LATE: Span = Span::minutes(2);
/// What would be judged by old answers is asked about once more, and judged after this.
pub const ONCE_MORE: Span = Span::minutes(10);
/// Alerts that stay open are repeated this often where no setting says otherwise.
pub const REPEAT_EVERY: Span = Span::hours(24);
/// A reference with a lost create is looked up again this long after.
pub const LATE_LOOKUPS: [Span; 4] =
    [Span::minutes(10), Span::hours(1), Span::hours(6), Span::hours(24)];
/// The late look-up (index into [`LATE_LOOKUPS`]) until which a lost create's units may come back.
pub const LOST_UNTIL: usize = 1;

impl Policy {
    pub fn ttl(&self, class: Class) -> Span {
        match class {
            Class::Normal => self.ttl_normal,
            Class::Hot => self.ttl_hot,
            Class::Flash => self.ttl_flash,
        }
    }

    /// The units of a source that are never sold.
    pub fn buffer(&self, source: &Source) -> i64 {
        source.buffer.unwrap_or_else(|| self.suppliers.get(&source.source).map_or(0, |t| t.buffer))
    }

    /// After which age a level takes no new orders; `None` for a warehouse.
    pub fn stale_after(&self, level: &Level) -> Option<Span> {
        let terms = self.suppliers.get(&level.source)?;
        level.item.as_ref()?;
        Some(lock_ttl::stale_after(terms, lock_ttl::lag(terms, &level.lag_samples)))
    }
}
