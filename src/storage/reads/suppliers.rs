//! A supplier's stop switch and last sync, and its levels.

use std::sync::LazyLock;

use super::filter::Texts;
use crate::clock::Timestamp;
use crate::domain::names::SourceId;
use crate::domain::sku::Paused;
use crate::domain::stock::Level;
use crate::storage::rows::stock::{LevelRow, SupplierRow as PausedRow};
use crate::storage::sql::{args, texts};
use crate::storage::suppliers::SyncState;
use crate::storage::table::Table;
use crate::storage::{Db, Error, Result};

/// A supplier as far as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplierRow {
    pub id: SourceId,
    pub paused: Paused,
    pub last_sync_at: Option<Timestamp>,
    pub last_sync_outcome: Option<String>,
    pub last_sync_detail: Option<String>,
    pub suspect_since: Option<Timestamp>,
}

texts! {
    PAUSED = format!("SELECT {} FROM suppliers WHERE id = $1", PausedRow::LIST);
    SYNCED = "SELECT id, last_sync_at, last_sync_outcome, last_sync_detail, suspect_since
        FROM suppliers WHERE id = $1";
}

static LEVELS: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        &format!("SELECT {} FROM levels", LevelRow::LIST),
        &["source = ?", "id > ?"],
        "ORDER BY id",
    )
});

/// So many levels are read at a time.
const BATCH: i64 = 1_000;

/// What is known of a supplier; nothing yet where it was never synced or paused.
///
/// # Errors
/// The database's.
pub async fn find(db: &Db, id: &SourceId) -> Result<SupplierRow> {
    let id = id.clone();
    db.read(move |tx| {
        Box::pin(async move {
            let paused: Option<PausedRow> = tx.first(&PAUSED, args![id.as_str()]).await?;
            let sync: Option<SyncState> = tx.first(&SYNCED, args![id.as_str()]).await?;
            let paused: Option<(SourceId, Paused)> = paused.map(Into::into);
            let mut row = SupplierRow {
                id,
                paused: paused.map(|(_, paused)| paused).unwrap_or_default(),
                last_sync_at: None,
                last_sync_outcome: None,
                last_sync_detail: None,
                suspect_since: None,
            };
            if let Some(sync) = sync {
                row.last_sync_at = sync.last_sync_at;
                row.last_sync_outcome = sync.last_sync_outcome;
                row.last_sync_detail = sync.last_sync_detail;
                row.suspect_since = sync.suspect_since;
            }
            Ok::<_, Error>(row)
        })
    })
    .await
}

/// Shows every level of a supplier to `see`, in batches, each a reading of its own.
///
/// # Errors
/// The database's.
pub async fn each_level(db: &Db, supplier: &SourceId, mut see: impl FnMut(&Level)) -> Result<()> {
    let mut after = None;
    loop {
        let given = vec![Some(args![supplier.as_str()]), after.take().map(|id: String| args![id])];
        let Some((sql, args)) = LEVELS.pick(given, BATCH) else {
            return Ok(());
        };
        let rows: Vec<LevelRow> =
            db.read(move |tx| Box::pin(async move { tx.all(sql, args).await })).await?;
        let full = i64::try_from(rows.len()).unwrap_or(i64::MAX) > BATCH;
        after = rows.last().map(|row| row.id.to_string());
        rows.into_iter().map(Level::from).for_each(|level| see(&level));
        if !full {
            return Ok(());
        }
    }
}
