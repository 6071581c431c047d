//! What syncs and adapters leave at a supplier, beside its stop switch.

use stockhold::domain::command::Needs;
use stockhold::domain::sku::{Pause, Paused};
use stockhold::storage::suppliers::{self, SyncState};

use super::fixture::source;
use super::{TestDb, at, on_both};

on_both!(a_sync_leaves_its_outcome, tokens_are_kept_beside_the_stop_switch);

async fn synced(test: &TestDb, outcome: &'static str, suspect: Option<bool>, now: i64) -> bool {
    test.transact(move |tx| {
        Box::pin(async move {
            suppliers::synced(tx, &source("s1"), outcome, "of 3 rows", suspect, at(now)).await
        })
    })
    .await
    .unwrap()
}

async fn listed(test: &TestDb) -> Vec<SyncState> {
    test.db.read(|tx| Box::pin(async move { suppliers::list(tx).await })).await.unwrap()
}

async fn a_sync_leaves_its_outcome(test: TestDb) {
    assert_eq!(listed(&test).await, Vec::new());
    for (outcome, suspect, now, since, other) in [
        ("failed", None, 5, None, true),
        ("ok", Some(false), 10, None, true),
        ("suspect", Some(true), 20, Some(at(20)), true),
        ("suspect", Some(true), 30, Some(at(20)), false),
        ("failed", None, 33, Some(at(20)), true),
        ("failed", None, 36, Some(at(20)), false),
        ("ok", Some(false), 40, None, true),
    ] {
        assert_eq!(synced(&test, outcome, suspect, now).await, other, "at {now}");
        let state = SyncState {
            id: source("s1"),
            last_sync_at: Some(at(now)),
            last_sync_outcome: Some(outcome.into()),
            last_sync_detail: Some("of 3 rows".into()),
            suspect_since: since,
        };
        assert_eq!(listed(&test).await, vec![state]);
    }
}

async fn tokens_are_kept_beside_the_stop_switch(test: TestDb) {
    let tokens = |test: &TestDb| {
        let db = test.db.clone();
        async move {
            db.read::<_, stockhold::storage::Error, _>(|tx| {
                Box::pin(async move { suppliers::tokens(tx, &source("s1")).await })
            })
            .await
        }
    };
    assert_eq!(tokens(&test).await, Ok(None));
    let pause = Pause { at: at(1), reason: "a price war".into() };
    let paused = Paused { selling: Some(pause), buying: None };
    let put = paused.clone();
    test.change(&Needs::default(), at(1), move |world| world.put_supplier(source("s1"), put))
        .await
        .unwrap();
    for text in ["{\"access\":\"a\"}", "{\"access\":\"b\"}"] {
        test.transact(move |tx| {
            Box::pin(async move { suppliers::put_tokens(tx, &source("s1"), text).await })
        })
        .await
        .unwrap();
        assert_eq!(tokens(&test).await, Ok(Some(text.to_owned())));
    }
    synced(&test, "ok", Some(false), 5).await;
    let world = test.load(&Needs::default(), at(9)).await.world;
    assert_eq!(world.suppliers[&source("s1")], paused);
    assert_eq!(tokens(&test).await, Ok(Some("{\"access\":\"b\"}".into())));
}
