//! The lives of a store: one from its beginning, and one more from each restore of a backup.
//!
//! What must hold: whoever opens the store first begins its first life, and others that open it at
//! the same time find that one; a restore is marked while nothing else runs.

use super::db::{Db, Tx};
use super::error::{Error, Result};
use super::sql::{args, texts};
use super::table::row;
use crate::clock::{Clock, Timestamp};

row! {
    /// One life of the store; the id names it, for what is kept about this store elsewhere.
    "epochs" Epoch {
        no: i64,
        id: String,
        began_at: Timestamp,
    }
}

texts! {
    FIRST = "INSERT INTO epochs (no, id, began_at) VALUES (1, $1, $2) ON CONFLICT (no) DO NOTHING";
    NEXT = "INSERT INTO epochs (no, id, began_at)
        SELECT coalesce(max(no), 1) + 1, $1, $2 FROM epochs";
    DOUBT = "UPDATE refunds SET asked_at = $1 WHERE state = 'pending' AND asked_at IS NULL";
    REPLICAS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = $1";
    NEWEST = "SELECT no, id, began_at FROM epochs ORDER BY no DESC LIMIT 1";
}

impl Epoch {
    /// The life of a store whose beginning nobody noted down: for tests.
    pub fn first() -> Epoch {
        Epoch { no: 1, id: "first".into(), began_at: Timestamp(0) }
    }

    /// When the store was last restored from a backup, if ever.
    pub fn restored_at(&self) -> Option<Timestamp> {
        (self.no > 1).then_some(self.began_at)
    }
}

/// The present life, begun under the name `id` if this is the first.
///
/// # Errors
/// The database's.
pub async fn current(db: &Db, clock: &Clock, id: String) -> Result<Epoch> {
    let clock = clock.clone();
    let found = db.read(|tx| Box::pin(async move { tx.first(&NEWEST, Vec::new()).await }));
    let found: Option<Epoch> = found.await?;
    match found {
        Some(epoch) => Ok(epoch),
        None => begin(db, false, clock, id).await,
    }
}

/// Marks a restore: the next life begins now, under the name `id`. Refunds that wait may have been
/// asked for in the lost one.
///
/// # Errors
/// The database's.
pub async fn restored(db: &Db, clock: &Clock, id: String) -> Result<Epoch> {
    begin(db, true, clock.clone(), id).await
}

/// Connections that daemons have to this PostgreSQL database; 0 with SQLite, whose file has one daemon.
///
/// # Errors
/// The database's.
pub async fn replicas_connected(db: &Db) -> Result<i64> {
    if db.is_sqlite() {
        return Ok(0);
    }
    let counted = db.read(|tx| {
        Box::pin(async move { tx.first(&REPLICAS, args![super::db::APPLICATION]).await })
    });
    let counted: Option<(i64,)> = counted.await?;
    Ok(counted.map_or(0, |(n,)| n))
}

async fn begin(db: &Db, restored: bool, clock: Clock, id: String) -> Result<Epoch> {
    db.transact(move |tx: &mut Tx| {
        Box::pin(async move {
            let now = tx.now(&clock).await?;
            tx.run(if restored { &NEXT } else { &FIRST }, args![id, now]).await?;
            if restored {
                tx.run(&DOUBT, args![now]).await?;
            }
            let newest: Option<Epoch> = tx.first(&NEWEST, Vec::new()).await?;
            newest.ok_or_else(|| Error::Unavailable("the store's life was not begun".into()))
        })
    })
    .await
}
