//! The one integration binary.

mod suppliers;
