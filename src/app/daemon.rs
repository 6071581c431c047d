//! A running daemon: store, engine, jobs and HTTP, started in this order and stopped in the other.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::operations::ByHand;
use super::{coordination, policy, readiness, shared_clock, store, tokens};
use crate::clock::Clock;
use crate::coordination::Coordination;
use crate::domain::names::SourceId;
use crate::engine::{Chances, Engine, Parts};
use crate::http;
use crate::ids::Ids;
use crate::jobs;
use crate::lifecycle::Lifecycle;
use crate::refunds::{Manual, Provider, Webhook};
use crate::settings::{Percent, RefundSettings, Settings};
use crate::storage::{Db, checkpoints};

/// What a started daemon shows to whoever started it.
pub struct Daemon {
    /// Where HTTP listens; the real port when 0 was asked for.
    pub address: SocketAddr,
    pub engine: Engine,
    pub db: Db,
    writer: JoinHandle<()>,
    /// Held as long as the daemon runs.
    store: store::Store,
}

impl Daemon {
    /// Starts everything as supervised tasks of `life`.
    ///
    /// # Errors
    /// In words, for whoever started it.
    pub async fn start(
        settings: &Settings,
        clock: Clock,
        life: &Lifecycle,
    ) -> Result<Daemon, String> {
        let listener = http::listen(settings.server.listen)
            .map_err(|e| format!("cannot listen on {}: {e}", settings.server.listen))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let store = store::open(settings, &clock).await.map_err(|e| e.to_string())?;
        life.supervise("checkpoints", checkpoints::run(store.db.clone(), life.stopping()));
        let clock = shared_clock::clock(&store.db, clock, life).await.map_err(|e| e.to_string())?;
        let metrics = http::metrics::install().map_err(|e| e.to_string())?;
        life.supervise("metrics", http::metrics::keep_up(metrics.clone(), life.stopping()));
        let (db, ids) = (store.db.clone(), Ids::system());
        let rules = Arc::new(policy::policy(settings));
        let coordination = coordination::open(settings, &clock, &store.epoch).await?;
        life.supervise("coordination", watched(coordination.clone(), life.clone()));
        let (engine, writer) = Engine::new(Parts {
            db: db.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            policy: Arc::clone(&rules),
            max_queued: settings.limits.max_queued_commands,
            epoch: store.epoch.clone(),
            on_commit: coordination::follower(&coordination),
        });
        let writer = run_writer(writer, life);
        let adapters = tokens::adapters(settings, &clock, &db, life).await?;
        let deps = jobs::Deps {
            db: db.clone(),
            engine: Arc::new(engine.clone()),
            clock: clock.clone(),
            coordination: coordination.clone(),
            policy: Arc::clone(&rules),
            suppliers: Arc::new(policy::ports(&adapters)),
            suspect_drop: Arc::new(suspect_drops(settings)),
            refunds: refunds(settings, &clock)?,
            channels: crate::alerts::channels(&settings.alerts, &clock)
                .map_err(|e| e.to_string())?
                .into(),
            lease: settings.jobs.lease,
            max_attempts: i64::from(settings.jobs.max_attempts),
            sweep_interval: settings.holds.sweep_interval,
        };
        for (name, task) in jobs::tasks(&deps, ids.next(clock.now()), &life.stopping()) {
            life.supervise(name, task);
        }
        let app = http::App {
            engine: engine.clone(),
            db: db.clone(),
            policy: rules,
            clock: clock.clone(),
            ids: ids.clone(),
            keys: http::auth::Keys::new(&settings.server.keys),
            operations: Arc::new(ByHand { db: db.clone(), clock: clock.clone() }),
            probe: readiness::probe(db.clone(), coordination.clone(), clock, ids, life),
            coordination,
            metrics,
            running: http::Running::default(),
            chances: Chances::new(db.clone()),
        };
        let stopping = life.stopping().cancelled_owned();
        life.supervise("http", http::serve(listener, http::router(app), stopping));
        tracing::info!(server.address = %address, "serving");
        Ok(Daemon { address, engine, db, writer, store })
    }

    /// After everything that submits has ended: the queue runs empty, the store is closed.
    pub async fn stop(self) {
        self.engine.close();
        if let Err(died) = self.writer.await {
            tracing::error!(error = %died, "the engine's writer died");
        }
        self.db.close().await;
        drop(self.store);
    }
}

async fn watched(coordination: Coordination, life: Lifecycle) -> Result<(), Infallible> {
    coordination.run(life.stopping()).await;
    Ok(())
}

/// How much of a supplier's feed may vanish at once.
fn suspect_drops(settings: &Settings) -> BTreeMap<SourceId, Percent> {
    let suppliers = settings.suppliers.iter();
    suppliers.map(|s| (SourceId::from(s.id.as_str()), s.suspect_drop)).collect()
}

fn refunds(settings: &Settings, clock: &Clock) -> Result<Arc<dyn Provider>, String> {
    Ok(match &settings.refunds {
        RefundSettings::Manual => Arc::new(Manual),
        RefundSettings::Webhook { url, secret } => {
            Arc::new(Webhook::new(url, secret, clock.clone()).map_err(|e| e.to_string())?)
        }
    })
}

/// The writer outlives the soft stop, since what was taken is answered; its death is the daemon's.
fn run_writer(
    writer: impl Future<Output = Result<(), &'static str>> + Send + 'static,
    life: &Lifecycle,
) -> JoinHandle<()> {
    let (died, death) = oneshot::channel();
    let stopping = life.stopping();
    life.supervise("engine", async move {
        tokio::select! {
            () = stopping.cancelled() => Ok(()),
            why = death => Err(why.unwrap_or("the writer died")),
        }
    });
    tokio::spawn(async move {
        let ended = writer.await;
        let _ = died.send(ended.err().unwrap_or("the writer ended"));
    })
}
