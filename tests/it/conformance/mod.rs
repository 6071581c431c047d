//! The same suite on SQLite (a temporary file) and on PostgreSQL (a private server named by
//! `STOCKHOLD_TEST_PG`; each test makes its own database). A missing server fails the suite.

mod alerts;
mod catalogue;
mod checks;
mod database;
mod fixture;
mod groups;
mod items;
mod jobs;
mod locks;
mod migrations;
mod pages;
mod reads;
mod save;
mod suppliers;

use std::str::FromStr;

use futures::future::BoxFuture;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, Executor};
use stockhold::clock::{Clock, Timestamp};
use stockhold::domain::command::Needs;
use stockhold::domain::world::World;
use stockhold::storage::sql::{Arg, Sql};
use stockhold::storage::world::{self, Loaded, Saved};
use stockhold::storage::{Db, Error, Options, Tx};

/// Declares each named `async fn(TestDb)` as a test on either database.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::conformance::TestDb::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::conformance::TestDb::postgres().await).await;
            })+
        }
    };
}
pub(crate) use on_both;

/// An empty, migrated database of one test.
pub struct TestDb {
    pub db: Db,
    pub url: String,
    _folder: Option<tempfile::TempDir>,
    dropped_by: Option<(PgConnectOptions, String)>,
}

impl TestDb {
    pub async fn sqlite() -> TestDb {
        let test = TestDb::bare_sqlite();
        test.db.migrate().await.unwrap();
        test
    }

    pub async fn postgres() -> TestDb {
        let test = TestDb::bare_postgres().await;
        test.db.migrate().await.unwrap();
        test
    }

    /// Without its schema.
    pub fn bare_sqlite() -> TestDb {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/test.db", folder.path().display());
        TestDb {
            db: Db::open(&url, &Options::default()).unwrap(),
            url,
            _folder: Some(folder),
            dropped_by: None,
        }
    }

    /// Without its schema.
    pub async fn bare_postgres() -> TestDb {
        let server = std::env::var("STOCKHOLD_TEST_PG").expect(
            "STOCKHOLD_TEST_PG must name a private PostgreSQL server, as postgres://postgres@127.0.0.1:5432/postgres",
        );
        let admin = PgConnectOptions::from_str(&server).unwrap();
        let name = format!("conformance_{:016x}", rand::random::<u64>());
        let mut conn = admin.connect().await.unwrap();
        conn.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
        conn.close().await.unwrap();
        let mut url = url::Url::parse(&server).unwrap();
        url.set_path(&name);
        TestDb {
            db: Db::open(url.as_str(), &Options::default()).unwrap(),
            url: url.into(),
            _folder: None,
            dropped_by: Some((admin, name)),
        }
    }

    /// Runs `f` and commits.
    pub async fn transact<T, F>(&self, f: F) -> Result<T, Error>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<T, Error>> + Send + 'static,
        T: Send + 'static,
    {
        self.db.transact(f).await
    }

    /// Loads what is needed, in a transaction of its own.
    pub async fn load(&self, needs: &Needs, now: Timestamp) -> Loaded {
        let needs = needs.clone();
        self.transact(move |tx| Box::pin(async move { world::load(tx, &needs, now).await }))
            .await
            .unwrap()
    }

    /// Loads, changes and saves in one transaction.
    pub async fn change(
        &self,
        needs: &Needs,
        now: Timestamp,
        f: impl FnOnce(&mut World) + Send + 'static,
    ) -> Result<Saved, Error> {
        let needs = needs.clone();
        self.transact(move |tx| {
            Box::pin(async move {
                let mut loaded = world::load(tx, &needs, now).await?;
                f(&mut loaded.world);
                world::save(tx, &loaded.before, &mut loaded.world, now).await
            })
        })
        .await
    }

    /// Runs one statement and commits.
    pub async fn run(&self, text: &str) -> Result<u64, Error> {
        let sql: &'static Sql = Box::leak(Box::new(Sql::new(text)));
        self.transact(move |tx| Box::pin(async move { tx.run(sql, Vec::new()).await })).await
    }

    /// Waits until readers of append-only tables see every row: on a server shared with other tests
    /// that takes as long as their open transactions do.
    pub async fn settled(&self) {
        let text = "SELECT (SELECT count(*) FROM ledger WHERE NOT SETTLED(ledger))
            + (SELECT count(*) FROM events WHERE NOT SETTLED(events))";
        while self.numbers(text, Vec::new()).await != [0] {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// The one column of each row, a text.
    pub async fn texts(&self, text: &str) -> Vec<String> {
        let sql: &'static Sql = Box::leak(Box::new(Sql::new(text)));
        let rows: Vec<(String,)> = self
            .transact(move |tx| Box::pin(async move { tx.all(sql, Vec::new()).await }))
            .await
            .unwrap();
        rows.into_iter().map(|(text,)| text).collect()
    }

    /// The first column of each row, a number.
    pub async fn numbers(&self, text: &str, args: Vec<Arg>) -> Vec<i64> {
        let sql: &'static Sql = Box::leak(Box::new(Sql::new(text)));
        let rows: Vec<(i64,)> = self
            .transact(move |tx| Box::pin(async move { tx.all(sql, args).await }))
            .await
            .unwrap();
        rows.into_iter().map(|(n,)| n).collect()
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let Some((admin, name)) = self.dropped_by.take() else {
            return;
        };
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut conn = admin.connect().await.unwrap();
                let text = format!("DROP DATABASE {name} WITH (FORCE)");
                conn.execute(sqlx::AssertSqlSafe(text)).await.unwrap();
            });
        });
        let _ = dropped.join();
    }
}

/// A manual clock at `secs`.
pub fn clock(secs: i64) -> Clock {
    Clock::manual(at(secs))
}

/// That many seconds after the epoch.
pub const fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}
