//! The built binary from the outside: its command line, its HTTP interface, its database. Nothing
//! here knows the code; each test named by a number is a fault that some shop really had.

pub mod api;
pub mod daemon;
mod overselling;
