//! The schema: applied by [`Db::migrate`], checked by [`Db::check_schema`] at every start.
//!
//! What must hold: a database that is ahead of this program is never written to, one that is behind
//! neither; both say so in words.

use std::collections::BTreeSet;
use std::path::Path;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, Executor};

use super::db::{Db, Pools};
use super::error::{Error, Result};
use super::sql::texts;

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

texts! {
    APPLIED = "SELECT version FROM _sqlx_migrations WHERE success ORDER BY version";
}

/// After a restore into another server its transaction numbers may be lower than those stored, and
/// rows would seem to be written by transactions that are still open: they are all made old.
const ADOPT: [&str; 2] = [
    "UPDATE ledger SET xact = '3' WHERE pg_snapshot_xmax(pg_current_snapshot())
        <= (SELECT xact FROM ledger ORDER BY xact DESC LIMIT 1)",
    "UPDATE events SET xact = '3' WHERE pg_snapshot_xmax(pg_current_snapshot())
        <= (SELECT xact FROM events ORDER BY xact DESC LIMIT 1)",
];

impl Db {
    /// Brings the schema up to this program's (SQLite: makes the file with its folder). Doing it
    /// again does nothing; replicas that start together wait for each other. To be run after a
    /// restore from backup too.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the schema is newer, was changed by hand, or cannot be made.
    pub async fn migrate(&self) -> Result<()> {
        match &self.pools {
            Pools::Sqlite { writer, .. } => {
                make_folder(writer.connect_options().get_filename())?;
                let mut conn = writer.acquire().await?.detach();
                SQLITE.run_direct(None, &mut conn, false).await.map_err(explain)?;
                conn.close().await?;
            }
            Pools::Postgres { writers, .. } => {
                // Detached: after a failure it still has the migrations' lock.
                let mut conn = writers.acquire().await?.detach();
                conn.execute("SET statement_timeout = 0; SET lock_timeout = 0").await?;
                POSTGRES.run_direct(None, &mut conn, false).await.map_err(explain)?;
                for adopt in ADOPT {
                    conn.execute(adopt).await?;
                }
                conn.close().await?;
            }
        }
        Ok(())
    }

    /// Whether the schema is exactly this program's, asked by reading only.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what to do, when it is not or cannot be told.
    pub async fn check_schema(&self) -> Result<()> {
        let applied: Vec<(i64,)> =
            match self.read(|tx| Box::pin(async move { tx.all(&APPLIED, Vec::new()).await })).await
            {
                Err(Error::Unavailable(why)) if why.contains("_sqlx_migrations") => Vec::new(),
                other => other?,
            };
        let applied: BTreeSet<i64> = applied.into_iter().map(|(version,)| version).collect();
        let known: BTreeSet<i64> = self.migrator().iter().map(|m| m.version).collect();
        if let Some(version) = applied.difference(&known).last() {
            return Err(too_new(*version));
        }
        match known.difference(&applied).next() {
            Some(version) => Err(Error::Unavailable(format!(
                "the database's schema is behind this version of stockhold (migration {version} is missing): run `stockhold migrate`"
            ))),
            None => Ok(()),
        }
    }

    fn migrator(&self) -> &'static Migrator {
        if self.is_sqlite() { &SQLITE } else { &POSTGRES }
    }
}

fn make_folder(file: &Path) -> Result<()> {
    match file.parent().filter(|f| !f.as_os_str().is_empty()) {
        None => Ok(()),
        Some(folder) => std::fs::create_dir_all(folder).map_err(|e| {
            Error::Unavailable(format!("the folder {} cannot be made: {e}", folder.display()))
        }),
    }
}

fn too_new(version: i64) -> Error {
    Error::Unavailable(format!(
        "the database's schema is newer than this version of stockhold (it has migration {version}): run the newer version"
    ))
}

fn explain(error: MigrateError) -> Error {
    match error {
        MigrateError::VersionMissing(version) => too_new(version),
        MigrateError::VersionMismatch(version) => Error::Unavailable(format!(
            "migration {version} was applied in another form than this version of stockhold has"
        )),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            match Error::from(error) {
                Error::Poison(why) => {
                    Error::Unavailable(format!("the schema cannot be made: {why}"))
                }
                other => other,
            }
        }
        other => Error::Unavailable(format!("the schema cannot be made: {other}")),
    }
}
