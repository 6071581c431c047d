//! Where orders are kept: fresh databases for every measurement, made by the daemon's own migrations and
//! stocked by plain SQL, and a connection beside the daemon's to read the books.
//!
//! What must hold: what is seeded satisfies the books (a level's figures are the sums of its ledger
//! entries and of its holds). PostgreSQL and Redis are those that `scripts/bench` started.

use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::cells::SKUS;
use crate::schemes::Failure;

pub const DAEMON: &str = env!("CARGO_BIN_EXE_stockhold");
/// Units on a shelf that must not run out.
pub const PLENTY: i64 = 1_000_000_000;

/// The servers, the folder, and the stocked stores that others are copies of.
pub struct Stage {
    pub folder: TempDir,
    admin: PgConnectOptions,
    server: String,
    pub redis: String,
    sqlite: OnceCell<Store>,
    postgres: OnceCell<Store>,
}

/// One database.
#[derive(Clone, Debug)]
pub enum Store {
    File(PathBuf),
    Server { url: String, name: String },
}

/// A connection to it.
pub enum Conn {
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<PgConnection>),
}

const POSTGRES: &str = "STOCKHOLD_TEST_PG";
const REDIS: &str = "STOCKHOLD_TEST_REDIS";

/// Whether somebody has started what is needed.
pub fn has_services() -> bool {
    [POSTGRES, REDIS].iter().all(|name| std::env::var_os(name).is_some())
}

fn service(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| format!("{name} is not set: run scripts/bench").into())
}

impl Stage {
    pub fn open() -> Result<Stage, Failure> {
        let server = service(POSTGRES)?;
        Ok(Stage {
            folder: TempDir::with_prefix("stockhold-bench-")?,
            admin: PgConnectOptions::from_str(&server)?,
            server,
            redis: service(REDIS)?,
            sqlite: OnceCell::new(),
            postgres: OnceCell::new(),
        })
    }

    async fn administer(&self, text: String) -> Result<(), Failure> {
        let mut conn = self.admin.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut conn).await?;
        conn.close().await?;
        Ok(())
    }

    fn file(&self, name: &str) -> Store {
        Store::File(self.folder.path().join(format!("{name}.db")))
    }

    fn database(&self, name: &str) -> Result<Store, Failure> {
        let mut url = url::Url::parse(&self.server)?;
        url.set_path(name);
        Ok(Store::Server { url: url.into(), name: name.to_owned() })
    }

    /// A store with nothing but its schema.
    pub async fn empty(&self, sqlite: bool, name: &str) -> Result<Store, Failure> {
        let store = if sqlite {
            self.file(name)
        } else {
            self.administer(format!("CREATE DATABASE {name}")).await?;
            self.database(name)?
        };
        let mut migrate = Command::new(DAEMON);
        migrate.arg("migrate").env("STOCKHOLD_STORAGE__URL", store.url());
        migrate
            .stdout(std::process::Stdio::null())
            .env("STOCKHOLD_LOG", "error")
            .current_dir(self.folder.path());
        if migrate.status().await?.success() { Ok(store) } else { Err("migrate failed".into()) }
    }

    /// A fresh store with [`SKUS`] SKUs of [`PLENTY`] each, the first with `stock` if that is given.
    pub async fn stocked(&self, sqlite: bool, stock: Option<i64>) -> Result<Store, Failure> {
        let model = if sqlite { &self.sqlite } else { &self.postgres };
        let model = model.get_or_try_init(|| self.model(sqlite)).await?;
        let store = self.copy_of(model).await?;
        if let Some(units) = stock {
            let mut conn = store.connect().await?;
            for text in [
                format!("UPDATE levels SET quantity = {units} WHERE id = 'main:BENCH-1'"),
                format!("UPDATE ledger SET by_quantity = {units} WHERE level_id = 'main:BENCH-1'"),
            ] {
                conn.execute(&text).await?;
            }
            conn.close().await?;
        }
        Ok(store)
    }

    /// A copy of a store that nobody has open, in the place of the last one.
    pub async fn copy_of(&self, model: &Store) -> Result<Store, Failure> {
        match model {
            Store::File(path) => {
                let store = self.file("bench");
                self.remove(&store).await?;
                std::fs::copy(path, self.folder.path().join("bench.db"))?;
                Ok(store)
            }
            Store::Server { name, .. } => {
                let store = self.database("bench")?;
                self.remove(&store).await?;
                let create = format!("CREATE DATABASE bench TEMPLATE {name} STRATEGY FILE_COPY");
                self.administer(create).await?;
                Ok(store)
            }
        }
    }

    async fn model(&self, sqlite: bool) -> Result<Store, Failure> {
        let store = self.empty(sqlite, "model").await?;
        let mut conn = store.connect().await?;
        stock(&mut conn, SKUS).await?;
        conn.settle().await?;
        conn.close().await?;
        Ok(store)
    }

    pub async fn remove(&self, store: &Store) -> Result<(), Failure> {
        match store {
            Store::File(path) => {
                for suffix in ["", "-wal", "-shm"] {
                    let mut file = path.clone().into_os_string();
                    file.push(suffix);
                    match std::fs::remove_file(file) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(error.into());
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            Store::Server { name, .. } => {
                self.administer(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await
            }
        }
    }
}

impl Store {
    pub fn url(&self) -> String {
        match self {
            Store::File(path) => format!("sqlite://{}", path.display()),
            Store::Server { url, .. } => url.clone(),
        }
    }

    pub async fn connect(&self) -> Result<Conn, Failure> {
        Ok(match self {
            Store::File(path) => {
                let connect = SqliteConnectOptions::new().filename(path);
                let connect = connect.busy_timeout(std::time::Duration::from_secs(30));
                Conn::Sqlite(Box::new(connect.connect().await?))
            }
            Store::Server { url, .. } => {
                Conn::Postgres(Box::new(PgConnectOptions::from_str(url)?.connect().await?))
            }
        })
    }
}

macro_rules! on {
    ($conn:expr, $c:ident => $body:expr) => {
        match $conn {
            Conn::Sqlite($c) => $body,
            Conn::Postgres($c) => $body,
        }
    };
}

impl Conn {
    pub async fn execute(&mut self, text: &str) -> Result<(), Failure> {
        let text = AssertSqlSafe(text.to_owned());
        on!(self, c => { sqlx::raw_sql(text).execute(&mut **c).await?; });
        Ok(())
    }

    /// The one figure of a question; none is 0.
    pub async fn number(&mut self, text: &str) -> Result<i64, Failure> {
        let text = AssertSqlSafe(text.to_owned());
        let found: Option<Option<i64>> =
            on!(self, c => sqlx::query_scalar(text).fetch_optional(&mut **c).await?);
        Ok(found.flatten().unwrap_or(0))
    }

    pub async fn texts(&mut self, text: &str) -> Result<Vec<String>, Failure> {
        let text = AssertSqlSafe(text.to_owned());
        Ok(on!(self, c => sqlx::query_scalar(text).fetch_all(&mut **c).await?))
    }

    /// After a mass of writes: statistics, and nothing left for later.
    pub async fn settle(&mut self) -> Result<(), Failure> {
        match self {
            Conn::Sqlite(_) => self.execute("ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)").await,
            Conn::Postgres(_) => {
                self.execute("VACUUM ANALYZE").await?;
                self.execute("CHECKPOINT").await
            }
        }
    }

    pub async fn close(self) -> Result<(), Failure> {
        on!(self, c => c.close().await?);
        Ok(())
    }
}

/// `BENCH-1` to `BENCH-n` with [`PLENTY`] each on the shelf `main`.
pub async fn stock(conn: &mut Conn, n: u64) -> Result<(), Failure> {
    let all =
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})");
    for text in [
        format!(
            "{all} INSERT INTO skus (key, title, class) SELECT 'BENCH-' || i, 'BENCH-' || i, \
             'normal' FROM n"
        ),
        format!(
            "{all} INSERT INTO sku_sources (sku, position, source, kind, level_id, min_quantity, \
             pack_size) SELECT 'BENCH-' || i, 1, 'main', 'warehouse', 'main:BENCH-' || i, 1, 1 FROM n"
        ),
        format!(
            "{all} INSERT INTO levels (id, source, kind, quantity, held, committed, version, \
             listing, lag_samples, lock_token) SELECT 'main:BENCH-' || i, 'main', 'warehouse', \
             {PLENTY}, 0, 0, 1, 'listed', '[]', 0 FROM n"
        ),
        format!(
            "{all} INSERT INTO ledger (at, level_id, sku, event, by_quantity, by_held, \
             by_committed, note) SELECT 0, 'main:BENCH-' || i, 'BENCH-' || i, 'correction', \
             {PLENTY}, 0, 0, 'count' FROM n"
        ),
    ] {
        conn.execute(&text).await?;
    }
    Ok(())
}
