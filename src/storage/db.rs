//! The two databases, and the only two ways to use them: [`Db::transact`] and [`Db::read`].
//!
//! What must hold: whatever becomes of the caller, a transaction runs to its end in a task of its
//! own (a cancelled `begin` would leave an open transaction on a pooled connection, sqlx #4385), and
//! a connection whose transaction did not end cleanly is closed and never used again.
//! SQLite has one writer; `BEGIN IMMEDIATE`, since a deferred transaction that upgrades fails at
//! once with BUSY. Both flush to disk before a commit is answered.

use std::str::FromStr;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Pool, Postgres, Sqlite};
use tokio_util::task::TaskTracker;

use super::checkpoints::WRITER_AT_PAGES;
use super::error::{Error, Result};
use super::sql::texts;
use crate::clock::{Clock, Span, Timestamp};

/// The name of a daemon's connections.
pub(super) const APPLICATION: &str = "stockhold";

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections for transactions that write (PostgreSQL; SQLite has one).
    pub writers: u32,
    /// Connections for reads.
    pub readers: u32,
    /// Longest wait for a free connection.
    pub acquire_timeout: Duration,
    /// How PostgreSQL shows the connections.
    pub application: &'static str,
    /// Longest transaction; one that takes longer is given up and its connection closed.
    pub transaction_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            writers: 10,
            readers: 10,
            acquire_timeout: Duration::from_secs(5),
            application: APPLICATION,
            transaction_timeout: Duration::from_secs(15),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Pools {
    Sqlite { writer: Pool<Sqlite>, readers: Pool<Sqlite> },
    Postgres { writers: Pool<Postgres>, readers: Pool<Postgres> },
}

/// An open database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Db {
    pub(super) pools: Pools,
    transaction_timeout: Duration,
    tasks: TaskTracker,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Write,
    Read,
}

impl Db {
    /// Opens `sqlite://path` or `postgres://…`. Touches nothing yet: connections are made when they
    /// are needed, file and schema by [`Db::migrate`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the url is not understood.
    pub fn open(url: &str, options: &Options) -> Result<Db> {
        let pools = if url.starts_with("sqlite:") {
            open_sqlite(url, options)?
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            open_postgres(url, options)?
        } else {
            return Err(Error::Unavailable(
                "storage.url must begin with sqlite:// or postgres://".into(),
            ));
        };
        Ok(Db {
            pools,
            transaction_timeout: options.transaction_timeout,
            tasks: TaskTracker::new(),
        })
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(self.pools, Pools::Sqlite { .. })
    }

    /// Runs `f` in a transaction that may write, and commits when it answers `Ok`. The caller may
    /// go away meanwhile. An error of a statement must be handed on by `f`.
    ///
    /// # Errors
    /// What `f` answers (rolled back), or the database's.
    pub async fn transact<T, E, F>(&self, f: F) -> std::result::Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, std::result::Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.spawn(Mode::Write, f).await
    }

    /// Runs `f` on one consistent picture of the data; nothing can be written.
    ///
    /// # Errors
    /// What `f` answers, or the database's.
    pub async fn read<T, E, F>(&self, f: F) -> std::result::Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, std::result::Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.spawn(Mode::Read, f).await
    }

    /// The server's clock, which replicas share; `None` with SQLite. Read in the middle of the time
    /// that the question took, so that the answer is off by less than half of it.
    ///
    /// # Errors
    /// The database's.
    pub async fn server_clock(&self) -> Result<Option<Timestamp>> {
        if self.is_sqlite() {
            return Ok(None);
        }
        let read = self.read(|tx| {
            Box::pin(async move {
                let asked = Instant::now();
                let shown = tx.server_clock().await?;
                Ok(Some(shown + Span::from_std(asked.elapsed() / 2)))
            })
        });
        read.await
    }

    /// Waits for the transactions under way and closes all connections.
    pub async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        match &self.pools {
            Pools::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Pools::Postgres { writers, readers } => {
                readers.close().await;
                writers.close().await;
            }
        }
    }

    /// SQLite: moves what is committed from the log into the file, beside the writer. Answers how many
    /// pages of the log, as it stands, have been moved; -1 where somebody else is at it.
    pub(super) async fn checkpoint(&self) -> Result<i64> {
        let Pools::Sqlite { readers, .. } = &self.pools else { return Ok(0) };
        let mut conn = readers.acquire().await?;
        let done = sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *conn).await?;
        let (_busy, _log, moved): (i64, i64, i64) = done;
        Ok(moved)
    }

    async fn spawn<T, E, F>(&self, mode: Mode, f: F) -> std::result::Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, std::result::Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let db = self.clone();
        let task = self.tasks.spawn(async move { db.run(mode, f).await });
        task.await.unwrap_or_else(|died| {
            Err(E::from(if died.is_panic() {
                Error::Poison(format!("a transaction's task failed: {died}"))
            } else {
                Error::CommitUnknown("the transaction's task was stopped".into())
            }))
        })
    }

    async fn run<T, E, F>(&self, mode: Mode, f: F) -> std::result::Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, std::result::Result<T, E>>,
        E: From<Error>,
    {
        let limit = self.transaction_timeout;
        let too_long = || Error::Unavailable(format!("the transaction took longer than {limit:?}"));
        let begun = tokio::time::timeout(limit, self.begin(mode)).await;
        let mut tx = begun.map_err(|_| too_long())??;
        match tokio::time::timeout(limit, f(&mut tx)).await {
            Err(_) => Err(too_long().into()),
            Ok(Err(error)) => {
                let _ = tokio::time::timeout(limit, tx.end("ROLLBACK")).await;
                Err(error)
            }
            Ok(Ok(value)) => match tokio::time::timeout(limit, tx.end("COMMIT")).await {
                Ok(Ok(())) => Ok(value),
                Ok(Err(error)) => {
                    let error = Error::of_commit(error);
                    if !matches!(error, Error::CommitUnknown(_)) {
                        let _ = tokio::time::timeout(limit, tx.end("ROLLBACK")).await;
                    }
                    Err(error.into())
                }
                Err(_) => {
                    Err(Error::CommitUnknown(format!("the commit took longer than {limit:?}"))
                        .into())
                }
            },
        }
    }

    /// Begins on a fresh connection when pooled ones turn out to have died.
    async fn begin(&self, mode: Mode) -> Result<Tx> {
        let mut died = 0;
        loop {
            let mut tx = Tx { conn: self.acquire(mode).await?, open: true };
            let begun = match (&mut tx.conn, mode) {
                (Conn::Sqlite(c), Mode::Write) => sql(&mut **c, "BEGIN IMMEDIATE").await,
                (Conn::Sqlite(c), Mode::Read) => sql(&mut **c, "BEGIN").await,
                (Conn::Postgres(c), Mode::Write) => sql(&mut **c, "BEGIN").await,
                (Conn::Postgres(c), Mode::Read) => {
                    let text = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                    sql(&mut **c, text).await
                }
            };
            match begun {
                Ok(()) => return Ok(tx),
                Err(error) if died < 64 && is_dead(&error) => died += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn acquire(&self, mode: Mode) -> Result<Conn> {
        Ok(match (&self.pools, mode) {
            (Pools::Sqlite { writer, .. }, Mode::Write) => Conn::Sqlite(writer.acquire().await?),
            (Pools::Sqlite { readers, .. }, Mode::Read) => Conn::Sqlite(readers.acquire().await?),
            (Pools::Postgres { writers, .. }, Mode::Write) => {
                Conn::Postgres(writers.acquire().await?)
            }
            (Pools::Postgres { readers, .. }, Mode::Read) => {
                Conn::Postgres(readers.acquire().await?)
            }
        })
    }
}

/// A connection of either database.
#[derive(Debug)]
pub enum Conn {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

/// A transaction under way.
#[derive(Debug)]
pub struct Tx {
    conn: Conn,
    open: bool,
}

texts! {
    SERVER_CLOCK = "SELECT CLOCK()";
}

impl Tx {
    pub(super) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// The time to decide by: PostgreSQL's own (the replicas' clocks may differ), read now, so call
    /// it after the locks are taken; with SQLite, or a clock moved by a test, the clock's.
    ///
    /// # Errors
    /// The database's.
    pub async fn now(&mut self, clock: &Clock) -> Result<Timestamp> {
        match self.own_time(clock) {
            Some(now) => Ok(now),
            None => self.server_clock().await,
        }
    }

    /// What [`Tx::now`] says, unless the server has to be asked.
    pub fn own_time(&self, clock: &Clock) -> Option<Timestamp> {
        let own = clock.is_manual() || matches!(self.conn, Conn::Sqlite(_));
        own.then(|| clock.now())
    }

    async fn server_clock(&mut self) -> Result<Timestamp> {
        let row: Option<(i64,)> = self.first(&SERVER_CLOCK, Vec::new()).await?;
        row.map(|(micros,)| Timestamp(micros))
            .ok_or_else(|| Error::Unavailable("the database told no time".into()))
    }

    async fn end(&mut self, text: &'static str) -> std::result::Result<(), sqlx::Error> {
        match &mut self.conn {
            Conn::Sqlite(c) => sql(&mut **c, text).await?,
            Conn::Postgres(c) => sql(&mut **c, text).await?,
        }
        self.open = false;
        Ok(())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if self.open {
            match &mut self.conn {
                Conn::Sqlite(c) => c.close_on_drop(),
                Conn::Postgres(c) => c.close_on_drop(),
            }
        }
    }
}

async fn sql<'c, DB: sqlx::Database>(
    conn: impl sqlx::Executor<'c, Database = DB>,
    text: &'static str,
) -> std::result::Result<(), sqlx::Error> {
    sqlx::raw_sql(text).execute(conn).await.map(drop)
}

/// The connection is gone, and nothing was asked on it yet.
fn is_dead(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(e) => {
            e.code().is_some_and(|c| c.starts_with("57P") || c.starts_with("08") || c == "25P03")
        }
        _ => false,
    }
}

fn open_sqlite(url: &str, options: &Options) -> Result<Pools> {
    let connect = SqliteConnectOptions::from_str(url)?
        .busy_timeout(Duration::from_secs(5))
        .pragma("temp_store", "memory");
    let nameless = connect.get_filename().as_os_str().is_empty();
    if url.contains(":memory:") || url.contains("mode=memory") || nameless {
        return Err(Error::Unavailable(
            "an in-memory SQLite database is not supported: name a file".into(),
        ));
    }
    let pool = |connections: u32| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(options.acquire_timeout)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
    };
    let writer = connect
        .clone()
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", WRITER_AT_PAGES.to_string())
        .pragma("cache_size", "-65536"); // KiB
    let reader = connect.create_if_missing(true).pragma("query_only", "on");
    Ok(Pools::Sqlite {
        writer: pool(1).connect_lazy_with(writer),
        readers: pool(options.readers.max(1)).connect_lazy_with(reader),
    })
}

fn open_postgres(url: &str, options: &Options) -> Result<Pools> {
    // Bounded waits: a lock or a statement that takes this long is given up and done again; and a
    // replica that stands still in a transaction keeps its locks for less than others wait for them.
    let connect = PgConnectOptions::from_str(url)?
        .application_name(options.application)
        .statement_cache_capacity(256)
        .options([
            ("synchronous_commit", "on"),
            ("idle_in_transaction_session_timeout", "5s"),
            ("client_min_messages", "warning"),
            // Every statement follows an index, and finds few rows. A plan that was made while a table
            // was empty is kept as the table grows, and must not be one that reads all of it.
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            // So a plan that fits the values given now is no better, and takes long to find each time.
            ("plan_cache_mode", "force_generic_plan"),
            ("jit", "off"),
            ("lock_timeout", "10s"),
            ("statement_timeout", "15s"),
            ("tcp_keepalives_idle", "10"),
            ("tcp_keepalives_interval", "5"),
            ("tcp_keepalives_count", "3"),
            ("timezone", "UTC"),
        ]);
    let pool = |connections: u32| {
        PgPoolOptions::new()
            .max_connections(connections.max(1))
            .acquire_timeout(options.acquire_timeout)
            .test_before_acquire(false) // see `Db::begin`
            .connect_lazy_with(connect.clone())
    };
    Ok(Pools::Postgres { writers: pool(options.writers), readers: pool(options.readers) })
}
