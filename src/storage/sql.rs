//! One SQL text for both databases, and the two ways of running it.
//!
//! A text is written in the subset that both speak, with these few words that differ:
//! - `LIST($1)`, `INTS($1)`: the rows of a list parameter, as in `id IN (LIST($1))`;
//! - `PAIRS($1)`: a table `(a, b)` of pairs of texts, as in `FROM PAIRS($1) AS p`;
//! - `CLOCK()`: the server's clock at this very moment, NULL on SQLite, which has none of its own;
//! - `FOR UPDATE`, `FOR UPDATE SKIP LOCKED`, `FOR UPDATE OF t SKIP LOCKED`: dropped on SQLite,
//!   whose writers are alone anyway;
//! - `SETTLED(t)`: rows of `ledger` or `events` whose writer, and every earlier one, has ended; page
//!   through them by (xact, seq) on PostgreSQL, by seq on SQLite.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{FromRow, Postgres, Sqlite};

use super::cell::Cell;
use super::db::{Conn, Tx};
use super::error::{Error, Result};
use crate::clock::Timestamp;

/// A text in both dialects. Build it once (in a `LazyLock`): statements are cached by it.
pub struct Sql {
    pub(super) sqlite: String,
    pub(super) postgres: String,
}

/// Declares texts that are built at their first use.
macro_rules! texts {
    ($($(#[$doc:meta])* $vis:vis $name:ident = $text:expr;)+) => {$(
        $(#[$doc])*
        $vis static $name: std::sync::LazyLock<$crate::storage::sql::Sql> =
            std::sync::LazyLock::new(|| $crate::storage::sql::Sql::new($text));
    )+};
}
pub(crate) use texts;

impl Sql {
    pub fn new(text: impl AsRef<str>) -> Sql {
        let text = text.as_ref();
        let sqlite = call(text, "LIST", |p| format!("SELECT value FROM json_each({p})"));
        let sqlite = call(&sqlite, "INTS", |p| format!("SELECT value FROM json_each({p})"));
        let sqlite = call(&sqlite, "PAIRS", |p| {
            format!("(SELECT value->>0 AS a, value->>1 AS b FROM json_each({p}))")
        });
        let sqlite = call(&sqlite, "CLOCK", |_| "NULL".to_owned());
        let mut sqlite = call(&sqlite, "SETTLED", |_| "TRUE".to_owned());
        while let Some(at) = sqlite.find("FOR UPDATE") {
            let end = sqlite[at..].find([')', '\n']).map_or(sqlite.len(), |n| at + n);
            sqlite.replace_range(at..end, "");
        }
        let postgres = call(text, "LIST", |p| format!("SELECT unnest({p}::text[])"));
        let postgres = call(&postgres, "INTS", |p| format!("SELECT unnest({p}::bigint[])"));
        let postgres = call(&postgres, "PAIRS", |p| {
            format!("(SELECT e->>0 AS a, e->>1 AS b FROM jsonb_array_elements({p}::jsonb) AS e)")
        });
        let postgres = call(&postgres, "CLOCK", |_| {
            "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint".to_owned()
        });
        let postgres = call(&postgres, "SETTLED", |t| {
            format!("{t}.xact < pg_snapshot_xmin(pg_current_snapshot())")
        });
        Sql { sqlite, postgres }
    }
}

/// Replaces every `word(argument)`.
fn call(text: &str, word: &str, with: impl Fn(&str) -> String) -> String {
    let open = format!("{word}(");
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&open) {
        let (argument, after) = after.split_once(')').unwrap_or((after, ""));
        out.push_str(before);
        out.push_str(&with(argument));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// One parameter.
#[derive(Clone, Debug)]
pub enum Arg {
    Text(Option<String>),
    Int(Option<i64>),
    Texts(Vec<String>),
    Ints(Vec<i64>),
    Pairs(Vec<(String, String)>),
}

impl From<String> for Arg {
    fn from(text: String) -> Arg {
        Arg::Text(Some(text))
    }
}
impl From<&str> for Arg {
    fn from(text: &str) -> Arg {
        Arg::Text(Some(text.to_owned()))
    }
}
impl From<Option<String>> for Arg {
    fn from(text: Option<String>) -> Arg {
        Arg::Text(text)
    }
}
impl From<i64> for Arg {
    fn from(n: i64) -> Arg {
        Arg::Int(Some(n))
    }
}
impl From<Timestamp> for Arg {
    fn from(at: Timestamp) -> Arg {
        Arg::Int(Some(at.0))
    }
}
impl From<Option<Timestamp>> for Arg {
    fn from(at: Option<Timestamp>) -> Arg {
        Arg::Int(at.map(|t| t.0))
    }
}
impl From<Vec<i64>> for Arg {
    fn from(list: Vec<i64>) -> Arg {
        Arg::Ints(list)
    }
}
impl From<Vec<(String, String)>> for Arg {
    fn from(list: Vec<(String, String)>) -> Arg {
        Arg::Pairs(list)
    }
}

/// The names as a list parameter.
pub fn list<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Arg {
    Arg::Texts(names.into_iter().map(|n| n.as_ref().to_owned()).collect())
}

/// A statement's parameters, in order.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$($crate::storage::sql::Arg::from($arg)),*] };
}
pub(crate) use args;

/// What both databases can make of a row.
pub trait FromBoth:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}
impl<T> FromBoth for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Poison(e.to_string()))
}

pub(super) fn sqlite_query(
    text: &'static str,
    args: Vec<Arg>,
) -> Result<Query<'static, Sqlite, SqliteArguments>> {
    args.into_iter().try_fold(sqlx::query::<Sqlite>(text), |query, arg| {
        Ok(match arg.cell()? {
            Cell::Text(text) => query.bind(text),
            Cell::Name(name) => query.bind(name),
            Cell::Word(word) => query.bind(word),
            Cell::Int(n) => query.bind(n),
            Cell::Null => query.bind(None::<i64>),
        })
    })
}

impl Arg {
    /// As SQLite takes it.
    pub(super) fn cell(self) -> Result<Cell> {
        Ok(match self {
            Arg::Text(text) => text.map_or(Cell::Null, Cell::Text),
            Arg::Int(n) => n.map_or(Cell::Null, Cell::Int),
            Arg::Texts(list) => Cell::Text(json(&list)?),
            Arg::Ints(list) => Cell::Text(json(&list)?),
            Arg::Pairs(list) => Cell::Text(json(&list)?),
        })
    }
}

pub(super) fn postgres_query(
    text: &'static str,
    args: Vec<Arg>,
) -> Result<Query<'static, Postgres, PgArguments>> {
    args.into_iter().try_fold(sqlx::query::<Postgres>(text), bind_in_postgres)
}

pub(super) fn bind_in_postgres(
    query: Query<'static, Postgres, PgArguments>,
    arg: Arg,
) -> Result<Query<'static, Postgres, PgArguments>> {
    Ok(match arg {
        Arg::Text(text) => query.bind(text),
        Arg::Int(n) => query.bind(n),
        Arg::Texts(list) => query.bind(list),
        Arg::Ints(list) => query.bind(list),
        Arg::Pairs(list) => query.bind(json(&list)?),
    })
}

impl Tx {
    /// All rows that a statement gives.
    ///
    /// # Errors
    /// The database's, classified. It must be handed on: the transaction is broken then.
    pub async fn all<T: FromBoth>(&mut self, sql: &'static Sql, args: Vec<Arg>) -> Result<Vec<T>> {
        match self.conn() {
            Conn::Sqlite(conn) => sqlite_query(&sql.sqlite, args)?
                .fetch_all(&mut **conn)
                .await?
                .iter()
                .map(|row| T::from_row(row).map_err(Error::from))
                .collect(),
            Conn::Postgres(conn) => postgres_query(&sql.postgres, args)?
                .fetch_all(&mut **conn)
                .await?
                .iter()
                .map(|row| T::from_row(row).map_err(Error::from))
                .collect(),
        }
    }

    /// The first row that a statement gives, if any.
    ///
    /// # Errors
    /// As [`Tx::all`].
    pub async fn first<T: FromBoth>(
        &mut self,
        sql: &'static Sql,
        args: Vec<Arg>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }

    /// Runs a statement; answers how many rows it touched.
    ///
    /// # Errors
    /// As [`Tx::all`].
    pub async fn run(&mut self, sql: &'static Sql, args: Vec<Arg>) -> Result<u64> {
        Ok(match self.conn() {
            Conn::Sqlite(conn) => {
                sqlite_query(&sql.sqlite, args)?.execute(&mut **conn).await?.rows_affected()
            }
            Conn::Postgres(conn) => {
                postgres_query(&sql.postgres, args)?.execute(&mut **conn).await?.rows_affected()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_becomes_two() {
        let sql = Sql::new(
            "WITH l AS MATERIALIZED (SELECT id FROM levels WHERE id IN (LIST($1)) ORDER BY id FOR UPDATE SKIP LOCKED)\nSELECT id FROM l",
        );
        assert_eq!(
            sql.sqlite,
            "WITH l AS MATERIALIZED (SELECT id FROM levels WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id )\nSELECT id FROM l"
        );
        assert_eq!(
            sql.postgres,
            "WITH l AS MATERIALIZED (SELECT id FROM levels WHERE id IN (SELECT unnest($1::text[])) ORDER BY id FOR UPDATE SKIP LOCKED)\nSELECT id FROM l"
        );
    }

    #[test]
    fn settled_rows_stop_before_open_transactions_only_where_there_are_any() {
        let sql = Sql::new("SELECT seq FROM ledger WHERE SETTLED(ledger) LIMIT 1");
        assert_eq!(sql.sqlite, "SELECT seq FROM ledger WHERE TRUE LIMIT 1");
        assert_eq!(
            sql.postgres,
            "SELECT seq FROM ledger WHERE ledger.xact < pg_snapshot_xmin(pg_current_snapshot()) LIMIT 1"
        );
    }
}
