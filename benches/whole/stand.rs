//! One scheme at work: its process, its store, where it listens. Killed when it is dropped.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::cells::Scheme;
use crate::schemes::Failure;
use crate::store::{self, Stage, Store};

/// Nobody takes longer to start.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Stand {
    pub url: String,
    pub store: Option<Store>,
    child: Child,
    /// Kept open: whoever writes to a closed one may fail.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Stand {
    /// Starts the scheme on a fresh store; the first SKU with `stock` units if that is given.
    pub async fn start(
        stage: &Stage,
        scheme: Scheme,
        stock: Option<i64>,
    ) -> Result<Stand, Failure> {
        forget(stage).await?;
        let store = match scheme {
            Scheme::Floor => None,
            scheme => Some(stage.stocked(scheme.on_sqlite(), stock).await?),
        };
        match scheme.kind() {
            None => {
                let store = store.ok_or("the daemon keeps orders")?;
                Stand::daemon(stage, store, "").await
            }
            Some(_) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("serve").arg(scheme.name()).arg("--redis").arg(&stage.redis);
                command.args(store.iter().flat_map(|s| ["--database".to_owned(), s.url()]));
                Stand::run(command, stage, store).await
            }
        }
    }

    /// Starts the daemon on a store: its defaults but for where things are, and `more` settings.
    pub async fn daemon(stage: &Stage, store: Store, more: &str) -> Result<Stand, Failure> {
        let mut settings =
            format!("[server]\nlisten = \"127.0.0.1:0\"\n[storage]\nurl = \"{}\"\n", store.url());
        if matches!(store, Store::Server { .. }) {
            settings += &format!("[coordination]\nurl = \"{}\"\n", stage.redis);
        }
        let file = stage.folder.path().join("stockhold.toml");
        std::fs::write(&file, settings + more)?;
        let mut command = Command::new(store::DAEMON);
        command.arg("--config").arg(file).arg("serve");
        for name in ["STOCKHOLD_CONFIG", "STOCKHOLD_LOG", "STOCKHOLD_LOG_FORMAT"] {
            command.env_remove(name);
        }
        Stand::run(command, stage, Some(store)).await
    }

    async fn run(
        mut command: Command,
        stage: &Stage,
        store: Option<Store>,
    ) -> Result<Stand, Failure> {
        let log = stage.folder.path().join("stderr.log");
        command.current_dir(stage.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(&log)?).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = timeout(LIMIT, lines.next_line()).await??.unwrap_or_default();
        let Some((_, url)) = first.split_once(" serves ") else {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            return Err(format!("it said {first:?} instead of serving; its log:\n{log}").into());
        };
        Ok(Stand { url: url.to_owned(), store, child, _stdout: lines })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// SIGKILL; answers when the process is gone.
    pub async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Kills it and removes its store.
    pub async fn clear(mut self, stage: &Stage) -> Result<(), Failure> {
        self.kill().await?;
        match self.store {
            Some(store) => stage.remove(&store).await,
            None => Ok(()),
        }
    }
}

/// What others left in Redis.
async fn forget(stage: &Stage) -> Result<(), Failure> {
    let mut redis = crate::schemes::redis(&stage.redis).await?;
    Ok(redis::cmd("FLUSHALL").exec_async(&mut redis).await?)
}
