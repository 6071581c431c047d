//! Bulk writes: many rows of a table in one statement (SQLite: `VALUES`, in a few fixed sizes filled up
//! with empty rows, so that a handful of prepared statements serves groups of every size; PostgreSQL: a
//! column array each, unnested side by side), and many such statements in one round trip ([`Batch`]).
//! Columns that are empty in all new rows are left out (their defaults are to be empty), and what is alike
//! in all rows of a larger INSERT is given once.
//!
//! What must hold: every bulk write compares the rows it touched with the rows it was given, and an
//! update also compares the guard columns with what they were, so that each is a compare-and-set.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures::TryStreamExt;
use sqlx::Either;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Executor, Postgres, Row, Sqlite};

use super::cell::{Cell, Type};
use super::db::{Conn, Tx};
use super::error::{Error, Result};
use super::sql::{Arg, FromBoth, Sql, bind_in_postgres};
use super::table::{Column, Table};

/// A table's bulk statements.
pub struct Texts {
    insert: Bulk,
    update: Bulk,
}

/// Rows in one SQLite statement: few sizes, so that few statements are prepared, and none much too large.
/// The largest has 9,000 parameters or so of the 32,766 there may be.
const SIZES: [usize; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, LARGEST];
const LARGEST: usize = 256;

/// Columns, each by its place, as bits.
type Places = u64;

/// What a statement is given of its rows: which columns at all, and which of them once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    used: Places,
    alike: Places,
}

/// In fewer rows many a column is alike by chance.
const ALIKE_FROM: usize = 8;
/// So many choices of columns that are alike are kept for a table: each is one more text to prepare.
const CHOICES: usize = 4;

fn has(places: Places, place: usize) -> bool {
    places >> place & 1 == 1
}

/// A statement around a SELECT of the rows that it is given.
pub struct Bulk {
    table: &'static str,
    /// A column that is never empty.
    key: &'static str,
    columns: Vec<(String, Type)>,
    kind: Kind,
    after: String,
    /// Columns that were found alike.
    choices: RwLock<Vec<Places>>,
    /// SQLite's texts by their size and shape, made when they are first used.
    sqlite: RwLock<HashMap<(usize, Shape), Arc<str>>>,
}

/// What stands before the SELECT.
enum Kind {
    /// `INSERT INTO` with the table's name. Columns that are empty in every row are left out.
    Insert,
    /// An UPDATE up to its FROM.
    Update(String),
}

impl Bulk {
    /// An INSERT that goes on with `then` (`ON CONFLICT …`, `RETURNING …`), the same on both.
    pub fn insert<T: Table>(then: &str) -> Bulk {
        let columns = T::COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
        Bulk::new::<T>(columns.collect(), Kind::Insert, format!(" {then}"))
    }

    /// An UPDATE by key, of the rows whose guard columns are what they were.
    fn update<T: Table>() -> Bulk {
        let assignments = T::COLUMNS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !T::KEY.contains(name))
            .map(|name| format!("{name} = u.{name}"))
            .collect::<Vec<_>>()
            .join(", ");
        let same = T::KEY.iter().map(|k| format!("t.{k} = u.{k}"));
        let guarded = guards::<T>()
            .map(|(_, (name, _))| format!("t.{name} IS NOT DISTINCT FROM u.was_{name}"));
        let conditions = same.chain(guarded).collect::<Vec<_>>().join(" AND ");
        let own = T::COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
        let was = guards::<T>().map(|(_, (name, kind))| (format!("was_{name}"), kind));
        Bulk::new::<T>(
            own.chain(was).collect(),
            Kind::Update(format!("UPDATE {} AS t SET {assignments} FROM (", T::NAME)),
            format!(") AS u WHERE {conditions}"),
        )
    }

    fn new<T: Table>(columns: Vec<(String, Type)>, kind: Kind, after: String) -> Bulk {
        // `table!` takes no fewer than one key.
        let key = T::KEY[0];
        let (choices, sqlite) = (RwLock::default(), RwLock::default());
        Bulk { table: T::NAME, key, columns, kind, after, choices, sqlite }
    }

    fn shape(&self, rows: &[Vec<Cell>]) -> Shape {
        let all = (0..self.columns.len()).fold(0, |places, i| places | 1 << i);
        if matches!(self.kind, Kind::Update(_)) {
            return Shape { used: all, alike: 0 };
        }
        let used = used(rows, all);
        let alike = if rows.len() < ALIKE_FROM { 0 } else { self.choice(used & alike(rows, all)) };
        Shape { used, alike }
    }

    /// As PostgreSQL is given them: a single row without arrays, which cost it more than the row itself.
    fn postgres_shape(&self, rows: &[Vec<Cell>]) -> Shape {
        let Shape { used, alike } = self.shape(rows);
        Shape { used, alike: if rows.len() == 1 { used } else { alike } }
    }

    /// Of these columns, which are alike, those that have been before, if they are most of them.
    fn choice(&self, alike: Places) -> Places {
        // The key tells given rows from empty ones.
        let key = self.columns(alike).find(|(_, (name, _))| name == self.key);
        let alike = key.map_or(alike, |(key, _)| alike & !(1 << key));
        if alike == 0 {
            return 0;
        }
        let fits = |choice: &&Places| **choice & !alike == 0;
        let best = |choices: &[Places]| {
            choices.iter().filter(fits).max_by_key(|choice| choice.count_ones()).copied()
        };
        let choices = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        let found = best(&choices);
        if found == Some(alike) || choices.len() >= CHOICES {
            return found.unwrap_or(0);
        }
        drop(choices);
        let mut choices = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        if choices.len() < CHOICES && !choices.contains(&alike) {
            choices.push(alike);
        }
        best(&choices).unwrap_or(0)
    }

    fn columns(&self, used: Places) -> impl Iterator<Item = (usize, &(String, Type))> {
        self.columns.iter().enumerate().filter(move |(i, _)| has(used, *i))
    }

    fn names(&self, used: Places) -> String {
        let names = self.columns(used).map(|(_, (name, _))| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    fn before(&self, names: &str) -> String {
        match &self.kind {
            Kind::Insert => format!("INSERT INTO {} ({names}) ", self.table),
            Kind::Update(text) => text.clone(),
        }
    }

    /// The first of [`SIZES`] that so many rows fit into, or the last.
    fn size(rows: usize) -> usize {
        SIZES.into_iter().find(|size| *size >= rows).unwrap_or(LARGEST)
    }

    /// SQLite's text for so many rows, whose parameters come row by row, then what is alike. Empty rows are
    /// passed over; that there is a WHERE also tells SQLite that an ON behind it is no join's.
    fn sqlite(&self, size: usize, shape: Shape) -> Arc<str> {
        let known = self.sqlite.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.get(&(size, shape)) {
            return Arc::clone(text);
        }
        drop(known);
        let Shape { used, alike } = shape;
        let given = self.names(used & !alike);
        let row = format!("({})", vec!["?"; self.columns(used & !alike).count()].join(", "));
        let rows = vec![row; size].join(", ");
        let value = |(i, (name, _)): (usize, &(String, _))| {
            if has(alike, i) { "?".to_owned() } else { name.clone() }
        };
        let values = self.columns(used).map(value).collect::<Vec<_>>().join(", ");
        let (before, Bulk { key, after, .. }) = (self.before(&self.names(used)), self);
        let text: Arc<str> = format!(
            "WITH r({given}) AS (VALUES {rows}) \
             {before}SELECT {values} FROM r WHERE {key} IS NOT NULL{after}; "
        )
        .into();
        let mut known = self.sqlite.write().unwrap_or_else(PoisonError::into_inner);
        known.insert((size, shape), Arc::clone(&text));
        text
    }

    /// PostgreSQL's text, its parameters numbered from `first` on. The arrays are unnested side by side
    /// in a SELECT's list: `FROM UNNEST(a, b, …)` first makes a table of each, which took five times as
    /// long, and most of the time of the whole write.
    fn postgres(&self, first: usize, shape: Shape) -> String {
        let Shape { used, alike } = shape;
        let (mut arrays, mut values) = (Vec::new(), Vec::new());
        for ((i, (name, kind)), n) in self.columns(used).zip(first..) {
            let kind = match kind {
                Type::Text => "text",
                Type::Int => "bigint",
            };
            if has(alike, i) {
                values.push(format!("${n}::{kind} AS {name}"));
            } else {
                arrays.push(format!("unnest(${n}::{kind}[]) AS {name}"));
                values.push(name.clone());
            }
        }
        let arrays = arrays.join(", ");
        let rows = if arrays.is_empty() { arrays } else { format!(" FROM (SELECT {arrays}) AS u") };
        let (before, values) = (self.before(&self.names(used)), values.join(", "));
        format!("{before}SELECT {values}{rows}{}", self.after)
    }
}

/// The columns that are not empty in all of these rows.
fn used(rows: &[Vec<Cell>], all: Places) -> Places {
    let mut used = 0;
    for row in rows {
        if used == all {
            break;
        }
        for (i, cell) in row.iter().enumerate() {
            used |= Places::from(!matches!(cell, Cell::Null)) << i;
        }
    }
    used
}

/// The columns that are the same in all of these rows.
fn alike(rows: &[Vec<Cell>], all: Places) -> Places {
    let Some((first, rest)) = rows.split_first() else { return 0 };
    let mut alike = all;
    for row in rest {
        for (i, (cell, same)) in row.iter().zip(first).enumerate() {
            if has(alike, i) && cell != same {
                alike &= !(1 << i);
            }
        }
    }
    alike
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

/// Rows as they shall be, each followed by what its guards were.
fn guarded<T: Table>(changes: Vec<(T, T)>) -> Vec<Vec<Cell>> {
    let rows = changes.into_iter().map(|(was, row)| {
        let was = was.cells();
        let mut cells = row.cells();
        cells.extend(guards::<T>().filter_map(|(i, _)| was.get(i).cloned()));
        cells
    });
    rows.collect()
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
        self.add(&T::texts().update, guarded(changes));
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
        if self.writes.is_empty() {
            return Ok(());
        }
        let _: Option<(i64,)> = self.send(tx, None).await?;
        Ok(())
    }

    /// As [`Batch::run`], after a statement in the same trip that gives one row; `None` when it gives
    /// none. Its parameters stand in it once each, in order.
    ///
    /// # Errors
    /// As [`Batch::run`].
    pub async fn run_after<T: FromBoth>(
        self,
        tx: &mut Tx,
        first: &'static Sql,
        args: Vec<Arg>,
    ) -> Result<Option<T>> {
        self.send(tx, Some((first, args))).await
    }

    async fn send<T: FromBoth>(self, tx: &mut Tx, first: Option<First>) -> Result<Option<T>> {
        let Batch { writes } = self;
        let given = writes.iter().map(|write| write.rows.len()).collect::<Vec<_>>();
        let tables = writes.iter().map(|write| write.bulk.table).collect::<Vec<_>>();
        let mut answer = None;
        let touched: Vec<u64> = match tx.conn() {
            Conn::Sqlite(conn) => {
                let before = usize::from(first.is_some());
                let mut told = conn.fetch_many(in_sqlite(first, writes)?);
                let mut done = Vec::new();
                while let Some(each) = told.try_next().await? {
                    match each {
                        Either::Left(statement) => done.push(statement.rows_affected()),
                        Either::Right(row) => answer = Some(T::from_row(&row)?),
                    }
                }
                let mut done = done.into_iter().skip(before);
                let statements = given.iter().map(|rows| rows.div_ceil(LARGEST));
                statements.map(|n| done.by_ref().take(n).sum()).collect()
            }
            Conn::Postgres(conn) => {
                let answers = first.is_some();
                let row = together(first, &writes)?.fetch_optional(&mut **conn).await?;
                let Some(row) = row else { return Ok(None) };
                if answers {
                    answer = Some(T::from_row(&row)?);
                }
                let counts = row.len() - given.len();
                let count = |i| Ok(u64::try_from(row.try_get::<i64, _>(i)?).unwrap_or(0));
                (counts..row.len()).map(count).collect::<Result<_>>()?
            }
        };
        for ((table, given), touched) in tables.into_iter().zip(given).zip(touched) {
            counted(table, given, touched)?;
        }
        Ok(answer)
    }
}

/// A statement that goes before a batch, and its parameters.
type First = (&'static Sql, Vec<Arg>);

/// One data-modifying WITH, that tells what `first` gives and then how many rows each part touched. They
/// are run as they are counted: one after the other.
fn together(
    first: Option<First>,
    writes: &[Write],
) -> Result<Query<'static, Postgres, PgArguments>> {
    let shapes: Vec<Shape> =
        writes.iter().map(|write| write.bulk.postgres_shape(&write.rows)).collect();
    let mut parts = Vec::with_capacity(writes.len() + 1);
    let mut next = 1;
    if let Some((sql, args)) = &first {
        parts.push(format!("f AS ({})", sql.postgres));
        next += args.len();
    }
    for (i, (write, shape)) in writes.iter().zip(&shapes).enumerate() {
        parts.push(format!("w{i} AS ({} RETURNING 1)", write.bulk.postgres(next, *shape)));
        next += write.bulk.columns(shape.used).count();
    }
    let counts = (0..writes.len()).map(|i| format!("(SELECT count(*) FROM w{i})"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let parts = parts.join(", ");
    let text = match first {
        Some(_) => format!("WITH {parts} SELECT f.*, {counts} FROM f"),
        None => format!("WITH {parts} SELECT {counts}"),
    };
    // Made of declared tables only; whatever comes from outside is a parameter.
    let mut query = sqlx::query::<Postgres>(AssertSqlSafe(text));
    for arg in first.into_iter().flat_map(|(_, args)| args) {
        query = bind_in_postgres(query, arg)?;
    }
    let bound = |query, (write, shape): (&Write, _)| bind(query, write.bulk, shape, &write.rows);
    Ok(writes.iter().zip(shapes).fold(query, bound))
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
            in_sqlite(None, vec![Write { bulk, rows }])?.execute(&mut **conn).await?.rows_affected()
        }
        Conn::Postgres(conn) => alone(bulk, &rows).execute(&mut **conn).await?.rows_affected(),
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
        Conn::Sqlite(conn) => in_sqlite(None, vec![Write { bulk, rows }])?
            .fetch_all(&mut **conn)
            .await?
            .iter()
            .map(|row| R::from_row(row).map_err(Error::from))
            .collect(),
        Conn::Postgres(conn) => alone(bulk, &rows)
            .fetch_all(&mut **conn)
            .await?
            .iter()
            .map(|row| R::from_row(row).map_err(Error::from))
            .collect(),
    }
}

/// One write as a statement of its own.
fn alone(bulk: &Bulk, rows: &[Vec<Cell>]) -> Query<'static, Postgres, PgArguments> {
    let shape = bulk.postgres_shape(rows);
    // Made of declared tables only; whatever comes from outside is a parameter.
    bind(sqlx::query(AssertSqlSafe(bulk.postgres(1, shape))), bulk, shape, rows)
}

/// Binds one array for each column, or what is alike in it.
fn bind(
    query: Query<'static, Postgres, PgArguments>,
    bulk: &Bulk,
    shape: Shape,
    rows: &[Vec<Cell>],
) -> Query<'static, Postgres, PgArguments> {
    bulk.columns(shape.used).fold(query, |query, (i, (_, kind))| {
        let mut column = rows.iter().map(|row| row.get(i));
        let alike = has(shape.alike, i);
        match kind {
            Type::Text if alike => {
                let text = column.next().flatten().and_then(Cell::text);
                query.bind(text.map(str::to_owned))
            }
            Type::Int if alike => query.bind(column.next().flatten().and_then(Cell::int)),
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
fn in_sqlite(
    first: Option<First>,
    writes: Vec<Write>,
) -> Result<Query<'static, Sqlite, SqliteArguments>> {
    let mut text = String::new();
    let mut args = SqliteArguments::default();
    if let Some((sql, parameters)) = first {
        text.push_str(&unnumbered(&sql.sqlite));
        text.push_str("; ");
        parameters.into_iter().try_for_each(|arg| push(&mut args, arg.cell()?))?;
    }
    for Write { bulk, rows } in writes {
        let shape @ Shape { used, alike } = bulk.shape(&rows);
        let columns = bulk.columns(used & !alike).count();
        let same = bulk.columns(alike).filter_map(|(i, _)| rows.first()?.get(i).cloned());
        let same: Vec<Cell> = same.collect();
        let mut rows = rows.into_iter();
        while rows.len() > 0 {
            let (given, size) = (rows.len().min(LARGEST), Bulk::size(rows.len()));
            text.push_str(&bulk.sqlite(size, shape));
            args.reserve(size * columns + same.len(), 0);
            for row in rows.by_ref().take(size) {
                let cells = row.into_iter().enumerate();
                let cells = cells.filter(|(i, _)| has(used & !alike, *i));
                cells.map(|(_, cell)| cell).try_for_each(|cell| push(&mut args, cell))?;
            }
            let empty = (size - given) * columns;
            (0..empty).try_for_each(|_| push(&mut args, Cell::Null))?;
            same.iter().try_for_each(|cell| push(&mut args, cell.clone()))?;
        }
    }
    // Made of declared tables only; whatever comes from outside is a parameter.
    Ok(sqlx::query_with(AssertSqlSafe(text), args))
}

/// With its parameters by their order: numbers would be those of the whole text.
fn unnumbered(text: &str) -> String {
    let mut parts = text.split('$');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "?" + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

fn no_nul(text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::Poison("a text contains U+0000".into()));
    }
    Ok(())
}

fn push(args: &mut SqliteArguments, cell: Cell) -> Result<()> {
    match cell {
        Cell::Text(text) => no_nul(&text).map(|()| args.add(text))?,
        Cell::Name(name) => no_nul(&name).map(|()| args.add(name))?,
        Cell::Word(word) => args.add(word),
        Cell::Int(n) => args.add(n),
        Cell::Null => args.add(None::<i64>),
    }
    .map_err(|e| Error::Poison(e.to_string()))
}
