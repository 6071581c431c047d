//! Opening the store: whoever writes claims the SQLite file first and brings the schema up to date.

use crate::clock::Clock;
use crate::ids::Ids;
use crate::settings::Settings;
use crate::storage::epochs::{self, Epoch};
use crate::storage::{self, Claim, Db, Options, jobs};

/// An open store; the claim is held as long as it is.
pub struct Store {
    pub db: Db,
    pub epoch: Epoch,
    _claim: Claim,
}

/// Claims, opens and migrates.
///
/// # Errors
/// Names the process that has the file, the newer schema, or what the database says.
pub async fn open(settings: &Settings, clock: &Clock) -> Result<Store, storage::Error> {
    open_as(settings, clock, &Options::default()).await
}

/// As [`open`], for a command that is no daemon.
///
/// # Errors
/// As [`open`].
pub async fn open_as(
    settings: &Settings,
    clock: &Clock,
    options: &Options,
) -> Result<Store, storage::Error> {
    let claim = storage::claim_file(&settings.storage.url)?;
    let db = Db::open(&settings.storage.url, options)?;
    db.migrate().await?;
    if db.is_sqlite() {
        // The claim says that nobody else has the file, so whoever had a job under lease is dead.
        let clock = clock.clone();
        let orphaned = db.transact(move |tx| {
            Box::pin(async move {
                let now = tx.now(&clock).await?;
                jobs::orphan(tx, now).await
            })
        });
        // A file that takes no writes is told of when something is to be written.
        if let Err(error) = orphaned.await {
            let error: storage::Error = error;
            tracing::warn!(error = %error, "leases of the dead are waited for");
        }
    }
    let epoch = epochs::current(&db, clock, Ids::system().next(clock.now())).await?;
    Ok(Store { db, epoch, _claim: claim })
}

/// Opens for reads alone, beside a daemon that has the file if need be. A store that nobody has is
/// brought up to date first.
///
/// # Errors
/// As [`open`], and when the schema is another version's.
pub async fn open_to_read(settings: &Settings) -> Result<Db, storage::Error> {
    let claim = storage::claim_file(&settings.storage.url);
    let db = Db::open(&settings.storage.url, &Options::default())?;
    match claim {
        Ok(_claim) => db.migrate().await?,
        Err(_) => db.check_schema().await?,
    }
    Ok(db)
}
