//! stockhold: holds stock for orders.

pub mod catalogue;
pub mod cli;
pub mod clock;
pub mod domain;
pub mod engine;
pub mod http;
pub mod ids;
pub mod lifecycle;
pub mod settings;
pub mod storage;
pub mod suppliers;
pub mod telemetry;
