//! Transactions: they outlive their caller, leave nothing half done, and say what went wrong.

use std::time::Duration;

use stockhold::storage::sql::Sql;
use stockhold::storage::{Db, Error, Options, claim_file};
use tokio::sync::oneshot;

use super::{TestDb, on_both};

on_both!(
    a_caller_that_goes_away_does_not_stop_its_transaction,
    an_error_rolls_back,
    a_panic_rolls_back,
    a_transaction_that_never_ends_is_given_up,
    reads_see_one_picture_and_write_nothing,
    closing_waits_for_what_is_under_way,
    a_text_with_u0000_is_refused,
);

fn sql(text: &str) -> &'static Sql {
    Box::leak(Box::new(Sql::new(text)))
}

fn insert() -> &'static Sql {
    sql("INSERT INTO command_groups (id, at) VALUES ('g', 1)")
}

async fn rows(test: &TestDb) -> i64 {
    test.numbers("SELECT count(*) FROM command_groups", Vec::new()).await[0]
}

async fn a_caller_that_goes_away_does_not_stop_its_transaction(test: TestDb) {
    let (begun, has_begun) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let db = test.db.clone();
    let caller = tokio::spawn(async move {
        db.transact::<_, Error, _>(move |tx| {
            Box::pin(async move {
                begun.send(()).unwrap();
                gone.await.unwrap();
                tx.run(insert(), Vec::new()).await
            })
        })
        .await
    });
    has_begun.await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    go.send(()).unwrap();
    test.db.close().await;
    let again = Db::open(&test.url, &Options::default()).unwrap();
    let count = sql("SELECT count(*) FROM command_groups");
    let rows: Vec<(i64,)> = again
        .read::<_, Error, _>(move |tx| Box::pin(async move { tx.all(count, Vec::new()).await }))
        .await
        .unwrap();
    assert_eq!(rows, vec![(1,)]);
    again.close().await;
}

async fn an_error_rolls_back(test: TestDb) {
    let failed = test
        .transact::<(), _>(|tx| {
            Box::pin(async move {
                tx.run(insert(), Vec::new()).await?;
                Err(Error::Poison("decided otherwise".into()))
            })
        })
        .await;
    assert_eq!(failed, Err(Error::Poison("decided otherwise".into())));
    assert_eq!(rows(&test).await, 0);
}

async fn a_panic_rolls_back(test: TestDb) {
    let failed = test
        .transact::<(), _>(|tx| {
            Box::pin(async move {
                tx.run(insert(), Vec::new()).await?;
                panic!("a fault of ours")
            })
        })
        .await;
    assert!(matches!(failed, Err(Error::Poison(_))), "{failed:?}");
    assert_eq!(rows(&test).await, 0);
    test.run("INSERT INTO command_groups (id, at) VALUES ('h', 1)").await.unwrap();
    assert_eq!(rows(&test).await, 1);
}

async fn a_transaction_that_never_ends_is_given_up(test: TestDb) {
    let options = Options { transaction_timeout: Duration::from_millis(200), ..Options::default() };
    let db = Db::open(&test.url, &options).unwrap();
    let given_up = db
        .transact::<(), Error, _>(|tx| {
            Box::pin(async move {
                tx.run(insert(), Vec::new()).await?;
                std::future::pending().await
            })
        })
        .await;
    assert!(
        matches!(&given_up, Err(Error::Unavailable(why)) if why.contains("took longer")),
        "{given_up:?}"
    );
    let after = db
        .transact::<_, Error, _>(|tx| Box::pin(async move { tx.run(insert(), Vec::new()).await }))
        .await;
    assert_eq!(after, Ok(1), "the row of the first is not there");
    db.close().await;
}

async fn reads_see_one_picture_and_write_nothing(test: TestDb) {
    let written = test
        .db
        .read::<_, Error, _>(|tx| Box::pin(async move { tx.run(insert(), Vec::new()).await }))
        .await;
    assert!(matches!(written, Err(Error::Unavailable(_))), "{written:?}");
    let count = sql("SELECT count(*) FROM command_groups");
    let (first_seen, is_seen) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let db = test.db.clone();
    let reading = tokio::spawn(async move {
        db.read::<_, Error, _>(move |tx| {
            Box::pin(async move {
                let before: Vec<(i64,)> = tx.all(count, Vec::new()).await?;
                first_seen.send(()).unwrap();
                gone.await.unwrap();
                let after: Vec<(i64,)> = tx.all(count, Vec::new()).await?;
                Ok((before, after))
            })
        })
        .await
    });
    is_seen.await.unwrap();
    test.run("INSERT INTO command_groups (id, at) VALUES ('g', 1)").await.unwrap();
    go.send(()).unwrap();
    assert_eq!(reading.await.unwrap(), Ok((vec![(0,)], vec![(0,)])));
    assert_eq!(rows(&test).await, 1);
}

async fn closing_waits_for_what_is_under_way(test: TestDb) {
    let (begun, has_begun) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let db = test.db.clone();
    let writing = tokio::spawn(async move {
        db.transact::<_, Error, _>(move |tx| {
            Box::pin(async move {
                begun.send(()).unwrap();
                gone.await.unwrap();
                tx.run(insert(), Vec::new()).await
            })
        })
        .await
    });
    has_begun.await.unwrap();
    let db = test.db.clone();
    let closing = tokio::spawn(async move { db.close().await });
    go.send(()).unwrap();
    closing.await.unwrap();
    assert_eq!(writing.await.unwrap(), Ok(1));
    let after = test.run("INSERT INTO command_groups (id, at) VALUES ('x', 1)").await;
    assert!(matches!(after, Err(Error::Unavailable(_))), "{after:?}");
}

async fn a_text_with_u0000_is_refused(test: TestDb) {
    let refused = test
        .change(&Default::default(), super::at(1), |world| {
            let mut order = super::fixture::unpaid("o1", 1, super::at(9));
            order.external_id = "W\u{0}1".into();
            world.create_order(order);
        })
        .await;
    assert!(matches!(refused, Err(Error::Poison(_))), "{refused:?}");
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full() {
    let test = TestDb::sqlite().await;
    let grow = sql("INSERT INTO command_groups (id, at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         SELECT 'group ' || i, i FROM n");
    let (limit, free) = (sql("PRAGMA max_page_count = 60"), sql("PRAGMA max_page_count = 100000"));
    let full = test
        .transact(move |tx| {
            Box::pin(async move {
                let _: Vec<(i64,)> = tx.all(limit, Vec::new()).await?;
                tx.run(grow, Vec::new()).await
            })
        })
        .await;
    assert!(
        matches!(&full, Err(Error::Unavailable(why)) if why.starts_with("the disk is full")),
        "{full:?}"
    );
    assert_eq!(rows(&test).await, 0);
    let again = test
        .transact(move |tx| {
            Box::pin(async move {
                let _: Vec<(i64,)> = tx.all(free, Vec::new()).await?;
                tx.run(grow, Vec::new()).await
            })
        })
        .await;
    assert_eq!(again, Ok(100_000));
}

#[tokio::test]
async fn a_read_only_file_is_said_to_be_so() {
    let test = TestDb::sqlite().await;
    let on = sql("PRAGMA query_only = on");
    let refused = test
        .transact(move |tx| {
            Box::pin(async move {
                tx.run(on, Vec::new()).await?;
                tx.run(insert(), Vec::new()).await
            })
        })
        .await;
    assert!(
        matches!(&refused, Err(Error::Unavailable(why)) if why.contains("read-only")),
        "{refused:?}"
    );
    let begun = test.run("DELETE FROM command_groups").await;
    assert!(
        matches!(&begun, Err(Error::Unavailable(why)) if why.contains("read-only")),
        "{begun:?}"
    );
}

#[tokio::test]
async fn a_read_only_server_is_said_to_be_so() {
    let test = TestDb::postgres().await;
    let name = test.url.rsplit('/').next().unwrap().to_owned();
    test.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"))
        .await
        .unwrap();
    let db = Db::open(&test.url, &Options::default()).unwrap();
    let refused = db
        .transact::<_, Error, _>(|tx| Box::pin(async move { tx.run(insert(), Vec::new()).await }))
        .await;
    assert!(
        matches!(&refused, Err(Error::Unavailable(why)) if why.contains("read-only")),
        "{refused:?}"
    );
    db.close().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let options = Options { acquire_timeout: Duration::from_millis(300), ..Options::default() };
    let db = Db::open("postgres://nobody@127.0.0.1:1/none", &options).unwrap();
    let down = db
        .transact::<_, Error, _>(|tx| Box::pin(async move { tx.run(insert(), Vec::new()).await }))
        .await;
    assert!(matches!(down, Err(Error::Unavailable(_))), "{down:?}");
    for url in ["mysql://x", "sqlite::memory:", "sqlite://x.db?mode=memory"] {
        let refused = Db::open(url, &options);
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{url}");
    }
}

/// Every pooled connection was killed meanwhile; the next transaction notices nothing.
#[tokio::test]
async fn connections_that_died_are_replaced() {
    let test = TestDb::postgres().await;
    let held: Vec<_> = (0..5)
        .map(|n| {
            let text = format!("INSERT INTO command_groups (id, at) VALUES ('g{n}', 1)");
            let text = sql(&text);
            test.transact(move |tx| Box::pin(async move { tx.run(text, Vec::new()).await }))
        })
        .collect();
    futures::future::join_all(held).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let other = Db::open(&test.url, &Options::default()).unwrap();
    let kill = sql(kill);
    other
        .transact::<_, Error, _>(move |tx| Box::pin(async move { tx.run(kill, Vec::new()).await }))
        .await
        .unwrap();
    other.close().await;
    assert_eq!(rows(&test).await, 5);
}

/// The connection dies between the last statement and the commit: nobody can say.
#[tokio::test]
async fn a_connection_that_dies_in_the_commit_leaves_it_unknown() {
    let test = TestDb::postgres().await;
    let me = sql("SELECT CAST(pg_backend_pid() AS BIGINT)");
    let other = Db::open(&test.url, &Options::default()).unwrap();
    let killer = other.clone();
    let unknown = test
        .transact(move |tx| {
            Box::pin(async move {
                tx.run(insert(), Vec::new()).await?;
                let mine: Vec<(i64,)> = tx.all(me, Vec::new()).await?;
                let kill = sql(&format!("SELECT pg_terminate_backend({}, 5000)", mine[0].0));
                killer
                    .transact::<_, Error, _>(move |tx| {
                        Box::pin(async move { tx.run(kill, Vec::new()).await })
                    })
                    .await
            })
        })
        .await;
    assert!(matches!(unknown, Err(Error::CommitUnknown(_))), "{unknown:?}");
    assert_eq!(rows(&test).await, 0);
    other.close().await;
}

/// Whatever the server, the database or the url say: an answer means that it is on disk.
#[tokio::test]
async fn commits_are_flushed_whatever_the_server_says() {
    let test = TestDb::postgres().await;
    let name = url::Url::parse(&test.url).unwrap().path().trim_start_matches('/').to_owned();
    test.run(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await.unwrap();
    let asked = format!("{}?options=-c%20synchronous_commit%3Doff", test.url);
    for url in [&test.url, &asked] {
        let db = Db::open(url, &Options::default()).unwrap();
        let flushed = sql("SELECT CASE current_setting('synchronous_commit') WHEN 'on' THEN 1
            ELSE 0 END::bigint");
        let rows: Vec<(i64,)> = db
            .transact::<_, Error, _>(move |tx| {
                Box::pin(async move { tx.all(flushed, Vec::new()).await })
            })
            .await
            .unwrap();
        assert_eq!(rows, [(1,)], "{url}");
        db.close().await;
    }
}

#[test]
fn one_process_at_a_time_has_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/data/stockhold.db", folder.path().display());
    let claim = claim_file(&url).unwrap();
    let refused = claim_file(&url).unwrap_err();
    let Error::Unavailable(why) = &refused else {
        panic!("{refused:?}");
    };
    let named = format!("the database file is in use by process {} (it-", std::process::id());
    assert!(why.starts_with(&named), "{why}");
    drop(claim);
    claim_file(&url).unwrap();
    claim_file("postgres://x").unwrap();
    claim_file("postgres://x").unwrap();
}
