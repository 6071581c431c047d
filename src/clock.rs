//! Time as a value. Everything that needs the time is given a [`Clock`]; nothing else may read one
//! (`clippy.toml` bans the rest). A [`Timestamp`] is microseconds since the Unix epoch, UTC, and is
//! what the tables store; a [`Span`] is a length of time in microseconds.
//!
//! Replicas share one clock, the database server's: each reads it now and then ([`Clock::follow`])
//! and counts on from there by its monotonic clock, so that machines whose clocks differ agree.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// A length of time in microseconds, possibly negative. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub i64);

impl Span {
    pub const ZERO: Span = Span(0);
    pub const fn micros(n: i64) -> Span {
        Span(n)
    }
    pub const fn millis(n: i64) -> Span {
        Span(n.saturating_mul(1_000))
    }
    pub const fn secs(n: i64) -> Span {
        Span(n.saturating_mul(1_000_000))
    }
    pub const fn minutes(n: i64) -> Span {
        Span::secs(n.saturating_mul(60))
    }
    pub const fn hours(n: i64) -> Span {
        Span::minutes(n.saturating_mul(60))
    }
    pub const fn days(n: i64) -> Span {
        Span::hours(n.saturating_mul(24))
    }
    pub const fn as_micros(self) -> i64 {
        self.0
    }
    /// Whole seconds, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
    /// `self × num / den`, rounded up, saturating.
    pub fn times(self, num: i64, den: i64) -> Span {
        let wide = i128::from(self.0) * i128::from(num);
        let den = i128::from(den.max(1));
        let up = wide.div_euclid(den) + i128::from(wide.rem_euclid(den) != 0);
        Span(i64::try_from(up).unwrap_or(if up > 0 { i64::MAX } else { i64::MIN }))
    }
    /// As a std duration; negative lengths become zero.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }
    pub fn from_std(d: std::time::Duration) -> Span {
        Span(i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Timestamp {
    /// The first whole second at or after this instant, in seconds since the epoch.
    pub fn ceil_secs(self) -> i64 {
        self.0.div_euclid(1_000_000) + i64::from(self.0.rem_euclid(1_000_000) != 0)
    }
    pub const fn from_secs(n: i64) -> Timestamp {
        Timestamp(n.saturating_mul(1_000_000))
    }
    pub const fn as_micros(self) -> i64 {
        self.0
    }
    /// Time since `earlier` (negative when `earlier` is later).
    pub const fn since(self, earlier: Timestamp) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// RFC 3339, UTC, milliseconds: `2026-11-30T08:20:15.123Z`.
    pub fn rfc3339(self) -> String {
        match chrono::DateTime::from_timestamp_micros(self.0) {
            Some(t) => t.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            None => format!("{}us", self.0),
        }
    }
    /// Reads RFC 3339 with any offset.
    ///
    /// # Errors
    /// When the text is not RFC 3339 or does not fit.
    pub fn parse_rfc3339(text: &str) -> Result<Timestamp, String> {
        chrono::DateTime::parse_from_rfc3339(text)
            .map(|t| Timestamp(t.timestamp_micros()))
            .map_err(|e| format!("not an RFC 3339 time: {e}"))
    }
}

impl Add<Span> for Timestamp {
    type Output = Timestamp;
    fn add(self, rhs: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(rhs.0))
    }
}
impl Sub<Span> for Timestamp {
    type Output = Timestamp;
    fn sub(self, rhs: Span) -> Timestamp {
        Timestamp(self.0.saturating_sub(rhs.0))
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, rhs: Span) -> Span {
        Span(self.0.saturating_add(rhs.0))
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, rhs: Span) -> Span {
        Span(self.0.saturating_sub(rhs.0))
    }
}
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// Where the time comes from: the machine, a server that several machines share, or a test's hand.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// Another's clock, as it was last told, counted on from there.
    Followed(Arc<Followed>),
    /// Moved by a test; microseconds since the epoch.
    Manual(Arc<AtomicI64>),
}

/// A clock that was read once in a while.
#[derive(Debug)]
pub struct Followed {
    /// Where the monotonic clock is counted from.
    since: Instant,
    /// What the other clock showed then, microseconds since the epoch.
    at: AtomicI64,
}

impl Followed {
    fn elapsed(&self) -> Span {
        Span::from_std(self.since.elapsed())
    }
}

impl Clock {
    /// A clock that shows `now` and counts on.
    pub fn followed(now: Timestamp) -> Clock {
        Clock::Followed(Arc::new(Followed { since: Instant::now(), at: AtomicI64::new(now.0) }))
    }
    /// The other clock shows `now`. Only a followed clock takes it.
    pub fn follow(&self, now: Timestamp) {
        if let Clock::Followed(other) = self {
            other.at.store((now - other.elapsed()).0, Ordering::SeqCst);
        }
    }
    /// A manual clock that starts at `at`.
    pub fn manual(at: Timestamp) -> Clock {
        Clock::Manual(Arc::new(AtomicI64::new(at.0)))
    }
    #[allow(clippy::disallowed_methods)] // the one place that reads the machine's clock
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => Timestamp(chrono::Utc::now().timestamp_micros()),
            Clock::Followed(other) => Timestamp(other.at.load(Ordering::SeqCst)) + other.elapsed(),
            Clock::Manual(at) => Timestamp(at.load(Ordering::SeqCst)),
        }
    }
    /// Moves a manual clock forward; any other is left alone.
    pub fn advance(&self, by: Span) {
        if let Clock::Manual(at) = self {
            at.fetch_add(by.0, Ordering::SeqCst);
        }
    }
    pub fn is_manual(&self) -> bool {
        matches!(self, Clock::Manual(_))
    }
}
