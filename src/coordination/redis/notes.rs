//! A sold-out note as it lies in Redis: `<until> <JSON>`, where `until` is when it ends, by Redis's clock
//! in milliseconds. Another program version's text reads as absent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::availability::SoldOut;
use crate::domain::names::{LevelId, SkuKey};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    asked: SkuKey,
    sku: SkuKey,
    versions: BTreeMap<LevelId, i64>,
}

pub(super) fn write(note: &SoldOut, until: u64) -> String {
    let SoldOut { asked, sku, versions } = note.clone();
    let json = serde_json::to_string(&Text { asked, sku, versions }).unwrap_or_default();
    format!("{until} {json}")
}

/// The note and how long it has left at `now` of Redis's clock; `None` when it was not written by
/// [`write`], or is over.
pub(super) fn read(text: &str, now: Duration) -> Option<(SoldOut, Duration)> {
    let (until, json) = text.split_once(' ')?;
    let left = Duration::from_millis(until.parse().ok()?).checked_sub(now)?;
    let Text { asked, sku, versions } = serde_json::from_str(json).ok()?;
    Some((SoldOut { asked, sku, versions }, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_as_it_was_written_until_it_ends() {
        let note = SoldOut {
            asked: "OLD".into(),
            sku: "A B".into(),
            versions: [("main:A B".into(), 7), ("s1:61:".into(), 41)].into(),
        };
        let text = write(&note, 1_800_000_001_000);
        assert!(text.starts_with("1800000001000 {"), "{text}");
        let at = |millis| read(&text, Duration::from_millis(millis));
        assert_eq!(at(1_800_000_000_400), Some((note.clone(), Duration::from_millis(600))));
        assert_eq!(at(1_800_000_001_000), Some((note, Duration::ZERO)));
        assert_eq!(at(1_800_000_001_001), None);
    }

    #[test]
    fn anything_else_reads_as_absent() {
        for text in ["", "1", "x {}", "9 {}", "9 nonsense", "-1 {}"] {
            assert_eq!(read(text, Duration::ZERO), None, "{text}");
        }
    }
}
