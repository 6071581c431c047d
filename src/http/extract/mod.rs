//! Reading requests: bodies, paths and queries into checked values.
//!
//! What must hold: whatever a caller sends ends in a value or in a 4xx that names the place; all
//! faults of one request are told at once. Numbers are judged by their text, so that none is too
//! long to refuse politely. Leaves out what the values mean together: that is each endpoint's.

mod body;
mod json;
mod query;
mod value;

pub use body::{Body, Param};
pub use json::{Object, Report};
pub use query::{Page, Query};
pub use value::{MAX_QUANTITY, Value, sku_key};
