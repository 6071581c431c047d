//! Values as the tables hold them: text or a 64-bit integer, or nothing. Everything else (times,
//! names, states, JSON) is written as one of these and checked when it is read back.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::{Span, Timestamp};
use crate::domain::alert::AlertKind;
use crate::domain::names::{LevelId, OrderId, PurchaseId, RefundId, SkuKey, SourceId};
use crate::domain::order::{CancelReason, Confirmation, HoldState, ShortPolicy, State};
use crate::domain::purchase::PurchaseState;
use crate::domain::refund::RefundState;
use crate::domain::sku::{Class, Kind};
use crate::domain::stock::Listing;

/// Which of the two a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    Int,
}

/// One value on its way into a table or out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Null,
    Int(i64),
    Text(String),
    Name(Arc<str>),
    Word(&'static str),
}

impl Cell {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            Cell::Name(text) => Some(text),
            Cell::Word(text) => Some(text),
            Cell::Null | Cell::Int(_) => None,
        }
    }

    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Cell::Int(n) => Some(*n),
            _ => None,
        }
    }
}

/// What a column can hold.
pub trait Field: Sized {
    const TYPE: Type;
    fn cell(self) -> Cell;
    /// # Errors
    /// In words, when the cell is not one of these.
    fn read(cell: Cell) -> Result<Self, String>;
}

impl Field for i64 {
    const TYPE: Type = Type::Int;
    fn cell(self) -> Cell {
        Cell::Int(self)
    }
    fn read(cell: Cell) -> Result<i64, String> {
        cell.int().ok_or_else(|| "a number is missing".to_owned())
    }
}

impl Field for String {
    const TYPE: Type = Type::Text;
    fn cell(self) -> Cell {
        Cell::Text(self)
    }
    fn read(cell: Cell) -> Result<String, String> {
        match cell {
            Cell::Text(text) => Ok(text),
            other => other.text().map(str::to_owned).ok_or_else(|| "a text is missing".to_owned()),
        }
    }
}

impl<T: Field> Field for Option<T> {
    const TYPE: Type = T::TYPE;
    fn cell(self) -> Cell {
        self.map_or(Cell::Null, T::cell)
    }
    fn read(cell: Cell) -> Result<Option<T>, String> {
        match cell {
            Cell::Null => Ok(None),
            cell => T::read(cell).map(Some),
        }
    }
}

/// 0 or 1.
impl Field for bool {
    const TYPE: Type = Type::Int;
    fn cell(self) -> Cell {
        Cell::Int(i64::from(self))
    }
    fn read(cell: Cell) -> Result<bool, String> {
        i64::read(cell).map(|n| n != 0)
    }
}

impl Field for Timestamp {
    const TYPE: Type = Type::Int;
    fn cell(self) -> Cell {
        Cell::Int(self.0)
    }
    fn read(cell: Cell) -> Result<Timestamp, String> {
        i64::read(cell).map(Timestamp)
    }
}

impl Field for Span {
    const TYPE: Type = Type::Int;
    fn cell(self) -> Cell {
        Cell::Int(self.0)
    }
    fn read(cell: Cell) -> Result<Span, String> {
        i64::read(cell).map(Span)
    }
}

/// A value that is only read and written whole, as JSON text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned> Field for Json<T> {
    const TYPE: Type = Type::Text;
    fn cell(self) -> Cell {
        // Plain data with text keys: writing it cannot fail, and an empty text would be refused
        // by the next reading.
        Cell::Text(serde_json::to_string(&self.0).unwrap_or_default())
    }
    fn read(cell: Cell) -> Result<Json<T>, String> {
        let text = String::read(cell)?;
        serde_json::from_str(&text)
            .map(Json)
            .map_err(|e| format!("not the JSON that was expected: {e}"))
    }
}

macro_rules! names {
    ($($name:ty),+ $(,)?) => {$(
        impl Field for $name {
            const TYPE: Type = Type::Text;
            fn cell(self) -> Cell {
                Cell::Name(self.into())
            }
            fn read(cell: Cell) -> Result<Self, String> {
                String::read(cell).map(Self::from)
            }
        }
    )+};
}
names!(LevelId, OrderId, PurchaseId, RefundId, SkuKey, SourceId);

macro_rules! words {
    ($($word:ty),+ $(,)?) => {$(
        impl Field for $word {
            const TYPE: Type = Type::Text;
            fn cell(self) -> Cell {
                Cell::Word(self.as_str())
            }
            fn read(cell: Cell) -> Result<Self, String> {
                let text = String::read(cell)?;
                Self::parse(&text).ok_or_else(|| format!("{text:?} is no {}", stringify!($word)))
            }
        }
    )+};
}
words!(
    AlertKind,
    CancelReason,
    Class,
    Confirmation,
    HoldState,
    Kind,
    Listing,
    PurchaseState,
    RefundState,
    ShortPolicy,
    State,
);
