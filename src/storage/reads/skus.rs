//! SKUs with their sources, and with the levels and stop switches that availability needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::filter::Texts;
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::sku::{Paused, Sku};
use crate::domain::stock::Level;
use crate::storage::rows::stock::{LevelRow, SkuRow, SourceRow, SupplierRow};
use crate::storage::sql::{args, list as names, texts};
use crate::storage::table::Table;
use crate::storage::{Db, Error, Result, Tx};

/// A SKU and what its availability is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub sku: Sku,
    pub levels: BTreeMap<LevelId, Level>,
    /// The stop switches of its suppliers.
    pub suppliers: BTreeMap<SourceId, Paused>,
}

static LIST: LazyLock<Texts> = LazyLock::new(|| {
    Texts::new(&format!("SELECT {} FROM skus", SkuRow::LIST), &["key > ?"], "ORDER BY key")
});

texts! {
    SKUS = format!("SELECT {} FROM skus WHERE key IN (LIST($1))", SkuRow::LIST);
    ALIASES = "SELECT alias, sku FROM sku_aliases WHERE alias IN (LIST($1))";
    SOURCES = format!(
        "SELECT {} FROM sku_sources WHERE sku IN (LIST($1)) ORDER BY sku, position",
        SourceRow::LIST
    );
    LEVELS = format!("SELECT {} FROM levels WHERE id IN (LIST($1))", LevelRow::LIST);
    SUPPLIERS = format!("SELECT {} FROM suppliers WHERE id IN (LIST($1))", SupplierRow::LIST);
}

/// SKUs after a key, ascending; one more than `limit`.
///
/// # Errors
/// The database's.
pub async fn list(db: &Db, after: Option<&SkuKey>, limit: i64) -> Result<Vec<Sku>> {
    let given = vec![after.map(|key| args![key.as_str()])];
    let Some((sql, args)) = LIST.pick(given, limit) else {
        return Ok(Vec::new());
    };
    db.read(move |tx| {
        Box::pin(async move {
            let rows: Vec<SkuRow> = tx.all(sql, args).await?;
            with_sources(tx, rows).await
        })
    })
    .await
}

/// One SKU, by its key or an alias.
///
/// # Errors
/// The database's.
pub async fn find(db: &Db, asked: &SkuKey) -> Result<Option<Sku>> {
    let asked = [asked.clone()];
    db.read(move |tx| {
        Box::pin(async move {
            let found = by_names(tx, &asked).await?;
            Ok::<_, Error>(found.into_values().next())
        })
    })
    .await
}

/// The SKUs asked for, by key or alias, with what their availability is made of; those that are
/// not there are left out.
///
/// # Errors
/// The database's.
pub async fn load(db: &Db, asked: &[SkuKey]) -> Result<BTreeMap<SkuKey, Loaded>> {
    let asked = asked.to_vec();
    db.read(move |tx| {
        Box::pin(async move {
            let skus = by_names(tx, &asked).await?;
            let sources = || skus.values().flat_map(|sku| &sku.sources);
            let levels = levels_of_skus(tx, skus.values()).await?;
            let suppliers: BTreeSet<&SourceId> = sources().map(|s| &s.source).collect();
            let rows: Vec<SupplierRow> = tx.all(&SUPPLIERS, vec![names(suppliers)]).await?;
            let suppliers: BTreeMap<SourceId, Paused> = rows.into_iter().map(Into::into).collect();
            let loaded = skus.into_iter().map(|(asked, sku)| {
                let own = sku.sources.iter();
                let levels = own
                    .clone()
                    .filter_map(|s| Some((s.level.clone(), levels.get(&s.level)?.clone())));
                let suppliers =
                    own.filter_map(|s| Some((s.source.clone(), suppliers.get(&s.source)?.clone())));
                let loaded =
                    Loaded { levels: levels.collect(), suppliers: suppliers.collect(), sku };
                (asked, loaded)
            });
            Ok::<_, Error>(loaded.collect())
        })
    })
    .await
}

/// By the name asked for; a key goes before an alias of the same text.
async fn by_names(tx: &mut Tx, asked: &[SkuKey]) -> Result<BTreeMap<SkuKey, Sku>> {
    let aliases: Vec<(String, String)> = tx.all(&ALIASES, vec![names(asked)]).await?;
    let aliases: BTreeMap<SkuKey, SkuKey> =
        aliases.into_iter().map(|(alias, sku)| (alias.into(), sku.into())).collect();
    let keys: BTreeSet<&SkuKey> = asked.iter().chain(aliases.values()).collect();
    let rows: Vec<SkuRow> = tx.all(&SKUS, vec![names(keys)]).await?;
    let skus: BTreeMap<SkuKey, Sku> =
        with_sources(tx, rows).await?.into_iter().map(|sku| (sku.key.clone(), sku)).collect();
    Ok(asked
        .iter()
        .filter_map(|name| {
            let sku = skus.get(name).or_else(|| skus.get(aliases.get(name)?))?;
            Some((name.clone(), sku.clone()))
        })
        .collect())
}

/// The levels of these SKUs by id.
pub(in crate::storage) async fn levels_of_skus(
    tx: &mut Tx,
    skus: impl Iterator<Item = &Sku>,
) -> Result<BTreeMap<LevelId, Level>> {
    let ids: BTreeSet<&LevelId> = skus.flat_map(|sku| &sku.sources).map(|s| &s.level).collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<LevelRow> = tx.all(&LEVELS, vec![names(ids)]).await?;
    Ok(rows.into_iter().map(|row| (row.id.clone(), row.into())).collect())
}

/// The SKUs of these rows, in their order, each with its sources by preference.
pub(in crate::storage) async fn with_sources(tx: &mut Tx, rows: Vec<SkuRow>) -> Result<Vec<Sku>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut skus: Vec<Sku> = rows.into_iter().map(Sku::from).collect();
    let keys = names(skus.iter().map(|sku| &sku.key));
    let sources: Vec<SourceRow> = tx.all(&SOURCES, vec![keys]).await?;
    let mut by_sku: BTreeMap<SkuKey, Vec<_>> = BTreeMap::new();
    for row in sources {
        by_sku.entry(row.sku.clone()).or_default().push(row.into());
    }
    for sku in &mut skus {
        sku.sources = by_sku.remove(&sku.key).unwrap_or_default();
    }
    Ok(skus)
}
