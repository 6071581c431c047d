//! stockhold: holds stock for orders.

pub mod alerts;
pub mod app;
pub mod catalogue;
pub mod cli;
pub mod clock;
pub mod demo;
pub mod domain;
pub mod engine;
pub mod http;
pub mod http_client;
pub mod ids;
pub mod jobs;
pub mod lifecycle;
pub mod refunds;
pub mod settings;
pub mod storage;
pub mod suppliers;
pub mod telemetry;
pub mod webhook_signature;
