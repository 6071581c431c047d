//! The one integration binary.

mod conformance;
