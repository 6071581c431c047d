//! The built binary from the outside: its command line, its HTTP interface, its database. Nothing
//! here knows the code; each test named by a number is a fault that some shop really had.

mod alerts;
pub mod api;
mod bench;
mod calm;
mod cli;
pub mod daemon;
mod drafts;
mod expiry;
mod file;
mod lists;
mod overselling;
mod payments;
mod quantities;
mod repeats;
mod restored;
mod shipping;
mod sold_out;
mod stock;
mod store;
pub mod tables;
mod wire;
