//! Story time: the night runs faster than the clock, by one factor, and only the configuration says
//! so. A length of time in the demo's settings that begins with `~` is the story's; everything else
//! (time-outs, leases) depends on the machine and stays as it is.

use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Span;
use crate::suppliers::simulator::length;

/// Real milliseconds of one minute of the story.
const MINUTE_MS: i64 = 200;
/// The story's clock at the start, in minutes after midnight.
const OPENS_AT: i64 = 60;

/// The real length of a length of the story.
pub fn real(story: Span) -> Span {
    story.times(MINUTE_MS, 60_000)
}

/// Settings with each `"~40m"` of the story as the real length.
///
/// # Errors
/// When what follows `"~` is not a length of time.
pub fn scaled(text: &str) -> Result<String, String> {
    let mut parts = text.split("\"~");
    let mut scaled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (story, rest) = part.split_once('"').ok_or("a length of time has no end")?;
        scaled.push('"');
        scaled.push_str(&length::text(real(length::parse(story)?)));
        scaled.push('"');
        scaled.push_str(rest);
    }
    Ok(scaled)
}

/// The story's clock, and the voice that tells what happens with its time before it.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    opened: Instant,
}

impl Story {
    /// The night begins now.
    pub fn open() -> Story {
        Story { opened: Instant::now() }
    }

    /// Minutes of the story so far.
    pub fn minutes(self) -> i64 {
        Span::from_std(self.opened.elapsed()).as_micros() / (MINUTE_MS * 1_000)
    }

    /// Waits until so long after the beginning, in story time.
    pub async fn until(self, story: Span) {
        tokio::time::sleep_until(self.opened + real(story).to_std()).await;
    }

    /// Lets so many minutes of the story pass.
    pub async fn pass(self, minutes: i64) {
        tokio::time::sleep(real(Span::minutes(minutes)).to_std()).await;
    }

    /// Prints a line with the story's time. A reader that has gone away is no reason to stop.
    pub fn say(self, text: &str) {
        let minute = OPENS_AT + self.minutes();
        let line = format!("[{:02}:{:02}] {text}", minute / 60 % 24, minute % 60);
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// A real length in whole story minutes, for telling.
pub fn in_story(real: Duration) -> i64 {
    Span::from_std(real).as_micros() / (MINUTE_MS * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_the_story_are_scaled_and_the_others_stay() {
        let text = "lag = \"~40m\"\nlease = \"30s\" # ~ is not quoted\nlast = \"~2h\"";
        let want = "lag = \"8s\"\nlease = \"30s\" # ~ is not quoted\nlast = \"24s\"";
        assert_eq!(scaled(text).expect("scaled"), want);
        assert_eq!(scaled("a = \"~1m\"").expect("scaled"), "a = \"200ms\"");
        assert!(scaled("a = \"~soon\"").is_err());
        assert!(scaled("a = \"~1m").is_err());
    }

    #[test]
    fn a_real_length_is_told_in_minutes_of_the_story() {
        assert_eq!(in_story(Duration::from_millis(8_199)), 40);
    }
}
