//! The composition root: from settings to a running daemon, and the commands of the command line.

pub mod import;
pub mod policy;
