//! The pure core: types, state machines and `decide`. No I/O, no clock, no async, no logging.

pub mod alert;
pub mod availability;
pub mod backoff;
pub mod command;
pub mod decide;
pub mod feed;
pub mod job;
pub mod lock_ttl;
pub mod money;
pub mod names;
pub mod order;
pub mod outcome;
pub mod policy;
pub mod pricing;
pub mod purchase;
pub mod refund;
pub mod sku;
pub mod stock;
pub mod supply;
pub mod view;
pub mod watermark;
pub mod world;
