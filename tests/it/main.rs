//! The one integration binary: each folder is a suite.

mod blackbox;
mod conformance;
mod faults;
mod jobs;
mod suppliers;
mod tidy;
