//! Time that only goes forward, for ages and waits within this process: the machine's monotonic
//! clock, or a test's hand where the daemon's clock is in it.

use std::time::{Duration, Instant};

use crate::clock::Clock;

/// Beyond this governor's arithmetic would end.
const MOST: Duration = Duration::from_secs(200 * 365 * 86_400);

#[derive(Clone)]
pub(super) struct Ticks {
    clock: Clock,
    started: Instant,
}

impl Ticks {
    pub fn new(clock: &Clock) -> Ticks {
        Ticks { clock: clock.clone(), started: Instant::now() }
    }

    /// Since some start.
    pub fn now(&self) -> Duration {
        let since = if self.clock.is_manual() {
            let micros = u64::try_from(self.clock.now().as_micros()).unwrap_or(0);
            Duration::from_micros(micros)
        } else {
            self.started.elapsed()
        };
        since.min(MOST)
    }

    /// How long ago that was. By a clock that stands in a test's hand it was just now.
    pub fn age(&self, at: Instant) -> Duration {
        if self.clock.is_manual() { Duration::ZERO } else { at.elapsed() }
    }
}

impl governor::clock::Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Ticks::now(self)
    }
}
