//! The pure core: types, state machines and `decide`. No I/O, no clock, no async, no logging.

pub mod money;
pub mod supply;
