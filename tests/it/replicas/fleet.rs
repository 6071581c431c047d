//! Replicas of one deployment, each in a folder of its own, with its own ways to the servers.

use std::sync::Arc;

use crate::blackbox::daemon::{Daemon, Home, eventually};
use crate::blackbox::tables::{Tables, service};
use crate::proxy::Proxy;

/// The replicas' homes, their common database, and each one's ways to the servers.
pub struct Fleet {
    pub homes: Vec<Home>,
    pub tables: Arc<Tables>,
    /// To PostgreSQL, by replica.
    pub to_database: Vec<Proxy>,
    /// To Redis, by replica.
    pub to_redis: Vec<Proxy>,
}

/// `host:port` of a server's url.
pub fn host_of(url: &str) -> String {
    let url = url::Url::parse(url).expect("a url");
    format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"))
}

impl Fleet {
    /// So many replicas with the same settings on a new database.
    pub async fn of(replicas: usize, settings: &str) -> Fleet {
        Fleet::each(replicas, settings, |_, home| home).await
    }

    /// So many replicas, each with something of its own.
    pub async fn each(replicas: usize, settings: &str, own: impl Fn(usize, Home) -> Home) -> Fleet {
        let tables = Arc::new(Tables::server());
        let redis = service("STOCKHOLD_TEST_REDIS");
        let (mut homes, mut to_database, mut to_redis) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..replicas {
            let database = Proxy::before(&host_of(&tables.url())).await;
            let calm = Proxy::before(&host_of(&redis)).await;
            let home = Home::on(&tables, settings)
                .with_storage(database.in_url(&tables.url()))
                .with_variable("STOCKHOLD_COORDINATION__URL", &calm.in_url(&redis));
            homes.push(own(n, home));
            to_database.push(database);
            to_redis.push(calm);
        }
        Fleet { homes, tables, to_database, to_redis }
    }

    /// Starts all of them at once.
    pub async fn serve(&self) -> Vec<Daemon<'_>> {
        futures::future::join_all(self.homes.iter().map(Home::serve)).await
    }

    /// Deadlocks that the server has had to break in this database; call it when no daemon runs.
    pub async fn deadlocks(&self) -> i64 {
        self.told("deadlocks").await
    }

    /// Transactions that ended in this database, the tests' own few among them; call it when no daemon
    /// runs.
    pub async fn transactions(&self) -> i64 {
        self.told("xact_commit + xact_rollback").await
    }

    /// A figure of the server's, when every session has told its own: at the latest when it ends.
    async fn told(&self, figure: &str) -> i64 {
        eventually("the daemons' sessions have ended", async || {
            let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'stockhold'";
            self.tables.number(open).await == 0
        })
        .await;
        let sql =
            format!("SELECT {figure} FROM pg_stat_database WHERE datname = current_database()");
        self.tables.number(&sql).await
    }
}
