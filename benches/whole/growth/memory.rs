//! What a connection that is open and a command that waits cost in memory; and that more of them than
//! are allowed are refused with `503 overloaded` and `Retry-After`, instead of growing.
//!
//! The writer is held up by a lock of ours: on PostgreSQL `LOCK TABLE levels`, on SQLite `BEGIN IMMEDIATE`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::net::TcpStream;

use super::Found;
use crate::books::{self, Acknowledged};
use crate::cells::Scheme;
use crate::plain::{Answer, ask};
use crate::report::short;
use crate::rounds::fresh;
use crate::schemes::Failure;
use crate::stand::Stand;
use crate::store::{Conn, Stage};

const OPEN: usize = 5_000;
/// Commands that may wait; the rest of the open connections is refused.
const QUEUED: usize = 4_000;
/// For the queue to fill, and shorter than anybody's patience with the lock.
const A_WHILE: Duration = Duration::from_secs(2);

pub async fn run(stage: &Stage, daemons: &[Scheme], found: &mut Found) -> Result<(), Failure> {
    found.line(&format!(
        "\n## Memory\n\n{OPEN} connections that are kept alive, each after one answer; then a placement on \
         each of them while the database lets nobody write, of which {QUEUED} may wait \
         (`max_queued_commands`).\n\n| daemon | at rest, MiB | KiB for each open connection (MiB per 1,000) \
         | KiB for each waiting placement (MiB per 1,000) | refused | orders afterwards |\n\
         |---|---|---|---|---|---|"
    ));
    for daemon in daemons {
        one(stage, *daemon, found).await?;
    }
    Ok(())
}

async fn one(stage: &Stage, daemon: Scheme, found: &mut Found) -> Result<(), Failure> {
    let store = stage.stocked(daemon.on_sqlite(), None).await?;
    let limits = format!("[limits]\nmax_queued_commands = {QUEUED}\n");
    let stand = Stand::daemon(stage, store.clone(), &limits).await?;
    let mut conn = store.connect().await?;
    let address = stand.url.trim_start_matches("http://").to_owned();
    // Pools and caches are made.
    let warm = (0..64).map(|n| place(&address, None, format!("warm-{n}")));
    let mut faults = Vec::new();
    for answer in join_all(warm).await {
        let answer = answer?;
        if answer.status != 201 {
            faults.push(format!("a first order was answered {answer:?}"));
        }
    }
    let rest = resident(&stand)?;
    let idle = join_all((0..OPEN).map(|_| open(&address))).await;
    let idle: Vec<TcpStream> = idle.into_iter().collect::<Result<_, _>>()?;
    tokio::time::sleep(A_WHILE / 2).await;
    let with_connections = resident(&stand)?;
    hold_up(&mut conn).await?;
    let run = fresh();
    let asks = idle.into_iter().enumerate();
    let asks: Vec<_> = asks
        .map(|(n, stream)| {
            let (address, id) = (address.clone(), format!("{run}-{n}"));
            tokio::spawn(async move {
                place(&address, Some(stream), id).await.map_err(|e| e.to_string())
            })
        })
        .collect();
    tokio::time::sleep(A_WHILE).await;
    let with_queue = resident(&stand)?;
    conn.execute("ROLLBACK").await?;
    let (mut statuses, mut numbers) = (BTreeMap::<u16, usize>::new(), Vec::new());
    for (n, answer) in asks.into_iter().enumerate() {
        let answer = answer.await??;
        *statuses.entry(answer.status).or_default() += 1;
        match answer {
            Answer { status: 201, .. } => numbers.push(u64::try_from(n)?),
            Answer { status: 503, head, body }
                if head.contains("\nretry-after:") && body.contains("\"overloaded\"") => {}
            other => faults.push(format!("answered {other:?}")),
        }
    }
    let refused = statuses.get(&503).copied().unwrap_or(0);
    // Those that the writer had taken when it was held up have made room for as many.
    if refused == 0 || refused > OPEN - QUEUED {
        faults.push(format!("{refused} placements were refused"));
    }
    let placed = numbers.len();
    faults.extend(books::check(&mut conn, &[Acknowledged { run, numbers }]).await?);
    faults.truncate(5);
    found.judge(&format!("memory, {}", daemon.name()), faults);
    let each = |more: u64, less: u64, n: usize| more.saturating_sub(less) as f64 / n as f64;
    let (connection, command) =
        (each(with_connections, rest, OPEN), each(with_queue, with_connections, placed.max(1)));
    let both = |kib: f64| format!("{} ({})", short(kib), short(kib * 1_000.0 / 1_024.0));
    found.line(&format!(
        "| {} | {} | {} | {} | {refused} × `503 overloaded`, with `Retry-After` | {placed} |",
        daemon.name(),
        rest / 1_024,
        both(connection),
        both(command)
    ));
    found.figure(
        "memory",
        json!({"daemon": daemon, "rest_kib": rest, "connection_kib": connection,
            "command_kib": command, "refused": refused, "placed": placed}),
    );
    conn.close().await?;
    stand.clear(stage).await
}

async fn hold_up(conn: &mut Conn) -> Result<(), Failure> {
    match conn {
        Conn::Sqlite(_) => conn.execute("BEGIN IMMEDIATE").await,
        Conn::Postgres(_) => conn.execute("BEGIN; LOCK TABLE levels").await,
    }
}

/// KiB of the daemon's memory that are in use.
fn resident(stand: &Stand) -> Result<u64, Failure> {
    let id = stand.id().ok_or("the daemon has ended")?;
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kib.parse()?)
}

/// A connection after one answer.
async fn open(address: &str) -> Result<TcpStream, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let answer = ask(&mut stream, "GET", "/healthz", "").await?;
    if answer.status == 200 { Ok(stream) } else { Err("it is not healthy".into()) }
}

async fn place(
    address: &str,
    stream: Option<TcpStream>,
    external_id: String,
) -> Result<Answer, Failure> {
    let mut stream = match stream {
        Some(stream) => stream,
        None => TcpStream::connect(address).await?,
    };
    let body = format!(
        r#"{{"channel":"bench","external_id":"{external_id}","currency":"USD","lines":[{{"sku":"BENCH-1","quantity":1,"unit_price":"1.00"}}]}}"#
    );
    ask(&mut stream, "POST", "/v1/orders", &body).await
}
