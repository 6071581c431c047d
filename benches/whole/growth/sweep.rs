//! A mass of unpaid orders that fell due while the daemon was down: how long until all have ended.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::Found;
use super::seed::{self, Due};
use crate::Run;
use crate::books;
use crate::cells::{SKUS, Scheme};
use crate::schemes::Failure;
use crate::stand::Stand;
use crate::store::{Conn, Stage, stock};

/// It is given up after this.
const LIMIT: Duration = Duration::from_secs(900);

pub async fn run(
    run: &Run,
    stage: &Stage,
    daemons: &[Scheme],
    found: &mut Found,
) -> Result<(), Failure> {
    let n: u64 = if run.quick { 10_000 } else { 100_000 };
    found.line(&format!(
        "\n## A sweep\n\n{n} unpaid orders over {SKUS} SKUs, overdue when the daemon starts: from its first \
         answer to the last order's end.\n\n| daemon | seconds | orders a second |\n|---|---|---|"
    ));
    for daemon in daemons {
        let store = stage.empty(daemon.on_sqlite(), "sweep").await?;
        let mut conn = store.connect().await?;
        stock(&mut conn, SKUS).await?;
        seed::orders(&mut conn, n, SKUS, Due::Before).await?;
        let stand = Stand::daemon(stage, store, "").await?;
        let seconds = until_none(&mut conn, "orders WHERE state = 'pending_payment'").await?;
        found.line(&format!(
            "| {} | {seconds:.1} | {:.0} |",
            daemon.name(),
            n as f64 / seconds.max(0.001)
        ));
        found.figure("sweep", json!({"daemon": daemon, "orders": n, "seconds": seconds}));
        let mut faults = books::check(&mut conn, &[]).await?;
        let ended = conn.number("SELECT count(*) FROM orders WHERE state = 'expired'").await?;
        let held = conn.number("SELECT CAST(sum(held) AS BIGINT) FROM levels").await?;
        if u64::try_from(ended) != Ok(n) || held != 0 {
            faults.push(format!("{ended} of {n} orders have expired, {held} units are held"));
        }
        found.judge("sweep", faults);
        conn.close().await?;
        stand.clear(stage).await?;
    }
    Ok(())
}

/// Seconds until there are none of these rows.
pub async fn until_none(conn: &mut Conn, these: &str) -> Result<f64, Failure> {
    let since = Instant::now();
    let question = format!("SELECT count(*) FROM {these}");
    loop {
        let left = conn.number(&question).await?;
        if left == 0 {
            return Ok(since.elapsed().as_secs_f64());
        }
        if since.elapsed() > LIMIT {
            return Err(format!("{left} {these} are left after {LIMIT:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
