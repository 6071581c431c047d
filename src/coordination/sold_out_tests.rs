//! What a note is worth: its age, its versions, who made it, and what ends it.

use super::*;
use crate::clock::{Clock, Span, Timestamp};

fn notes() -> (Clock, Notes) {
    let clock = Clock::manual(Timestamp::from_secs(1_800_000_000));
    let notes = Notes::new(Ticks::new(&clock), true);
    (clock, notes)
}

/// A SKU without a unit at each of these levels of these versions.
fn sold_out(asked: &str, versions: &[(&str, i64)]) -> SoldOut {
    let versions = versions.iter().map(|(id, version)| (LevelId::from(*id), *version));
    SoldOut { asked: asked.into(), sku: "A".into(), versions: versions.collect() }
}

fn a(version: i64) -> SoldOut {
    sold_out("A", &[("main:A", version)])
}

fn level(id: &str) -> Level {
    Level::empty(id.into(), "main".into(), None)
}

/// No commit of a level is known.
fn unseen(_: &LevelId) -> Option<i64> {
    None
}

fn make(notes: &Notes, found: SoldOut) -> usize {
    notes.make(&[found], Duration::ZERO, &unseen)
}

fn is_noted(notes: &Notes, asked: &str) -> bool {
    notes.find(&asked.into()).is_some()
}

/// Another replica's answer to a look for `A`: a note with so many milliseconds left.
fn learn(notes: &Notes, found: Option<(SoldOut, u64)>, newest: &impl Newest) -> usize {
    let look = Look { begun: notes.ticks.now(), names: vec!["A".into()] };
    let found = found.map(|(what, left)| (what, Duration::from_millis(left)));
    notes.learn(look, vec![found], newest)
}

#[test]
fn a_note_is_believed_for_a_second_after_its_levels_were_read() {
    let (clock, notes) = notes();
    assert!(!is_noted(&notes, "A"));
    let age = Duration::from_millis(300);
    assert_eq!(notes.make(&[sold_out("OLD", &[("main:A", 7)])], age, &unseen), 1);
    let note = notes.find(&"OLD".into());
    assert_eq!(note, Some(sold_out("OLD", &[("main:A", 7)])), "an alias names its SKU");
    assert!(!is_noted(&notes, "A"), "only the name that was asked for is noted");
    clock.advance(Span::millis(699));
    assert!(is_noted(&notes, "OLD"));
    clock.advance(Span::millis(1));
    assert!(!is_noted(&notes, "OLD"));
    // What took longer than that to be decided is no note at all.
    assert_eq!(notes.make(&[a(7)], Duration::from_secs(1), &unseen), 0);
    assert!(!is_noted(&notes, "A"));
}

#[test]
fn a_note_that_is_made_again_lives_on_and_an_older_one_changes_nothing() {
    let (clock, notes) = notes();
    assert_eq!(make(&notes, a(7)), 1);
    clock.advance(Span::millis(800));
    assert_eq!(make(&notes, a(7)), 0, "no news");
    clock.advance(Span::millis(800));
    assert!(is_noted(&notes, "A"));
    assert_eq!(learn(&notes, Some((a(7), 100)), &unseen), 0);
    clock.advance(Span::millis(199));
    assert!(is_noted(&notes, "A"));
    clock.advance(Span::millis(1));
    assert!(!is_noted(&notes, "A"));
}

#[test]
fn a_commit_at_any_of_its_levels_ends_it_and_others_do_not() {
    let (_, notes) = notes();
    make(&notes, sold_out("A", &[("main:A", 7), ("s1:61:", 41)]));
    make(&notes, sold_out("B", &[("s1:61:", 41)]));
    make(&notes, sold_out("C", &[("main:C", 2)]));
    notes.committed(&[level("main:X").into(), level("main:B").into()], false);
    assert!(["A", "B", "C"].iter().all(|asked| is_noted(&notes, asked)));
    notes.committed(&[level("s1:61:").into()], false);
    assert_eq!(["A", "B", "C"].map(|asked| is_noted(&notes, asked)), [false, false, true]);
    notes.committed(&[], true);
    assert!(!is_noted(&notes, "C"), "the catalogue changed");
    assert!(notes.known().resting.is_empty());
}

#[test]
fn a_note_older_than_what_was_committed_here_is_not_taken() {
    let (clock, notes) = notes();
    let newest = |id: &LevelId| (id.as_str() == "main:A").then_some(8);
    assert_eq!(notes.make(&[a(7)], Duration::ZERO, &newest), 0);
    assert_eq!(learn(&notes, Some((a(7), 900)), &newest), 0);
    assert!(!is_noted(&notes, "A"));
    assert_eq!(learn(&notes, Some((a(8), 900)), &newest), 1);
    assert!(is_noted(&notes, "A"));
    // Nor one of before the catalogue's change.
    clock.advance(Span::millis(200));
    notes.committed(&[], true);
    assert_eq!(learn(&notes, Some((a(9), 700)), &newest), 0);
    clock.advance(Span::millis(100));
    assert_eq!(learn(&notes, Some((a(9), 950)), &newest), 1);
}

#[test]
fn another_replica_s_note_lives_as_long_as_is_left_of_it() {
    let (clock, notes) = notes();
    assert_eq!(learn(&notes, Some((a(7), 250)), &unseen), 1);
    clock.advance(Span::millis(249));
    assert!(is_noted(&notes, "A"));
    clock.advance(Span::millis(1));
    assert!(!is_noted(&notes, "A"));
    // Redis's clock is not ours: never more than a second.
    learn(&notes, Some((a(7), 60_000)), &unseen);
    clock.advance(Span::secs(1));
    assert!(!is_noted(&notes, "A"));
    let (asked, other) = (sold_out("A", &[]), sold_out("B", &[]));
    assert_eq!(learn(&notes, Some((other, 900)), &unseen), 0, "found under another's name");
    assert_eq!(learn(&notes, Some((asked, 900)), &unseen), 1);
}

#[test]
fn what_is_asked_for_and_what_others_may_have_ended_is_looked_for() {
    let (clock, notes) = notes();
    let looked = || {
        let mut names = notes.look().names;
        names.sort_unstable();
        names
    };
    make(&notes, a(7));
    assert!(is_noted(&notes, "A") && !is_noted(&notes, "B") && !is_noted(&notes, "B"));
    assert_eq!(looked(), ["B".into()]);
    assert!(looked().is_empty(), "nothing was asked for since");
    clock.advance(Span::millis(200));
    assert!(looked().is_empty(), "our own note is young");
    clock.advance(Span::millis(1));
    assert_eq!(looked(), ["A".into()]);
    // A key that is gone ends a note, but not one that was made again meanwhile.
    let look = notes.look();
    make(&notes, a(7));
    notes.learn(look, vec![None], &unseen);
    assert!(is_noted(&notes, "A"));
    clock.advance(Span::millis(201));
    assert_eq!(learn(&notes, None, &unseen), 0);
    assert!(!is_noted(&notes, "A"));
    // Another's is looked for at once.
    learn(&notes, Some((a(7), 1_000)), &unseen);
    assert_eq!(looked(), ["A".into()]);
    learn(&notes, None, &unseen);
    assert!(!is_noted(&notes, "A"));
}

#[test]
fn what_was_noted_and_ended_here_is_to_be_written_once() {
    let (clock, notes) = notes();
    make(&notes, a(7));
    clock.advance(Span::millis(30));
    assert_eq!(notes.unwritten(), (vec![(a(7), Duration::from_millis(30))], vec![]));
    assert_eq!(notes.unwritten(), (vec![], vec![]));
    notes.committed(&[level("main:A").into()], false);
    assert_eq!(notes.unwritten(), (vec![], vec!["A".into()]));
    // Ended and made again by one group.
    make(&notes, a(8));
    notes.committed(&[level("main:A").into()], false);
    make(&notes, a(9));
    assert_eq!(notes.unwritten(), (vec![(a(9), Duration::ZERO)], vec![]));
    make(&notes, a(9));
    notes.committed(&[level("main:A").into()], false);
    assert_eq!(notes.unwritten(), (vec![], vec!["A".into()]));
}

#[test]
fn notes_and_names_are_bounded_and_old_notes_make_room() {
    let (clock, notes) = notes();
    let many = |prefix: &str, n: usize| -> Vec<SoldOut> {
        let one = |i| sold_out(&format!("{prefix}{i}"), &[("main:A", 7)]);
        (0..n).map(one).collect()
    };
    assert_eq!(notes.make(&many("x", MOST + 5), Duration::ZERO, &unseen), MOST);
    assert!(!is_noted(&notes, "A"));
    assert_eq!(make(&notes, a(7)), 0);
    for n in 0..2 * MOST_LOOKED {
        is_noted(&notes, &format!("asked{n}"));
    }
    assert_eq!(notes.look().names.len(), MOST_LOOKED);
    clock.advance(Span::secs(1));
    assert_eq!(make(&notes, a(7)), 1);
    assert_eq!(notes.known().notes.len(), 1);
}

#[test]
fn alone_there_is_nothing_to_share() {
    let notes = Notes::new(Ticks::new(&Clock::manual(Timestamp::from_secs(1))), false);
    make(&notes, a(7));
    assert!(is_noted(&notes, "A") && !is_noted(&notes, "B"));
    notes.committed(&[level("main:A").into()], false);
    assert_eq!(notes.unwritten(), (vec![], vec![]));
    assert!(notes.look().names.is_empty());
}
