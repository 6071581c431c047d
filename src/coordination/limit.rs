//! The limit of requests for each API key within this process.
//!
//! What must hold: as in Redis, a key may send a second's worth of requests at once, and then one
//! each `1 / rate` seconds.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::Wait;
use super::ticks::Ticks;

type Limiter = RateLimiter<Arc<str>, HashMapStateStore<Arc<str>>, Ticks, NoOpMiddleware<Duration>>;

/// As many keys as are configured; none are forgotten.
pub(super) struct Limit {
    limited: Option<(NonZeroU32, Limiter)>,
    ticks: Ticks,
}

impl Limit {
    /// 0 = no limit.
    pub fn new(per_second: u32, ticks: Ticks) -> Limit {
        let limited = NonZeroU32::new(per_second).map(|rate| {
            let quota = Quota::per_second(rate);
            (rate, RateLimiter::hashmap_with_clock(quota, ticks.clone()))
        });
        Limit { limited, ticks }
    }

    pub fn rate(&self) -> Option<NonZeroU32> {
        self.limited.as_ref().map(|(rate, _)| *rate)
    }

    /// # Errors
    /// How long until the key's next request.
    pub fn check(&self, key: &Arc<str>) -> Result<(), Wait> {
        let Some((_, limiter)) = &self.limited else { return Ok(()) };
        limiter.check_key(key).map_err(|until| Wait(until.wait_time_from(self.ticks.now())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Span, Timestamp};

    #[test]
    fn a_second_s_worth_at_once_then_one_by_one_for_each_key() {
        let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
        let limit = Limit::new(4, Ticks::new(&clock));
        let (shop, desk): (Arc<str>, Arc<str>) = ("shop".into(), "desk".into());
        let admitted =
            |key: &Arc<str>, n: usize| (0..n).filter(|_| limit.check(key).is_ok()).count();
        assert_eq!(admitted(&shop, 6), 4);
        assert_eq!(limit.check(&shop), Err(Wait(Duration::from_millis(250))));
        assert_eq!(admitted(&desk, 1), 1);
        clock.advance(Span::millis(250));
        assert_eq!(admitted(&shop, 2), 1);
        clock.advance(Span::secs(60));
        assert_eq!(admitted(&shop, 6), 4);
    }

    #[test]
    fn zero_is_no_limit() {
        let clock = Clock::manual(Timestamp::from_secs(0));
        let limit = Limit::new(0, Ticks::new(&clock));
        assert_eq!(limit.rate(), None);
        assert!((0..1_000).all(|_| limit.check(&"shop".into()).is_ok()));
    }
}
