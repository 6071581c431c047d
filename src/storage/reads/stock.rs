//! Holds, and the ledger.

use std::sync::LazyLock;

use super::filter::Texts;
use crate::clock::Timestamp;
use crate::domain::names::{LevelId, OrderId, SkuKey};
use crate::domain::order::{Hold, HoldState};
use crate::domain::stock::Shift;
use crate::storage::rows::order::HoldRow;
use crate::storage::sql::{Arg, args, texts};
use crate::storage::table::{Table, row};
use crate::storage::{Db, Error, Result};

/// Which holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldFilter {
    /// An alias names its SKU.
    pub sku: Option<SkuKey>,
    pub state: Option<HoldState>,
    pub order: Option<OrderId>,
}

/// What identifies a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldKey {
    pub order: OrderId,
    pub line: i64,
    pub part: i64,
}

/// A SKU's own key and what it may be an alias of.
const OF_SKU: &str = "(?, (SELECT a.sku FROM sku_aliases a WHERE a.alias = ?))";

static HOLDS: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(
        &format!("SELECT {} FROM holds", HoldRow::LIST),
        &[
            "(order_id, line, part) < (?, ?, ?)",
            &format!("sku IN {OF_SKU}"),
            "state = ?",
            // Open holds only: the words of the index `holds_open`.
            "state IN ('active', 'committed')",
            "order_id = ?",
        ],
        "ORDER BY order_id DESC, line DESC, part DESC",
    )
});

/// Holds before a key, those of the newest orders first; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn holds(
    db: &Db,
    filter: &HoldFilter,
    before: Option<&HoldKey>,
    limit: i64,
) -> Result<Vec<(OrderId, Hold)>> {
    let open = matches!(filter.state, Some(HoldState::Active | HoldState::Committed));
    let given = vec![
        before.map(|key| args![key.order.as_str(), key.line, key.part]),
        filter.sku.as_ref().map(of_sku),
        filter.state.map(|state| args![state.as_str()]),
        open.then(Vec::new),
        filter.order.as_ref().map(|order| args![order.as_str()]),
    ];
    let Some((sql, args)) = HOLDS.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| {
        Box::pin(async move {
            let rows: Vec<HoldRow> = tx.all(sql, args).await?;
            let rows = rows.into_iter().map(|row| (row.order_id.clone(), row.into()));
            Ok::<_, Error>(rows.collect())
        })
    })
    .await
}

fn of_sku(sku: &SkuKey) -> Vec<Arg> {
    args![sku.as_str(), sku.as_str()]
}

/// Which ledger entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    /// Those of the levels that the SKU has now.
    pub sku: Option<SkuKey>,
    pub order: Option<OrderId>,
}

/// A position in the ledger: by the transaction that wrote, then by number. (By number alone a
/// reader would pass entries of a transaction that took its numbers early and commits late.)
/// On SQLite, which has one writer, `writer` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub writer: i64,
    pub seq: i64,
}

/// An entry as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    pub seq: i64,
    pub writer: i64,
    pub at: Timestamp,
    pub level: LevelId,
    pub sku: Option<SkuKey>,
    pub order: Option<OrderId>,
    pub hold: Option<(i64, i64)>,
    pub event: String,
    pub by: Shift,
    pub note: String,
}

row! {
    "ledger" LedgerRow {
        seq: i64,
        writer: i64,
        at: Timestamp,
        level_id: LevelId,
        sku: Option<SkuKey>,
        order_id: Option<OrderId>,
        line: Option<i64>,
        part: Option<i64>,
        event: String,
        by_quantity: i64,
        by_held: i64,
        by_committed: i64,
        note: String,
    }
}

impl From<LedgerRow> for LedgerEntry {
    fn from(row: LedgerRow) -> LedgerEntry {
        LedgerEntry {
            seq: row.seq,
            writer: row.writer,
            at: row.at,
            level: row.level_id,
            sku: row.sku,
            order: row.order_id,
            hold: row.line.zip(row.part),
            event: row.event,
            by: Shift { quantity: row.by_quantity, held: row.by_held, committed: row.by_committed },
            note: row.note,
        }
    }
}

/// The columns of [`LedgerRow`], with the expression for the writer.
fn columns(writer: &str) -> String {
    format!(
        "e.seq, {writer} AS writer, e.at, e.level_id, e.sku, e.order_id, e.line, e.part, e.event,
            e.by_quantity, e.by_held, e.by_committed, e.note"
    )
}

/// The ledger's texts on one database: the writer's expression and the condition `after`.
fn ledger_texts(writer: &str, after: &str, order_by: &str) -> Texts {
    Texts::new(
        &format!("SELECT {} FROM ledger e", columns(writer)),
        &[
            after,
            &format!("e.level_id IN {}", levels_of(OF_SKU)),
            "e.order_id = ?",
            // Entries behind which no earlier transaction is still open.
            "SETTLED(e)",
        ],
        order_by,
    )
}

fn levels_of(sku: &str) -> String {
    format!("(SELECT s.level_id FROM sku_sources s WHERE s.sku IN {sku})")
}

static SQLITE_LEDGER: LazyLock<Texts> =
    LazyLock::new(|| ledger_texts("0", "(? >= 0 AND e.seq > ?)", "ORDER BY e.seq"));
static POSTGRES_LEDGER: LazyLock<Texts> = LazyLock::new(|| {
    ledger_texts(
        "e.xact::text::bigint",
        "(e.xact, e.seq) > (?::bigint::text::xid8, ?)",
        "ORDER BY e.xact, e.seq",
    )
});

texts! {
    NEWEST = "SELECT seq FROM ledger ORDER BY seq DESC LIMIT 1";
    /// SQLite's index `ledger_level` has a level's entries by stretches of the ledger: those of the
    /// stretches from `$1` to `$2`, after `$3`.
    STRETCHES = format!(
        "WITH RECURSIVE stretch(n) AS (
            SELECT $1 UNION ALL SELECT n + 1 FROM stretch WHERE n < $2)
         SELECT {} FROM stretch CROSS JOIN ledger e
         WHERE e.seq >> {STRETCH} = stretch.n AND e.level_id IN {} AND e.seq > $3
         ORDER BY e.seq LIMIT $5",
        columns("0"),
        levels_of("($4, (SELECT a.sku FROM sku_aliases a WHERE a.alias = $4))"),
    );
}

/// A stretch of the ledger has 2 to the power of this entries, as the index says.
const STRETCH: u32 = 10;

/// Entries after a position, oldest first, none behind which an earlier transaction may still
/// commit; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn ledger(
    db: &Db,
    filter: &LedgerFilter,
    after: Option<Position>,
    limit: i64,
) -> Result<Vec<LedgerEntry>> {
    if let (true, LedgerFilter { sku: Some(sku), order: None }) = (db.is_sqlite(), filter) {
        return by_stretches(db, sku.clone(), after.map_or(0, |position| position.seq), limit)
            .await;
    }
    let texts: &'static Texts = if db.is_sqlite() { &SQLITE_LEDGER } else { &POSTGRES_LEDGER };
    let given = vec![
        after.map(|position| args![position.writer, position.seq]),
        filter.sku.as_ref().map(of_sku),
        filter.order.as_ref().map(|order| args![order.as_str()]),
        Some(Vec::new()),
    ];
    let Some((sql, args)) = texts.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| {
        Box::pin(async move {
            let rows: Vec<LedgerRow> = tx.all(sql, args).await?;
            Ok::<_, Error>(rows.into_iter().map(LedgerEntry::from).collect())
        })
    })
    .await
}

/// A SKU's entries after a number, from stretch to stretch: twice as many at once each time that there
/// are not enough.
async fn by_stretches(db: &Db, sku: SkuKey, after: i64, limit: i64) -> Result<Vec<LedgerEntry>> {
    let wanted = limit.saturating_add(1);
    db.read(move |tx| {
        Box::pin(async move {
            let newest: Option<(i64,)> = tx.first(&NEWEST, Vec::new()).await?;
            let last = newest.map_or(-1, |(seq,)| seq >> STRETCH);
            let (mut first, mut width) = (after.max(0) >> STRETCH, 1_i64);
            let mut found: Vec<LedgerEntry> = Vec::new();
            while first <= last {
                let missing = wanted.saturating_sub(i64::try_from(found.len()).unwrap_or(wanted));
                if missing <= 0 {
                    break;
                }
                let until = first.saturating_add(width - 1).min(last);
                let args = args![first, until, after, sku.as_str(), missing];
                let rows: Vec<LedgerRow> = tx.all(&STRETCHES, args).await?;
                found.extend(rows.into_iter().map(LedgerEntry::from));
                (first, width) = (until + 1, width.saturating_mul(2));
            }
            Ok::<_, Error>(found)
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_those_of_the_index() {
        let migration = include_str!("../../../migrations/sqlite/0009_pages.sql");
        let index = format!("CREATE INDEX ledger_level ON ledger (seq >> {STRETCH}, level_id);");
        assert!(migration.contains(&index), "{index}");
        assert!(STRETCHES.sqlite.contains(&format!("e.seq >> {STRETCH} = stretch.n")));
    }
}
