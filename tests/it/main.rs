//! The integration tests, one binary.

mod suppliers;
