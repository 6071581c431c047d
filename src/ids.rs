//! Where ids come from: UUID v7 (RFC 9562, section 5.7) as 32 lower-case hexadecimal characters
//! without hyphens, so that they sort by time as text.
//!
//! What must hold: ids of one [`Ids`] strictly ascend, also when many share a millisecond or the
//! clock steps back. The time is a parameter; a seeded source gives the same ids for the same calls.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::clock::Timestamp;

/// Bits below the time: 12 in `rand_a`, 62 in `rand_b`. They count up within a millisecond.
const TAIL_BITS: u32 = 74;
const TAIL_MASK: u128 = (1 << TAIL_BITS) - 1;
/// The time field: milliseconds since the epoch, up to the year 10889.
const MILLIS_MASK: u128 = (1 << 48) - 1;

/// A source of ids; clones share their state.
#[derive(Clone, Debug)]
pub struct Ids(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: StdRng,
    /// Time and tail of the last id, as one number: the next one is larger.
    last: u128,
}

impl Ids {
    /// Seeded by the operating system.
    pub fn system() -> Ids {
        Ids::from_random(StdRng::from_os_rng())
    }

    /// The same ids for the same seed and the same calls: for tests.
    pub fn seeded(seed: u64) -> Ids {
        Ids::from_random(StdRng::seed_from_u64(seed))
    }

    fn from_random(random: StdRng) -> Ids {
        Ids(Arc::new(Mutex::new(State { random, last: 0 })))
    }

    /// A new id, larger than every one before; it carries `now` unless that would make it smaller.
    pub fn next(&self, now: Timestamp) -> String {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let millis = u128::try_from(now.as_micros().div_euclid(1_000)).unwrap_or(0) & MILLIS_MASK;
        // The top bit starts clear: room to count up within a millisecond.
        let tail = state.random.random::<u128>() & (TAIL_MASK >> 1);
        let fresh = millis << TAIL_BITS | tail;
        state.last = if fresh > state.last {
            fresh
        } else {
            // By a random step, so that a neighbour cannot be guessed; an overflow of the tail
            // carries into the time, as RFC 9562 section 6.2 allows.
            state.last + 1 + u128::from(state.random.random::<u32>())
        };
        let mut text = [0; 32];
        // Sixteen bytes are thirty-two digits: it fits.
        let _ = hex::encode_to_slice(stamped(state.last).to_be_bytes(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Spreads time and tail around the version (7) and the variant (binary 10).
fn stamped(value: u128) -> u128 {
    let millis = value >> TAIL_BITS & MILLIS_MASK;
    let high = value >> 62 & 0xfff;
    let low = value & ((1 << 62) - 1);
    millis << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_version_7_uuid_that_carries_the_time() {
        // RFC 9562, appendix A.6: 2022-02-22T19:22:22.000Z is 0x017F22E279B0.
        let id = Ids::system().next(Timestamp::from_secs(1_645_557_742));
        assert_eq!(id.len(), 32);
        assert!(id.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)), "{id}");
        assert_eq!(&id[..13], "017f22e279b07");
        let parsed = uuid::Uuid::parse_str(&id).expect("a UUID");
        assert_eq!(parsed.get_version_num(), 7);
        assert_eq!(parsed.get_variant(), uuid::Variant::RFC4122);
    }

    #[test]
    fn the_fields_lie_where_the_standard_puts_them() {
        // RFC 9562, appendix A.6: 017F22E2-79B0-7CC3-98C4-DC0C0C07398F.
        let tail = 0xcc3_u128 << 62 | 0x18c4_dc0c_0c07_398f;
        let value = 0x017f_22e2_79b0_u128 << 74 | tail;
        assert_eq!(stamped(value), 0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f);
    }

    #[test]
    fn ids_ascend_within_a_millisecond_and_when_the_clock_steps_back() {
        let ids = Ids::seeded(7);
        let mut last = ids.next(Timestamp::from_secs(1_000));
        for i in 0..10_000 {
            let next = ids.next(Timestamp::from_secs(if i % 2 == 0 { 1_000 } else { 990 }));
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }

    #[test]
    fn ids_of_many_threads_are_all_different() {
        let ids = Ids::system();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let ids = ids.clone();
                std::thread::spawn(move || {
                    (0..1_000).map(|_| ids.next(Timestamp::from_secs(5))).collect::<Vec<_>>()
                })
            })
            .collect();
        let all: std::collections::HashSet<String> =
            threads.into_iter().flat_map(|t| t.join().expect("joins")).collect();
        assert_eq!(all.len(), 4_000);
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let run = |seed| {
            let ids = Ids::seeded(seed);
            (0..5).map(|s| ids.next(Timestamp::from_secs(s))).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn a_time_before_the_epoch_still_gives_an_id() {
        let ids = Ids::seeded(3);
        let id = ids.next(Timestamp(-5));
        assert_eq!(&id[..13], "0000000000007");
        assert!(ids.next(Timestamp(i64::MAX)) > id);
    }
}
