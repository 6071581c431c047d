//! One module over two databases: SQLite (the embedded default, one file) and PostgreSQL (several
//! replicas). It loads and saves in bulk and decides nothing.
//!
//! What must hold: every write goes through [`Db::transact`]; SQL stands nowhere else; locks are
//! taken in one order (orders by id, levels by id, jobs); every bulk write counts the rows it
//! touched. What the rules read and change is a `domain::world::World`, loaded by [`world::load`]
//! and saved by [`world::save`].

pub mod alerts;
mod bulk;
mod cell;
pub mod checkpoints;
mod claim;
mod db;
pub mod epochs;
mod error;
pub mod groups;
pub mod jobs;
mod migrate;
pub mod pages;
pub mod reads;
pub mod rows;
pub mod schedules;
pub mod sql;
pub mod suppliers;
mod table;
pub mod world;

pub use claim::{Claim, claim_file};
pub use db::{Db, Options, Tx};
pub use error::{Error, Result};
