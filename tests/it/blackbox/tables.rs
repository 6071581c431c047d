//! The daemon's tables as a test reads and changes them behind its back: a SQLite file, or, in the
//! deployment of replicas, a database of the test's own on the private PostgreSQL server.
//!
//! `STOCKHOLD_TEST_DEPLOYMENT=replicas` chooses the latter, with the private Redis beside it;
//! `scripts/test` runs every test of the daemon in both.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, FromRow, PgConnection, SqliteConnection};
use tokio::sync::OnceCell;

/// A row that either database can give.
pub trait Row: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<T> Row for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{}

/// Whether tests run against PostgreSQL and Redis.
pub fn replicas() -> bool {
    match std::env::var("STOCKHOLD_TEST_DEPLOYMENT").as_deref() {
        Ok("replicas") => true,
        Ok("embedded") | Err(_) => false,
        Ok(other) => panic!("STOCKHOLD_TEST_DEPLOYMENT is embedded or replicas, not {other}"),
    }
}

/// A private server of the test run.
pub fn service(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} must name a private server"))
}

pub enum Tables {
    File(PathBuf),
    Server(Box<Server>),
}

/// A database of one test.
pub struct Server {
    admin: PgConnectOptions,
    name: String,
    url: String,
    pool: OnceCell<PgPool>,
}

impl Tables {
    pub fn file(path: PathBuf) -> Tables {
        Tables::File(path)
    }

    pub fn server() -> Tables {
        let server = service("STOCKHOLD_TEST_PG");
        let admin = PgConnectOptions::from_str(&server).expect("STOCKHOLD_TEST_PG");
        let name = format!("daemon_{:016x}", rand::random::<u64>());
        administer(&admin, format!("CREATE DATABASE {name}"));
        let mut url = url::Url::parse(&server).expect("a url");
        url.set_path(&name);
        Tables::Server(Box::new(Server { admin, name, url: url.into(), pool: OnceCell::new() }))
    }

    /// As in `[storage] url`.
    pub fn url(&self) -> String {
        match self {
            Tables::File(path) => format!("sqlite://{}", path.display()),
            Tables::Server(server) => server.url.clone(),
        }
    }

    /// Rows as they are committed now; `$1` and so on are texts.
    pub async fn rows<T: Row>(&self, sql: &str, args: &[&str]) -> Vec<T> {
        let found = self.try_rows(sql, args).await;
        found.unwrap_or_else(|e| panic!("{e}: {sql}"))
    }

    /// # Errors
    /// The database's.
    pub async fn try_rows<T: Row>(&self, sql: &str, args: &[&str]) -> sqlx::Result<Vec<T>> {
        let text = AssertSqlSafe(sql.to_owned());
        match self {
            Tables::File(path) => {
                let mut connection = open(path).await?;
                let mut query = sqlx::query_as(text);
                for arg in args {
                    query = query.bind((*arg).to_owned());
                }
                query.fetch_all(&mut connection).await
            }
            Tables::Server(server) => {
                let mut query = sqlx::query_as(text);
                for arg in args {
                    query = query.bind((*arg).to_owned());
                }
                query.fetch_all(server.pool().await).await
            }
        }
    }

    /// # Errors
    /// The database's, and when there is no row.
    pub async fn try_number(&self, sql: &str) -> sqlx::Result<i64> {
        // PostgreSQL's sums are wider.
        let whole = format!("SELECT CAST(n AS BIGINT) FROM ({sql}) AS t(n)");
        let sql = if matches!(self, Tables::File(_)) { sql } else { &whole };
        let rows: Vec<(i64,)> = self.try_rows(sql, &[]).await?;
        rows.first().map(|(n,)| *n).ok_or(sqlx::Error::RowNotFound)
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.try_number(sql).await.unwrap_or_else(|e| panic!("{e}: {sql}"))
    }

    /// Runs statements.
    pub async fn run(&self, sql: &str) {
        let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let ran = match self {
            Tables::File(path) => {
                let mut connection = open(path).await.expect("the database opens");
                text.execute(&mut connection).await.map(drop)
            }
            Tables::Server(server) => text.execute(server.pool().await).await.map(drop),
        };
        ran.unwrap_or_else(|e| panic!("{e}: {sql}"));
    }

    /// A copy as it is now, while no daemon runs; what `restore` takes.
    pub async fn backup(&self) -> Backup {
        match self {
            Tables::File(path) => {
                let mut connection = open(path).await.expect("the database opens");
                let copy = path.with_extension("backup");
                let text = AssertSqlSafe(format!("VACUUM INTO '{}'", copy.display()));
                sqlx::raw_sql(text).execute(&mut connection).await.expect("a copy");
                Backup::File(copy)
            }
            Tables::Server(server) => {
                let name = format!("{}_backup", server.name);
                server.copy(&server.name, &name);
                Backup::Server { admin: Box::new(server.admin.clone()), name }
            }
        }
    }

    /// Puts a backup in the place of what is there, while no daemon runs.
    pub async fn restore(&self, backup: &Backup) {
        match (self, backup) {
            (Tables::File(path), Backup::File(copy)) => {
                for rest in ["db-wal", "db-shm"] {
                    let _ = std::fs::remove_file(path.with_extension(rest));
                }
                // A file of its own: what still has the old one open must not write to this.
                let whole = path.with_extension("restored");
                std::fs::copy(copy, &whole).expect("copied");
                std::fs::rename(whole, path).expect("restored");
            }
            (Tables::Server(server), Backup::Server { name, .. }) => {
                administer(&server.admin, format!("DROP DATABASE {} WITH (FORCE)", server.name));
                server.copy(name, &server.name);
            }
            _ => panic!("another database's backup"),
        }
    }

    /// Keeps every group of commands from being written until the lock is let go.
    pub async fn hold_up(&self) -> Lock {
        match self {
            Tables::File(path) => {
                let mut connection = open(path).await.expect("the database opens");
                let begin = sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await;
                begin.expect("the write lock");
                Lock::File(connection)
            }
            Tables::Server(server) => {
                let options = PgConnectOptions::from_str(&server.url).expect("a url");
                let mut connection = options.connect().await.expect("the database opens");
                let text = "BEGIN; LOCK TABLE command_groups IN EXCLUSIVE MODE";
                connection.execute(text).await.expect("the table's lock");
                Lock::Server(connection)
            }
        }
    }
}

/// See [`Tables::backup`].
pub enum Backup {
    File(PathBuf),
    Server { admin: Box<PgConnectOptions>, name: String },
}

impl Drop for Backup {
    fn drop(&mut self) {
        if let Backup::Server { admin, name } = self {
            administer(admin, format!("DROP DATABASE {name} WITH (FORCE)"));
        }
    }
}

/// See [`Tables::hold_up`].
pub enum Lock {
    File(SqliteConnection),
    Server(PgConnection),
}

impl Lock {
    pub async fn release(self) {
        self.end("ROLLBACK".to_owned()).await;
    }

    /// With a change that is there once it is released.
    pub async fn release_with(self, change: &str) {
        self.end(format!("{change}; COMMIT")).await;
    }

    async fn end(self, text: String) {
        let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(text));
        match self {
            Lock::File(mut c) => sql.execute(&mut c).await.map(drop),
            Lock::Server(mut c) => sql.execute(&mut c).await.map(drop),
        }
        .expect("given back");
    }
}

impl Server {
    fn copy(&self, from: &str, to: &str) {
        administer(
            &self.admin,
            format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'"
            ),
        );
        administer(&self.admin, format!("CREATE DATABASE {to} TEMPLATE {from}"));
    }

    async fn pool(&self) -> &PgPool {
        let connect = || async {
            let options = PgConnectOptions::from_str(&self.url).expect("a url");
            PgPoolOptions::new().max_connections(2).connect_lazy_with(options)
        };
        self.pool.get_or_init(connect).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        administer(&self.admin, format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Runs a statement on the server from a place that cannot wait.
fn administer(admin: &PgConnectOptions, sql: String) {
    let admin = admin.clone();
    let ran = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async move {
            let mut connection = admin.connect().await?;
            connection.execute(AssertSqlSafe(sql)).await.map(drop)
        })
    });
    let ran: sqlx::Result<()> = ran.join().expect("a thread");
    assert!(ran.is_ok() || std::thread::panicking(), "{ran:?}");
}

async fn open(path: &Path) -> sqlx::Result<SqliteConnection> {
    let busy = Duration::from_secs(60);
    SqliteConnectOptions::new().filename(path).busy_timeout(busy).connect().await
}
