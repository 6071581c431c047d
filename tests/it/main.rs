//! The one integration binary: each folder is a suite.

mod tidy;
