//! The composition root: from settings to a running daemon, and the commands of the command line.

pub mod commands;
mod coordination;
pub mod daemon;
pub mod import;
mod operations;
pub mod policy;
mod readiness;
mod shared_clock;
pub mod store;
mod test_clock;
mod tokens;
