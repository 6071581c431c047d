//! stockhold holds stock for orders: own warehouse exactly, a lagging supplier's by pre-occupation and
//! delayed confirmation. This is the map; `ARCHITECTURE.md` walks through it in full.
//!
//! Layers, each using only those below it (`tests/it/tidy` checks it):
//!
//! - `app`, `demo`, `cli`: the composition root and the commands of the command line
//! - `http`, `jobs`: requests and owed work, turned into commands; their answers shown or done
//! - `engine`: groups commands into transactions, replies after the commit
//! - `storage`, and the ports `suppliers`, `refunds`, `alerts`, `coordination`
//! - `domain`: pure; `domain::decide` is where all rules are
//! - `bench`: measures a running daemon from outside
//! - `settings`, `catalogue`, `ids`, `clock`, `lifecycle`, `telemetry`: what the others stand on
//!
//! *An order:* `http::api` → `engine` → `domain::decide` (`placing`, `payments`, `judging`, `buying`,
//! `shipping`) with `jobs::kinds` asking the supplier in between. *A sync:* `jobs::schedule` →
//! `jobs::kinds::sync` → `domain::decide::readings`. *A crash:* `storage::jobs` hands a lease on;
//! `domain::decide::buying` looks up before it does anything again.

pub mod alerts;
pub mod app;
pub mod bench;
pub mod catalogue;
pub mod cli;
pub mod clock;
pub mod coordination;
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
