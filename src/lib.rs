//! stockhold: holds stock for orders.

pub mod clock;
pub mod domain;
pub mod engine;
pub mod storage;
pub mod suppliers;
