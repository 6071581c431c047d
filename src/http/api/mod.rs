//! The endpoints, by version of the contract.

pub mod v1;
