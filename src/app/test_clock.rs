//! A clock in a test's hand, for tests that run the binary: `STOCKHOLD_TEST_CLOCK` names a file that
//! holds microseconds since the epoch. The process follows it, and writes what it follows to
//! `<file>.seen`, so that a test knows when its new time is in force. `STOCKHOLD_TEST_CLOCK_OFF` is a
//! machine whose clock is wrong, by so many seconds. Never set in production; the log says so loudly.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Span};

const FOLLOW_EVERY: Duration = Duration::from_millis(2);

/// The clock that the environment asks for: the machine's, a wrong one, or a file's.
///
/// # Errors
/// When the file cannot be read as a time, or what is wrong with the clock not as seconds.
pub fn clock() -> Result<Clock, String> {
    let Some(path) = std::env::var_os("STOCKHOLD_TEST_CLOCK").map(PathBuf::from) else {
        return wrong_clock();
    };
    let start = read(&path).ok_or_else(|| format!("{} holds no time", path.display()))?;
    tracing::warn!(file = %path.display(), "time is taken from a file: this is for tests alone");
    let at = Arc::new(AtomicI64::new(start));
    let follows = Arc::clone(&at);
    std::thread::spawn(move || follow(&path, &follows));
    Ok(Clock::Manual(at))
}

fn wrong_clock() -> Result<Clock, String> {
    let Ok(off) = std::env::var("STOCKHOLD_TEST_CLOCK_OFF") else {
        return Ok(Clock::System);
    };
    let secs = off.parse().map_err(|_| format!("STOCKHOLD_TEST_CLOCK_OFF: `{off}` seconds"))?;
    tracing::warn!(off_secs = secs, "the clock is made wrong: this is for tests alone");
    Ok(Clock::followed(Clock::System.now() + Span::secs(secs)))
}

fn read(path: &Path) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn follow(path: &Path, at: &AtomicI64) {
    let mut seen = path.as_os_str().to_owned();
    seen.push(".seen");
    let mut told = None;
    loop {
        if let Some(time) = read(path).filter(|time| told != Some(*time)) {
            at.store(time, Ordering::SeqCst);
            if std::fs::write(&seen, time.to_string()).is_ok() {
                told = Some(time);
            }
        }
        std::thread::sleep(FOLLOW_EVERY);
    }
}
