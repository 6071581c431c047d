//! stockhold: holds stock for orders.

pub mod catalogue;
pub mod clock;
pub mod domain;
pub mod engine;
pub mod ids;
pub mod lifecycle;
pub mod settings;
pub mod suppliers;
pub mod telemetry;
