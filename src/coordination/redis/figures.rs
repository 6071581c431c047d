//! A level as it lies in Redis: `<version> <as_of> <JSON>`, so that a script can tell which of two is
//! newer. Only what availability is made of; another program version's text reads as absent.

use serde::{Deserialize, Serialize};

use crate::clock::{Span, Timestamp};
use crate::domain::names::{LevelId, SourceId};
use crate::domain::sku::Kind;
use crate::domain::stock::{Closed, Level, Listing};
use crate::domain::supply::Item;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    id: LevelId,
    source: SourceId,
    kind: Kind,
    item: Option<Item>,
    quantity: i64,
    held: i64,
    committed: i64,
    version: i64,
    listing: Listing,
    as_of: Option<Timestamp>,
    /// The largest sample.
    lag: Option<Span>,
    closed: Option<Closed>,
    blocked_at: Option<Timestamp>,
}

/// Version, as_of (microseconds; 0 when there is none), and the whole text.
pub(super) fn write(level: &Level) -> (i64, i64, String) {
    let figures = Figures {
        id: level.id.clone(),
        source: level.source.clone(),
        kind: level.kind,
        item: level.item.clone(),
        quantity: level.quantity,
        held: level.held,
        committed: level.committed,
        version: level.version,
        listing: level.listing,
        as_of: level.as_of,
        lag: level.lag_samples.iter().max().copied(),
        closed: level.closed,
        blocked_at: level.blocked_at,
    };
    let as_of = level.as_of.map_or(0, Timestamp::as_micros);
    let json = serde_json::to_string(&figures).unwrap_or_default();
    (level.version, as_of, format!("{} {as_of} {json}", level.version))
}

/// `None` when it was not written by [`write`].
pub(super) fn read(text: &str) -> Option<Level> {
    let json = text.splitn(3, ' ').nth(2)?;
    let figures: Figures = serde_json::from_str(json).ok()?;
    let empty = Level::empty(figures.id, figures.source, figures.item);
    Some(Level {
        kind: figures.kind,
        quantity: figures.quantity,
        held: figures.held,
        committed: figures.committed,
        version: figures.version,
        listing: figures.listing,
        as_of: figures.as_of,
        lag_samples: figures.lag.into_iter().collect(),
        closed: figures.closed,
        blocked_at: figures.blocked_at,
        ..empty
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read_back_as_it_was_written() {
        let item = Item { offer_id: "61".into(), spec_id: Some("b2 c".into()) };
        let level = Level {
            quantity: 8,
            held: 3,
            committed: 1,
            version: 41,
            listing: Listing::Listed,
            as_of: Some(Timestamp(1_800_000_000_000_001)),
            lag_samples: vec![Span::secs(900)],
            closed: Some(Closed { from_quantity: 4, since: Timestamp(5) }),
            blocked_at: Some(Timestamp(6)),
            ..Level::empty("s1:61:b2 c".into(), "s1".into(), Some(item))
        };
        let (version, as_of, text) = write(&level);
        assert_eq!((version, as_of), (41, 1_800_000_000_000_001));
        assert!(text.starts_with("41 1800000000000001 {"), "{text}");
        assert_eq!(read(&text), Some(level));
        let shelf = Level::empty("main:A".into(), "main".into(), None);
        assert!(write(&shelf).2.starts_with("0 0 {"));
        assert_eq!(read(&write(&shelf).2), Some(shelf));
    }

    #[test]
    fn anything_else_reads_as_absent() {
        for text in ["", "1", "1 2", "1 2 {}", "1 2 nonsense", "1 2 {\"id\":\"main:A\",\"new\":1}"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
