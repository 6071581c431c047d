//! The tables as rows, and rows to and from what the domain knows.

pub mod order;
pub mod stock;
