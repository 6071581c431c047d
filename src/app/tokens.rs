//! The suppliers' adapters with their tokens kept over restarts: a refreshed pair replaces the
//! configured one, as long as the configuration that it came from is still the same.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::policy;
use crate::clock::Clock;
use crate::domain::names::SourceId;
use crate::lifecycle::Lifecycle;
use crate::settings::{Settings, SupplierSettings};
use crate::storage::{self, Db, suppliers};
use crate::suppliers::alibaba1688::{Alibaba1688, Tokens};

/// As kept in the store.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// SHA-256 of the configured pair that these came from.
    from: String,
    access: String,
    refresh: Option<String>,
}

/// The adapters of all configured suppliers.
///
/// # Errors
/// Names the supplier whose adapter cannot be made.
pub async fn adapters(
    settings: &Settings,
    clock: &Clock,
    db: &Db,
    life: &Lifecycle,
) -> Result<BTreeMap<SourceId, Arc<Alibaba1688>>, String> {
    let mut adapters = BTreeMap::new();
    for supplier in &settings.suppliers {
        let id = SourceId::from(supplier.id.as_str());
        let from = fingerprint(supplier);
        let mut terms = policy::adapter_terms(supplier, clock);
        if let Some(kept) = kept(db, &id).await?.filter(|kept| kept.from == from) {
            terms.access_token = SecretString::from(kept.access);
            terms.refresh_token = kept.refresh.map(SecretString::from);
        }
        let adapter = Alibaba1688::new(terms).map_err(|e| format!("supplier {id}: {e}"))?;
        let adapter = Arc::new(adapter);
        let keeper = Keeper { db: db.clone(), id: id.clone(), from };
        let task = keeper.run(Arc::clone(&adapter), life.stopping());
        life.supervise(format!("tokens of {id}"), task);
        adapters.insert(id, adapter);
    }
    Ok(adapters)
}

fn fingerprint(supplier: &SupplierSettings) -> String {
    let refresh = supplier.refresh_token.as_ref().map_or("", |t| t.expose_secret());
    let pair = format!("{}\n{refresh}", supplier.access_token.expose_secret());
    hex::encode(Sha256::digest(pair.as_bytes()))
}

async fn kept(db: &Db, id: &SourceId) -> Result<Option<Kept>, String> {
    let source = id.clone();
    let read = db.read(move |tx| Box::pin(async move { suppliers::tokens(tx, &source).await }));
    let text = read.await.map_err(|e: storage::Error| e.to_string())?;
    // Unreadable ones are of no use; the configured ones are tried instead.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

struct Keeper {
    db: Db,
    id: SourceId,
    from: String,
}

impl Keeper {
    async fn run(
        self,
        adapter: Arc<Alibaba1688>,
        stopping: CancellationToken,
    ) -> Result<(), Infallible> {
        let mut tokens = adapter.tokens();
        loop {
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                changed = tokens.changed() => if changed.is_err() {
                    stopping.cancelled().await;
                    return Ok(());
                },
            }
            let new = tokens.borrow_and_update().clone();
            if let Err(error) = self.keep(&new).await {
                let id = &self.id;
                tracing::error!(supplier.id = %id, error, "refreshed tokens could not be kept");
            }
        }
    }

    async fn keep(&self, tokens: &Tokens) -> Result<(), String> {
        let kept = Kept {
            from: self.from.clone(),
            access: tokens.access.expose_secret().to_owned(),
            refresh: tokens.refresh.as_ref().map(|t| t.expose_secret().to_owned()),
        };
        let text = serde_json::to_string(&kept).map_err(|e| e.to_string())?;
        let id = self.id.clone();
        let put = self.db.transact(move |tx| {
            Box::pin(async move { suppliers::put_tokens(tx, &id, &text).await })
        });
        put.await.map_err(|e: storage::Error| e.to_string())
    }
}
