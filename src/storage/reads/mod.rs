//! What is shown: queries for the HTTP views, on the readers' connections, each on one consistent
//! picture of the data.
//!
//! What must hold: nothing here locks or writes; every list is bounded by its `limit`, of which one
//! row more is read, so that the caller can tell whether there is a next page.

use super::sql::texts;
use super::{Db, Error, Result};

mod filter;
pub mod orders;
pub mod placements;
pub mod purchases;
pub mod refunds;
pub mod skus;
pub mod stock;
pub mod suppliers;
pub mod work;

texts! {
    PING = "SELECT 1 FROM command_groups LIMIT 1";
}

/// Takes a connection and asks it something.
///
/// # Errors
/// The database's.
pub async fn ping(db: &Db) -> Result<()> {
    db.read(|tx| {
        Box::pin(async move {
            let _: Option<(i32,)> = tx.first(&PING, Vec::new()).await?;
            Ok::<_, Error>(())
        })
    })
    .await
}
