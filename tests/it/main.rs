//! The one integration binary: each folder is a suite.

mod conformance;
mod tidy;
