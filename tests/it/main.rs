//! The one integration binary: each folder is a suite.

mod simulation;
mod suppliers;
mod tidy;
