//! `kill -9` under full load: whatever was acknowledged by then is in the database.

use std::time::Duration;

use stockhold::bench::{Load, drive};

use crate::books::{self, Acknowledged};
use crate::cells::Scheme;
use crate::rounds::{fresh, orders};
use crate::schemes::Failure;
use crate::stand::Stand;
use crate::store::Stage;

const CONNECTIONS: usize = 256;
const KILLED_AFTER: Duration = Duration::from_millis(1_500);
/// Answers that came before the end are read until then.
const SPAN: Duration = Duration::from_millis(1_800);

/// What is wrong, and how many orders were acknowledged.
pub async fn run(stage: &Stage, scheme: Scheme) -> Result<(Vec<String>, usize), Failure> {
    let mut stand = Stand::start(stage, scheme, None).await?;
    let (url, run) = (stand.url.clone(), fresh());
    let asks = orders(&run, 1);
    let load = Load { what: "crash", connections: CONNECTIONS, span: SPAN, rate: None, keep: true };
    let asking = tokio::spawn(async move { drive(&url, None, &load, &asks).await });
    tokio::time::sleep(KILLED_AFTER).await;
    stand.kill().await?;
    let driven = asking.await??;
    let placed = driven.placed.len();
    let mut faults = Vec::new();
    if placed == 0 || driven.report.broken() == 0 {
        faults.push("it was not under load when it was killed".to_owned());
    }
    if let Some(store) = &stand.store {
        let mut conn = store.connect().await?;
        let runs = [Acknowledged { run, numbers: driven.placed }];
        faults.extend(books::check(&mut conn, &runs).await?);
        conn.close().await?;
    }
    stand.clear(stage).await?;
    Ok((faults, placed))
}
