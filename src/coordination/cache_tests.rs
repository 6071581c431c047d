//! Which of two figures is shown, whatever order they arrive in.

use super::*;
use crate::clock::{Clock, Span};
use crate::domain::sku::{Class, Watermark};

fn cache(most: usize) -> (Clock, Cache) {
    let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
    let cache = Cache::sized(Ticks::new(&clock), most);
    (clock, cache)
}

fn level(id: &str, version: i64) -> Level {
    Level { version, quantity: version * 10, ..Level::empty(id.into(), "main".into(), None) }
}

/// The version that is shown.
fn shown(cache: &Cache, id: &str) -> Option<i64> {
    let id = LevelId::from(id);
    cache.levels([&id].into_iter()).get(&id).map(|level| level.version)
}

#[test]
fn a_figure_is_shown_for_five_seconds_after_its_read_began() {
    let (clock, cache) = cache(10);
    let begun = cache.begin();
    clock.advance(Span::secs(2));
    assert_eq!(cache.keep(&begun, vec![level("main:A", 1)]).len(), 1);
    clock.advance(Span::millis(2_999));
    assert_eq!(shown(&cache, "main:A"), Some(1));
    clock.advance(Span::millis(1));
    assert_eq!(shown(&cache, "main:A"), None);
    // What took so long to read is not shown at all.
    assert_eq!(cache.keep(&begun, vec![level("main:A", 2)]), Vec::new());
    assert_eq!(shown(&cache, "main:A"), None);
}

#[test]
fn an_older_figure_never_replaces_a_newer_one() {
    let (_, cache) = cache(10);
    let begun = cache.begin();
    cache.keep(&begun, vec![level("main:A", 3)]);
    assert_eq!(cache.keep(&begun, vec![level("main:A", 2)]), Vec::new());
    assert_eq!(shown(&cache, "main:A"), Some(3));
    cache.keep(&begun, vec![level("main:A", 4)]);
    assert_eq!(shown(&cache, "main:A"), Some(4));
}

#[test]
fn a_reading_that_leaves_the_figure_as_it_was_is_newer() {
    let (_, cache) = cache(10);
    let at = |secs| Level { as_of: Some(Timestamp::from_secs(secs)), ..level("s1:61:", 3) };
    let begun = cache.begin();
    cache.keep(&begun, vec![at(100)]);
    cache.committed(&[at(200).into()], false);
    assert_eq!(cache.keep(&begun, vec![at(100)]), Vec::new());
    let id = LevelId::from("s1:61:");
    assert_eq!(cache.levels([&id].into_iter())[&id].as_of, Some(Timestamp::from_secs(200)));
}

#[test]
fn a_read_that_began_before_a_commit_does_not_undo_it() {
    let (_, cache) = cache(10);
    let before = cache.begin();
    // Neither the version nor the as_of moves when a level is closed.
    let closed = Level { blocked_at: Some(Timestamp(7)), ..level("s1:61:", 3) };
    cache.committed(&[closed.clone().into()], false);
    assert_eq!(cache.keep(&before, vec![level("s1:61:", 3)]), Vec::new());
    let id = LevelId::from("s1:61:");
    assert_eq!(*cache.levels([&id].into_iter())[&id], closed);
    // One that began after it knows better.
    let after = cache.begin();
    assert_eq!(cache.keep(&after, vec![level("s1:61:", 3)]).len(), 1);
    assert_eq!(cache.levels([&id].into_iter())[&id].blocked_at, None);
}

#[test]
fn commits_that_are_told_late_do_not_undo_later_ones() {
    let (_, cache) = cache(10);
    cache.committed(&[level("main:A", 9).into()], false);
    cache.committed(&[level("main:A", 8).into()], false);
    assert_eq!(shown(&cache, "main:A"), Some(9));
}

#[test]
fn another_replica_s_entry_counts_unless_this_one_knows_better() {
    let (clock, cache) = cache(10);
    let left = Duration::from_secs(2);
    cache.committed(&[level("main:A", 5).into()], false);
    clock.advance(Span::secs(6));
    // Its time to be shown is over, and still it is known that 4 is older.
    assert_eq!(shown(&cache, "main:A"), None);
    assert!(cache.learn(vec![(level("main:A", 4), left)]).is_empty());
    assert_eq!(cache.learn(vec![(level("main:A", 5), left)]).len(), 1);
    assert_eq!(shown(&cache, "main:A"), Some(5));
    clock.advance(Span::millis(1_999));
    assert_eq!(shown(&cache, "main:A"), Some(5));
    clock.advance(Span::millis(1));
    assert_eq!(shown(&cache, "main:A"), None);
}

#[test]
fn when_a_commit_is_crowded_out_only_new_reads_are_believed_for_a_while() {
    let (clock, cache) = cache(2);
    let before = cache.begin();
    cache.committed(&[level("main:A", 5).into(), level("main:B", 5).into()], false);
    assert!(cache.believes_others());
    cache.committed(&[level("main:C", 5).into()], false);
    assert_eq!(shown(&cache, "main:A"), None);
    assert!(!cache.believes_others());
    assert_eq!(cache.keep(&before, vec![level("main:A", 4)]), Vec::new());
    let after = cache.begin();
    assert_eq!(cache.keep(&after, vec![level("main:A", 5)]).len(), 1);
    clock.advance(Span::secs(5));
    assert!(cache.believes_others());
}

#[test]
fn definitions_are_known_until_one_is_committed() {
    let (clock, cache) = cache(10);
    let definition = |title: &str| Definition {
        sku: Sku {
            key: "A".into(),
            title: title.into(),
            class: Class::Normal,
            watermark: Watermark::default(),
            sources: Vec::new(),
            paused: Paused::default(),
        },
        suppliers: BTreeMap::new(),
    };
    let title = || cache.definition(&"alias".into()).map(|d| d.sku.title.clone());
    let before = cache.begin();
    cache.define(&before, vec![("alias".into(), definition("old"))]);
    assert_eq!(title().as_deref(), Some("old"));
    cache.committed(&[], false);
    assert_eq!(title().as_deref(), Some("old"));
    cache.committed(&[], true);
    assert_eq!(title(), None);
    cache.define(&before, vec![("alias".into(), definition("old"))]);
    assert_eq!(title(), None);
    cache.define(&cache.begin(), vec![("alias".into(), definition("new"))]);
    assert_eq!(title().as_deref(), Some("new"));
    clock.advance(Span::secs(5));
    assert_eq!(title(), None);
}

#[test]
fn the_lag_is_kept_and_its_samples_are_not() {
    let (_, cache) = cache(10);
    let samples = vec![Span::secs(60), Span::secs(900), Span::secs(30)];
    let whole = Level { lag_samples: samples, ..level("s1:61:", 1) };
    let kept = cache.keep(&cache.begin(), vec![whole]);
    assert_eq!(kept[0].lag_samples, [Span::secs(900)]);
}
