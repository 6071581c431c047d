//! Tables, declared once: from one list of columns come the row's struct, its reading, and (in
//! `bulk`) its INSERT and UPDATE for both databases.

use super::bulk::Texts;
use super::cell::{Cell, Type};

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

        impl<'r, R> $crate::storage::table::FromCells<'r, R> for $Row
        where
            R: sqlx::Row,
            usize: sqlx::ColumnIndex<R>,
            Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
            Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
        {
            fn from_cells(
                cells: &mut $crate::storage::table::Cells<'r, R>,
            ) -> ::std::result::Result<Self, sqlx::Error> {
                cells.table = $name;
                Ok($Row { $($col: cells.next()?),+ })
            }
        }

        impl<'r, R> sqlx::FromRow<'r, R> for $Row
        where
            R: sqlx::Row,
            $Row: $crate::storage::table::FromCells<'r, R>,
        {
            fn from_row(row: &'r R) -> ::std::result::Result<Self, sqlx::Error> {
                $crate::storage::table::FromCells::from_cells(
                    &mut $crate::storage::table::Cells::new($name, row),
                )
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
            fn texts() -> &'static $crate::storage::bulk::Texts {
                static TEXTS: std::sync::LazyLock<$crate::storage::bulk::Texts> =
                    std::sync::LazyLock::new($crate::storage::bulk::Texts::of::<$Row>);
                &TEXTS
            }
        }
    };
}

/// A table's columns in a SELECT that knows it by `alias`.
pub fn columns_of<T: Table>(alias: &str) -> String {
    let columns = T::COLUMNS.iter().map(|(name, _)| format!("{alias}.{name}"));
    columns.collect::<Vec<_>>().join(", ")
}

/// The names, comma-separated.
macro_rules! row_list {
    ($first:ident $(, $col:ident)*) => {
        concat!(stringify!($first) $(, ", ", stringify!($col))*)
    };
}
pub(crate) use row_list;
pub(crate) use table;

/// What is read from some of a row's columns, from where the last was read on.
pub trait FromCells<'r, R>: Sized {
    /// # Errors
    /// When a column is not what it should be.
    fn from_cells(cells: &mut Cells<'r, R>) -> std::result::Result<Self, sqlx::Error>;
}

/// Reads a row's columns one after the other.
pub struct Cells<'r, R> {
    /// Named in errors.
    pub table: &'static str,
    row: &'r R,
    at: usize,
}

impl<'r, R> Cells<'r, R> {
    pub fn new(table: &'static str, row: &'r R) -> Self {
        Cells { table, row, at: 0 }
    }
}

impl<'r, R> Cells<'r, R>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
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

/// A table's row with one more column behind it.
pub struct Plus<T, F>(pub T, pub F);

impl<'r, R, T, F> sqlx::FromRow<'r, R> for Plus<T, F>
where
    R: sqlx::Row,
    T: Table + FromCells<'r, R>,
    F: super::cell::Field,
    usize: sqlx::ColumnIndex<R>,
    Option<i64>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let mut cells = Cells::new(T::NAME, row);
        Ok(Plus(T::from_cells(&mut cells)?, cells.next()?))
    }
}

/// The rows of two tables side by side.
pub struct Joined<A, B>(pub A, pub B);

impl<'r, R, A, B> FromCells<'r, R> for Joined<A, B>
where
    A: FromCells<'r, R>,
    B: FromCells<'r, R>,
{
    fn from_cells(cells: &mut Cells<'r, R>) -> Result<Self, sqlx::Error> {
        Ok(Joined(A::from_cells(cells)?, B::from_cells(cells)?))
    }
}

impl<'r, R, A, B> sqlx::FromRow<'r, R> for Joined<A, B>
where
    R: sqlx::Row,
    A: Table,
    Joined<A, B>: FromCells<'r, R>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        FromCells::from_cells(&mut Cells::new(A::NAME, row))
    }
}
