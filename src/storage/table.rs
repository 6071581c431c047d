//! Tables, declared once: from one list of columns come the row's struct, its reading, and its bulk
//! INSERT and UPDATE for both databases (SQLite: one JSON parameter read by `json_each`, so that one
//! statement serves groups of every size; PostgreSQL: a column array each, read by `UNNEST`).
//!
//! What must hold: every bulk write compares the rows it touched with the rows it was given, and an
//! update also compares the guard columns with what they were, so that each is a compare-and-set.

use super::cell::{Cell, Type};
use super::db::{Conn, Tx};
use super::error::{Error, Result};
use super::sql::{FromBoth, Sql};

/// A column: its name and what it holds.
pub type Column = (&'static str, Type);

/// A row of a table. Declared by `table!`.
pub trait Table: Sized + Send {
    const NAME: &'static str;
    const COLUMNS: &'static [Column];
    const KEY: &'static [&'static str];
    /// Columns that an update compares with what they were before.
    const GUARD: &'static [&'static str];
    /// The columns' names, comma-separated, for SELECT.
    const LIST: &'static str;
    fn cells(self) -> Vec<Cell>;
    fn texts() -> &'static Texts;
}

/// A table's bulk statements.
pub struct Texts {
    insert: Sql,
    update: Sql,
}

/// A struct that is read from the columns of a SELECT, in their order. The text names the table in
/// errors; a column's type is anything that is a `Field`.
macro_rules! row {
    (
        $(#[$doc:meta])*
        $name:literal $Row:ident { $($col:ident: $Ty:ty),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $Row {
            $(pub $col: $Ty),+
        }

        impl<'r, R> sqlx::FromRow<'r, R> for $Row
        where
            R: sqlx::Row,
            usize: sqlx::ColumnIndex<R>,
            Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
            Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
        {
            fn from_row(row: &'r R) -> ::std::result::Result<Self, sqlx::Error> {
                let mut cells = $crate::storage::table::Cells::new($name, row);
                Ok($Row { $($col: cells.next()?),+ })
            }
        }
    };
}
pub(crate) use row;

/// See the module. `key` and `guard` name columns.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $name:literal $Row:ident key($($key:ident),+) guard($($guard:ident),*)
        { $($col:ident: $Ty:ty),+ $(,)? }
    ) => {
        $crate::storage::table::row! {
            $(#[$doc])*
            $name $Row { $($col: $Ty),+ }
        }

        impl $crate::storage::table::Table for $Row {
            const NAME: &'static str = $name;
            const COLUMNS: &'static [$crate::storage::table::Column] =
                &[$((stringify!($col), <$Ty as $crate::storage::cell::Field>::TYPE)),+];
            const KEY: &'static [&'static str] = &[$(stringify!($key)),+];
            const GUARD: &'static [&'static str] = &[$(stringify!($guard)),*];
            const LIST: &'static str = $crate::storage::table::row_list!($($col),+);
            fn cells(self) -> Vec<$crate::storage::cell::Cell> {
                use $crate::storage::cell::Field;
                vec![$(self.$col.cell()),+]
            }
            fn texts() -> &'static $crate::storage::table::Texts {
                static TEXTS: std::sync::LazyLock<$crate::storage::table::Texts> =
                    std::sync::LazyLock::new($crate::storage::table::Texts::of::<$Row>);
                &TEXTS
            }
        }
    };
}

/// The names, comma-separated.
macro_rules! row_list {
    ($first:ident $(, $col:ident)*) => {
        concat!(stringify!($first) $(, ", ", stringify!($col))*)
    };
}
pub(crate) use row_list;
pub(crate) use table;

/// Reads a row's columns one after the other.
pub struct Cells<'r, R> {
    table: &'static str,
    row: &'r R,
    at: usize,
}

impl<'r, R> Cells<'r, R>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    pub fn new(table: &'static str, row: &'r R) -> Self {
        Cells { table, row, at: 0 }
    }

    /// The next column.
    ///
    /// # Errors
    /// When it is not what it should be; the table and the column are named.
    #[allow(clippy::should_implement_trait)] // its type is chosen anew at every step
    pub fn next<T: super::cell::Field>(&mut self) -> std::result::Result<T, sqlx::Error> {
        let at = self.at;
        self.at += 1;
        let cell = match T::TYPE {
            Type::Int => self.row.try_get::<Option<i64>, _>(at)?.map(Cell::Int),
            Type::Text => self.row.try_get::<Option<String>, _>(at)?.map(Cell::Text),
        };
        T::read(cell.unwrap_or(Cell::Null)).map_err(|e| {
            let text = format!("column {} of {}: {e}", at + 1, self.table);
            sqlx::Error::Decode(text.into())
        })
    }
}

impl Texts {
    pub fn of<T: Table>() -> Texts {
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
        let mut columns: Vec<(String, Type)> =
            T::COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        columns.extend(guards::<T>().map(|(name, kind)| (format!("was_{name}"), kind)));
        let rows = rows(&columns);
        Texts {
            insert: insert::<T>(""),
            update: Sql {
                sqlite: format!(
                    "UPDATE {} AS t SET {assignments} FROM ({}) AS u WHERE {conditions}",
                    T::NAME,
                    rows.sqlite
                ),
                postgres: format!(
                    "UPDATE {} AS t SET {assignments} FROM ({}) AS u WHERE {conditions}",
                    T::NAME,
                    rows.postgres
                ),
            },
        }
    }
}

fn guards<T: Table>() -> impl Iterator<Item = Column> {
    T::COLUMNS.iter().copied().filter(|(name, _)| T::GUARD.contains(name))
}

/// A SELECT of the given rows: `$1` (SQLite), or an array a column (PostgreSQL).
fn rows(columns: &[(String, Type)]) -> Sql {
    let picks = columns
        .iter()
        .enumerate()
        .map(|(i, (name, _))| format!("value->>{i} AS {name}"))
        .collect::<Vec<_>>()
        .join(", ");
    let arrays = columns
        .iter()
        .enumerate()
        .map(|(i, (_, kind))| match kind {
            Type::Text => format!("${}::text[]", i + 1),
            Type::Int => format!("${}::bigint[]", i + 1),
        })
        .collect::<Vec<_>>()
        .join(", ");
    let names = columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    Sql {
        sqlite: format!("SELECT {picks} FROM json_each($1)"),
        postgres: format!("SELECT {names} FROM UNNEST({arrays}) AS u({names})"),
    }
}

/// A bulk INSERT that goes on with `then` (`ON CONFLICT …`, `RETURNING …`), the same on both.
pub fn insert<T: Table>(then: &str) -> Sql {
    let columns: Vec<(String, Type)> =
        T::COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    let rows = rows(&columns);
    // `WHERE true` tells SQLite that what follows is no join's ON.
    let text =
        |rows: &str| format!("INSERT INTO {} ({}) {rows} WHERE true {then}", T::NAME, T::LIST);
    Sql { sqlite: text(&rows.sqlite), postgres: text(&rows.postgres) }
}

/// Inserts the rows, in their order. None given: nothing is asked.
///
/// # Errors
/// [`Error::Retry`] when a key is taken, [`Error::Poison`] when a row is refused.
pub async fn insert_rows<T: Table>(tx: &mut Tx, rows: Vec<T>) -> Result<()> {
    let given = rows.len();
    let cells = rows.into_iter().map(T::cells).collect();
    let touched = write(tx, &T::texts().insert, types::<T>(false), cells).await?;
    counted(T::NAME, given, touched)
}

/// Updates rows by their key, each given as it was and as it shall be.
///
/// # Errors
/// [`Error::Retry`] when a row is not there any more or its guard is not what it was.
pub async fn update_rows<T: Table + Clone>(tx: &mut Tx, changes: Vec<(T, T)>) -> Result<()> {
    let given = changes.len();
    let guards: Vec<usize> = T::COLUMNS
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| T::GUARD.contains(name))
        .map(|(i, _)| i)
        .collect();
    let cells = changes
        .into_iter()
        .map(|(was, row)| {
            let was = was.cells();
            let mut cells = row.cells();
            cells.extend(guards.iter().filter_map(|i| was.get(*i).cloned()));
            cells
        })
        .collect();
    let touched = write(tx, &T::texts().update, types::<T>(true), cells).await?;
    counted(T::NAME, given, touched)
}

/// As [`insert_rows`], with a statement made by [`insert`]; answers how many rows it touched.
///
/// # Errors
/// As [`insert_rows`], but the count is the caller's to judge.
pub async fn insert_rows_with<T: Table>(
    tx: &mut Tx,
    sql: &'static Sql,
    rows: Vec<T>,
) -> Result<u64> {
    let cells = rows.into_iter().map(T::cells).collect();
    write(tx, sql, types::<T>(false), cells).await
}

/// As [`insert_rows_with`], reading what `RETURNING` gives.
///
/// # Errors
/// As [`insert_rows_with`].
pub async fn insert_rows_returning<T: Table, R: FromBoth>(
    tx: &mut Tx,
    sql: &'static Sql,
    rows: Vec<T>,
) -> Result<Vec<R>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let cells: Vec<Vec<Cell>> = rows.into_iter().map(T::cells).collect();
    match tx.conn() {
        Conn::Sqlite(conn) => sqlx::query::<sqlx::Sqlite>(sql.sqlite.as_str())
            .bind(json(&cells)?)
            .fetch_all(&mut **conn)
            .await?
            .iter()
            .map(|row| R::from_row(row).map_err(Error::from))
            .collect(),
        Conn::Postgres(conn) => arrays(&sql.postgres, &types::<T>(false), &cells)
            .fetch_all(&mut **conn)
            .await?
            .iter()
            .map(|row| R::from_row(row).map_err(Error::from))
            .collect(),
    }
}

fn types<T: Table>(guarded: bool) -> Vec<Type> {
    let own = T::COLUMNS.iter().copied();
    let guards = guards::<T>().filter(|_| guarded);
    own.chain(guards).map(|(_, kind)| kind).collect()
}

fn counted(name: &str, given: usize, touched: u64) -> Result<()> {
    if u64::try_from(given) == Ok(touched) {
        Ok(())
    } else {
        Err(Error::miscount(name, given, touched))
    }
}

async fn write(
    tx: &mut Tx,
    sql: &'static Sql,
    types: Vec<Type>,
    cells: Vec<Vec<Cell>>,
) -> Result<u64> {
    if cells.is_empty() {
        return Ok(0);
    }
    Ok(match tx.conn() {
        Conn::Sqlite(conn) => sqlx::query::<sqlx::Sqlite>(sql.sqlite.as_str())
            .bind(json(&cells)?)
            .execute(&mut **conn)
            .await?
            .rows_affected(),
        Conn::Postgres(conn) => {
            arrays(&sql.postgres, &types, &cells).execute(&mut **conn).await?.rows_affected()
        }
    })
}

/// Binds one array for each column.
fn arrays(
    text: &'static str,
    types: &[Type],
    rows: &[Vec<Cell>],
) -> sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let mut query = sqlx::query::<sqlx::Postgres>(text);
    for (i, kind) in types.iter().enumerate() {
        let column = rows.iter().map(|row| row.get(i));
        query = match kind {
            Type::Text => {
                query.bind(column.map(|c| c.and_then(Cell::text)).collect::<Vec<Option<&str>>>())
            }
            Type::Int => {
                query.bind(column.map(|c| c.and_then(Cell::int)).collect::<Vec<Option<i64>>>())
            }
        };
    }
    query
}

/// The rows as a JSON array of arrays. U+0000 is refused, as PostgreSQL does by itself.
fn json(rows: &[Vec<Cell>]) -> Result<String> {
    let mut out = Vec::with_capacity(rows.len().saturating_mul(256));
    out.push(b'[');
    for (i, row) in rows.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"[" } else { b",[" });
        for (j, cell) in row.iter().enumerate() {
            if j != 0 {
                out.push(b',');
            }
            match (cell.int(), cell.text()) {
                (Some(n), _) => out.extend_from_slice(n.to_string().as_bytes()),
                (_, Some(text)) if text.contains('\0') => {
                    return Err(Error::Poison("a text contains U+0000".into()));
                }
                (_, Some(text)) => serde_json::to_writer(&mut out, text)
                    .map_err(|e| Error::Poison(e.to_string()))?,
                (None, None) => out.extend_from_slice(b"null"),
            }
        }
        out.push(b']');
    }
    out.push(b']');
    String::from_utf8(out).map_err(|e| Error::Poison(e.to_string()))
}
