//! Bulk writes: many rows of a table in one statement (SQLite: `VALUES`, in a few fixed sizes filled up
//! with empty rows, so that a handful of prepared statements serves groups of every size; PostgreSQL: a
//! column array each, unnested side by side), and many such statements in one round trip ([`Batch`]).
//!
//! What must hold: every bulk write compares the rows it touched with the rows it was given, and an
//! update also compares the guard columns with what they were, so that each is a compare-and-set.

use std::sync::OnceLock;

use futures::TryStreamExt;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Executor, Postgres, Row, Sqlite};

use super::cell::{Cell, Type};
use super::db::{Conn, Tx};
use super::error::{Error, Result};
use super::sql::FromBoth;
use super::table::{Column, Table};

/// A table's bulk statements.
pub struct Texts {
    insert: Bulk,
    update: Bulk,
}

/// Rows in one SQLite statement. The largest has 9,000 parameters or so of the 32,766 there may be.
const SIZES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, LARGEST];
const LARGEST: usize = 256;

/// A statement around a SELECT of the rows that it is given.
pub struct Bulk {
    table: &'static str,
    /// A column that is never empty.
    key: &'static str,
    columns: Vec<(String, Type)>,
    before: String,
    after: String,
    /// One for each of [`SIZES`], made when it is first used.
    sqlite: [OnceLock<String>; SIZES.len()],
    postgres: String,
}

impl Bulk {
    /// An INSERT that goes on with `then` (`ON CONFLICT …`, `RETURNING …`), the same on both.
    pub fn insert<T: Table>(then: &str) -> Bulk {
        let columns = T::COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
        Bulk::new::<T>(
            columns.collect(),
            format!("INSERT INTO {} ({}) ", T::NAME, T::LIST),
            format!(" {then}"),
        )
    }

    /// An UPDATE by key, of the rows whose guard columns are what they were.
    pub fn update<T: Table>() -> Bulk {
        let assignments = T::COLUMNS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !T::KEY.contains(name))
            .map(|name| format!("{name} = u.{name}"))
            .collect::<Vec<_>>()
            .join(", ");
        let same = T::KEY.iter().map(|k| format!("t.{k} = u.{k}"));
        let guarded = T::GUARD.iter().map(|g| format!("t.{g} IS NOT DISTINCT FROM u.was_{g}"));
        let conditions = same.chain(guarded).collect::<Vec<_>>().join(" AND ");
        let own = T::COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
        let was = guards::<T>().map(|(_, (name, kind))| (format!("was_{name}"), kind));
        Bulk::new::<T>(
            own.chain(was).collect(),
            format!("UPDATE {} AS t SET {assignments} FROM (", T::NAME),
            format!(") AS u WHERE {conditions}"),
        )
    }

    fn new<T: Table>(columns: Vec<(String, Type)>, before: String, after: String) -> Bulk {
        let (sqlite, postgres) = (Default::default(), String::new());
        let (table, key) = (T::NAME, T::KEY[0]); // `table!` takes no fewer than one
        let mut bulk = Bulk { table, key, columns, before, after, sqlite, postgres };
        bulk.postgres = bulk.postgres_from(1);
        bulk
    }

    fn names(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// SQLite's text for so many rows or a few more, and for how many. Empty rows are passed over; that
    /// there is a WHERE also tells SQLite that an ON behind it is no join's.
    fn sqlite(&self, rows: usize) -> (&str, usize) {
        let at = SIZES.iter().position(|size| *size >= rows).unwrap_or(SIZES.len() - 1);
        let text = self.sqlite[at].get_or_init(|| {
            let names = self.names();
            let row = format!("({})", vec!["?"; self.columns.len()].join(", "));
            let rows = vec![row; SIZES[at]].join(", ");
            let Bulk { key, before, after, .. } = self;
            format!(
                "WITH r({names}) AS (VALUES {rows}) \
                 {before}SELECT {names} FROM r WHERE {key} IS NOT NULL{after}; "
            )
        });
        (text, SIZES[at])
    }

    /// PostgreSQL's text, its parameters numbered from `first` on. The arrays are unnested side by side
    /// in a SELECT's list: `FROM UNNEST(a, b, …)` first makes a table of each, which took five times as
    /// long, and most of the time of the whole write.
    fn postgres_from(&self, first: usize) -> String {
        let arrays = self.columns.iter().zip(first..).map(|((name, kind), i)| match kind {
            Type::Text => format!("unnest(${i}::text[]) AS {name}"),
            Type::Int => format!("unnest(${i}::bigint[]) AS {name}"),
        });
        let arrays = arrays.collect::<Vec<_>>().join(", ");
        let Bulk { before, after, .. } = self;
        format!("{before}SELECT {} FROM (SELECT {arrays}) AS u{after}", self.names())
    }
}

impl Texts {
    pub fn of<T: Table>() -> Texts {
        Texts { insert: Bulk::insert::<T>(""), update: Bulk::update::<T>() }
    }
}

/// The guard columns with their places.
fn guards<T: Table>() -> impl Iterator<Item = (usize, Column)> {
    T::COLUMNS.iter().copied().enumerate().filter(|(_, (name, _))| T::GUARD.contains(name))
}

/// A row as it shall be, followed by what its guards were.
fn guarded<T: Table>(was: T, row: T) -> Vec<Cell> {
    let was = was.cells();
    let mut cells = row.cells();
    cells.extend(guards::<T>().filter_map(|(i, _)| was.get(i).cloned()));
    cells
}

/// Bulk writes that travel together: one after the other on SQLite, one statement on PostgreSQL.
/// None may depend on what another of them wrote.
#[derive(Default)]
pub struct Batch {
    writes: Vec<Write>,
}

struct Write {
    bulk: &'static Bulk,
    rows: Vec<Vec<Cell>>,
}

impl Batch {
    /// Inserts the rows.
    pub fn insert<T: Table>(&mut self, rows: Vec<T>) {
        self.insert_with(&T::texts().insert, rows);
    }

    /// Inserts the rows by a statement that touches one row for each.
    pub fn insert_with<T: Table>(&mut self, bulk: &'static Bulk, rows: Vec<T>) {
        self.add(bulk, rows.into_iter().map(T::cells).collect());
    }

    /// Updates rows by their key, each given as it was and as it shall be.
    pub fn update<T: Table>(&mut self, changes: Vec<(T, T)>) {
        let rows = changes.into_iter().map(|(was, row)| guarded(was, row)).collect();
        self.add(&T::texts().update, rows);
    }

    fn add(&mut self, bulk: &'static Bulk, rows: Vec<Vec<Cell>>) {
        if !rows.is_empty() {
            self.writes.push(Write { bulk, rows });
        }
    }

    /// Writes all of it, in the order of adding.
    ///
    /// # Errors
    /// [`Error::Retry`] when a key is taken, a row is not there any more or its guard is not what it
    /// was; [`Error::Poison`] when a row is refused.
    pub async fn run(self, tx: &mut Tx) -> Result<()> {
        let Batch { writes } = self;
        let given = writes.iter().map(|write| write.rows.len()).collect::<Vec<_>>();
        let tables = writes.iter().map(|write| write.bulk.table).collect::<Vec<_>>();
        let touched: Vec<u64> = match tx.conn() {
            _ if writes.is_empty() => return Ok(()),
            Conn::Sqlite(conn) => {
                let query = in_sqlite(writes)?;
                let done = conn.fetch_many(query).try_filter_map(|each| async move {
                    Ok(each.left().map(|done| done.rows_affected()))
                });
                let mut done = done.try_collect::<Vec<_>>().await?.into_iter();
                let statements = given.iter().map(|rows| rows.div_ceil(LARGEST));
                statements.map(|n| done.by_ref().take(n).sum()).collect()
            }
            Conn::Postgres(conn) => {
                let row = together(&writes).fetch_one(&mut **conn).await?;
                let count = |i| Ok(u64::try_from(row.try_get::<i64, _>(i)?).unwrap_or(0));
                (0..given.len()).map(count).collect::<Result<_>>()?
            }
        };
        for ((table, given), touched) in tables.into_iter().zip(given).zip(touched) {
            counted(table, given, touched)?;
        }
        Ok(())
    }
}

/// One data-modifying WITH, that tells how many rows each part touched.
fn together(writes: &[Write]) -> Query<'static, Postgres, PgArguments> {
    let mut first = 1;
    let mut parts = Vec::with_capacity(writes.len());
    for (i, write) in writes.iter().enumerate() {
        parts.push(format!("w{i} AS ({} RETURNING 1)", write.bulk.postgres_from(first)));
        first += write.bulk.columns.len();
    }
    let counts = (0..writes.len()).map(|i| format!("(SELECT count(*) FROM w{i})"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let text = format!("WITH {} SELECT {counts}", parts.join(", "));
    // Made of declared tables only; whatever comes from outside is a parameter.
    let query = sqlx::query::<Postgres>(AssertSqlSafe(text));
    writes.iter().fold(query, |query, write| bind(query, write.bulk, &write.rows))
}

fn counted(table: &str, given: usize, touched: u64) -> Result<()> {
    if u64::try_from(given) == Ok(touched) {
        Ok(())
    } else {
        Err(Error::miscount(table, given, touched))
    }
}

/// Inserts the rows, in their order. None given: nothing is asked.
///
/// # Errors
/// As [`Batch::run`].
pub async fn insert_rows<T: Table>(tx: &mut Tx, rows: Vec<T>) -> Result<()> {
    let mut batch = Batch::default();
    batch.insert(rows);
    batch.run(tx).await
}

/// Inserts the rows by a statement made by [`Bulk::insert`]; answers how many it touched.
///
/// # Errors
/// As [`insert_rows`], but the count is the caller's to judge.
pub async fn insert_rows_with<T: Table>(
    tx: &mut Tx,
    bulk: &'static Bulk,
    rows: Vec<T>,
) -> Result<u64> {
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(T::cells).collect();
    if rows.is_empty() {
        return Ok(0);
    }
    Ok(match tx.conn() {
        Conn::Sqlite(conn) => {
            in_sqlite(vec![Write { bulk, rows }])?.execute(&mut **conn).await?.rows_affected()
        }
        Conn::Postgres(conn) => bind(sqlx::query(bulk.postgres.as_str()), bulk, &rows)
            .execute(&mut **conn)
            .await?
            .rows_affected(),
    })
}

/// As [`insert_rows_with`], reading what `RETURNING` gives.
///
/// # Errors
/// As [`insert_rows_with`].
pub async fn insert_rows_returning<T: Table, R: FromBoth>(
    tx: &mut Tx,
    bulk: &'static Bulk,
    rows: Vec<T>,
) -> Result<Vec<R>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(T::cells).collect();
    match tx.conn() {
        Conn::Sqlite(conn) => in_sqlite(vec![Write { bulk, rows }])?
            .fetch_all(&mut **conn)
            .await?
            .iter()
            .map(|row| R::from_row(row).map_err(Error::from))
            .collect(),
        Conn::Postgres(conn) => bind(sqlx::query(bulk.postgres.as_str()), bulk, &rows)
            .fetch_all(&mut **conn)
            .await?
            .iter()
            .map(|row| R::from_row(row).map_err(Error::from))
            .collect(),
    }
}

/// Binds one array for each column.
fn bind(
    query: Query<'static, Postgres, PgArguments>,
    bulk: &Bulk,
    rows: &[Vec<Cell>],
) -> Query<'static, Postgres, PgArguments> {
    bulk.columns.iter().enumerate().fold(query, |query, (i, (_, kind))| {
        let column = rows.iter().map(|row| row.get(i));
        match kind {
            Type::Text => {
                query.bind(column.map(|c| c.and_then(Cell::text)).collect::<Vec<Option<&str>>>())
            }
            Type::Int => {
                query.bind(column.map(|c| c.and_then(Cell::int)).collect::<Vec<Option<i64>>>())
            }
        }
    })
}

/// All of it as one text of many statements: each is another trip to SQLite's thread otherwise.
/// U+0000 is refused, as PostgreSQL does by itself.
fn in_sqlite(writes: Vec<Write>) -> Result<Query<'static, Sqlite, SqliteArguments>> {
    let mut text = String::new();
    for write in &writes {
        for rows in write.rows.chunks(LARGEST) {
            text.push_str(write.bulk.sqlite(rows.len()).0);
        }
    }
    let mut args = SqliteArguments::default();
    for Write { bulk, rows } in writes {
        let mut rows = rows.into_iter();
        while rows.len() > 0 {
            let (given, (_, size)) = (rows.len().min(LARGEST), bulk.sqlite(rows.len()));
            let empty = (size - given) * bulk.columns.len();
            args.reserve(size * bulk.columns.len(), 0);
            for cell in rows.by_ref().take(size).flatten().chain((0..empty).map(|_| Cell::Null)) {
                match cell {
                    Cell::Text(text) if text.contains('\0') => {
                        return Err(Error::Poison("a text contains U+0000".into()));
                    }
                    Cell::Text(text) => args.add(text),
                    Cell::Word(word) => args.add(word),
                    Cell::Int(n) => args.add(n),
                    Cell::Null => args.add(None::<i64>),
                }
                .map_err(|e| Error::Poison(e.to_string()))?;
            }
        }
    }
    // Made of declared tables only; whatever comes from outside is a parameter.
    Ok(sqlx::query_with(AssertSqlSafe(text), args))
}
