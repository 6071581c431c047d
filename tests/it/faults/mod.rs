//! Faults: the built daemon against a supplier that loses answers, is slow, short, late and wrong,
//! and `kill -9` at every point of an order's life. However it went, every order ends once, money
//! and goods agree, and nothing is bought or given back twice.

pub mod books;
mod buying;
mod cancelling;
mod clocks;
mod closing;
mod confirming;
mod crashes;
mod feeds;
mod jobs;
mod late;
mod mixed;
mod process;
pub mod refunder;
mod refunding;
mod restoring;
mod selling_out;
mod storm;
mod waiting;
pub mod world;
