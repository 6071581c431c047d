//! Placeholder.
#[derive(Clone, Debug)]
pub struct Db;
