//! What can go wrong with a database, by what the caller should do about it.
//!
//! What must hold: only an error that surely changed nothing may be anything but
//! [`Error::CommitUnknown`]; a full disk, a read-only file or a schema that does not fit is
//! [`Error::Unavailable`] with the reason in words, never a silent half-success.

use sqlx::error::DatabaseError;

/// Why a transaction did not commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached or refuses to write. Nothing was changed; later it may work.
    #[error("{0}")]
    Unavailable(String),
    /// The connection died in the commit: it happened or it did not.
    #[error("the fate of the commit is unknown: {0}")]
    CommitUnknown(String),
    /// Somebody else was in the way, or was faster. Nothing was changed; load again and decide anew.
    #[error("to be done again: {0}")]
    Retry(String),
    /// A constraint or the data itself refuses it, and will the next time. Nothing was changed.
    #[error("refused by the data: {0}")]
    Poison(String),
}

/// The result of everything in `storage`.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A write touched another number of rows than was decided.
    pub(super) fn miscount(what: &str, decided: usize, touched: u64) -> Error {
        Error::Retry(format!("{what}: {decided} rows decided, {touched} touched"))
    }

    /// The error of a `COMMIT`: unknown unless the database itself said that it rolled back.
    pub(super) fn of_commit(error: sqlx::Error) -> Error {
        let definite = match &error {
            sqlx::Error::Database(e) => match sqlite_code(&**e) {
                Some(_) => true, // in process: a failed COMMIT of SQLite did not commit
                None => e.code().is_some_and(|c| c.starts_with("40") || c.starts_with("23")),
            },
            _ => false,
        };
        if definite { Error::from(error) } else { Error::CommitUnknown(error.to_string()) }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Error {
        match &error {
            sqlx::Error::Database(e) => match sqlite_code(&**e) {
                Some(code) => of_sqlite(code, &**e),
                None => of_postgres(e.code().as_deref().unwrap_or(""), &**e),
            },
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::RowNotFound
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::InvalidArgument(_) => Error::Poison(error.to_string()),
            sqlx::Error::PoolTimedOut => {
                let why = "no connection to the database in time: it cannot be reached, or all \
                           connections that we may have are in use";
                Error::Unavailable(why.into())
            }
            _ => Error::Unavailable(format!("no connection to the database: {error}")),
        }
    }
}

/// The extended result code, when the error is SQLite's.
fn sqlite_code(error: &dyn DatabaseError) -> Option<i32> {
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    error.code()?.parse().ok()
}

/// By the result codes of <https://www.sqlite.org/rescode.html>.
fn of_sqlite(code: i32, error: &dyn DatabaseError) -> Error {
    const UNIQUE: i32 = 2067;
    const PRIMARY_KEY: i32 = 1555;
    const ROWID: i32 = 2579;
    let text = error.message().to_owned();
    match code & 0xff {
        5 | 6 | 17 => Error::Retry(text),
        13 => Error::Unavailable(format!("the disk is full: {text}")),
        8 => Error::Unavailable(format!("the database file is read-only: {text}")),
        3 | 7 | 10 | 11 | 14 | 23 | 26 => Error::Unavailable(text),
        1 if text.starts_with("no such table")
            || text.starts_with("no such column")
            || text.contains("has no column named") =>
        {
            Error::Unavailable(format!("the schema does not fit this version: {text}"))
        }
        19 if matches!(code, UNIQUE | PRIMARY_KEY | ROWID) => Error::Retry(text),
        _ => Error::Poison(text),
    }
}

/// By the classes of <https://www.postgresql.org/docs/15/errcodes-appendix.html>.
fn of_postgres(code: &str, error: &dyn DatabaseError) -> Error {
    let text = error.message().to_owned();
    match code {
        "23505" | "55P03" => Error::Retry(text),
        "42P01" | "42703" | "42883" => {
            Error::Unavailable(format!("the schema does not fit this version: {text}"))
        }
        "53100" => Error::Unavailable(format!("the disk is full: {text}")),
        "25006" => Error::Unavailable(format!("the database is read-only: {text}")),
        _ => match code.get(..2).unwrap_or("") {
            "40" => Error::Retry(text),
            "08" | "28" | "3D" | "53" | "55" | "57" | "58" | "25" | "XX" => {
                Error::Unavailable(text)
            }
            _ => Error::Poison(text),
        },
    }
}
