//! Where it was measured: machine, versions, commit, date.

use std::collections::BTreeMap;
use std::process::Command;

use stockhold::clock::Clock;

use crate::schemes::{self, Failure};
use crate::store::{Conn, Stage};

/// Name and value.
pub type Machine = BTreeMap<&'static str, String>;

pub async fn look(stage: &Stage) -> Result<Machine, Failure> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next());
    let gib = kib.and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib >> 20);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = async {
        let mut redis = schemes::redis(&stage.redis).await?;
        Ok::<String, Failure>(redis::cmd("INFO").arg("server").query_async(&mut redis).await?)
    };
    let info = info.await?;
    let redis = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let store = stage.empty(false, "versions").await?;
    let postgres = match store.connect().await? {
        Conn::Postgres(mut conn) => {
            sqlx::query_scalar::<_, String>("SHOW server_version").fetch_one(&mut *conn).await?
        }
        Conn::Sqlite(_) => String::new(),
    };
    stage.remove(&store).await?;
    let file = stage.empty(true, "versions").await?;
    let sqlite = file.connect().await?.texts("SELECT sqlite_version()").await?;
    let date = Clock::System.now().rfc3339();
    Ok(Machine::from([
        ("machine", format!("{} cores, {gib} GiB, {}", cores, model.map_or("?", |(_, m)| m))),
        ("system", said("uname", &["-sr"])),
        ("rust", said("rustc", &["--version"])),
        ("postgresql", format!("{postgres}, default durability (fsync, synchronous_commit on)")),
        ("redis", format!("{}, no persistence", redis.unwrap_or("?"))),
        ("sqlite", format!("{}, WAL, synchronous FULL", sqlite.concat())),
        ("commit", said("git", &["describe", "--always", "--dirty", "--exclude=*"])),
        ("date", date.get(..16).unwrap_or(&date).replace('T', " ") + " UTC"),
        ("load before", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().into()),
    ]))
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| "?".into(), |o| String::from_utf8_lossy(&o.stdout).trim().into())
}
