//! The one integration binary: each folder is a suite.

mod suppliers;
mod tidy;
