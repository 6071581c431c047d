//! The built binary in a temporary folder of its own: configuration, database, clock and log. A
//! [`Home`] outlives the daemons that are started in it one after the other, so that a test can
//! kill, stop and restart; the log is shown when a test fails.
//!
//! What must hold: waiting always ends (a limit far above what a busy machine needs), and nothing
//! is asserted about how long anything took.

use std::future::Future;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::api::Api;
use super::tables::{self, Row, Tables};

/// The built program.
pub const BINARY: &str = env!("CARGO_BIN_EXE_stockhold");
/// Nothing waits longer.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Noon of the busiest day: where manual clocks start, microseconds.
pub const NOON: i64 = 1_796_040_000_000_000;
/// Microseconds.
pub const SECOND: i64 = 1_000_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;

/// API keys by role, for a home with [`Home::with_keys`].
pub const SHOP_KEY: &str = "shop-key-0123456789";
pub const DESK_KEY: &str = "desk-key-0123456789";
pub const WALL_KEY: &str = "wall-key-0123456789";

/// A folder with a configuration.
pub struct Home {
    folder: TempDir,
    /// The way to the database, when it is not the straight one.
    storage_url: Option<String>,
    pub tables: Arc<Tables>,
    settings: String,
    keys: bool,
    clock: bool,
    environment: Vec<(String, String)>,
}

impl Home {
    /// With `settings` as the text of the configuration after what every home has: a free port on
    /// loopback and a database: in the folder (`store.db`), or on the private server.
    pub fn new(settings: &str) -> Home {
        let folder = TempDir::with_prefix("stockhold-").expect("a temporary folder");
        let tables = if tables::replicas() {
            Tables::server()
        } else {
            Tables::file(folder.path().join("store.db"))
        };
        Home::in_folder(folder, Arc::new(tables), settings)
    }

    /// A replica's, with a database that others have too.
    pub fn on(tables: &Arc<Tables>, settings: &str) -> Home {
        let folder = TempDir::with_prefix("stockhold-").expect("a temporary folder");
        Home::in_folder(folder, Arc::clone(tables), settings)
    }

    fn in_folder(folder: TempDir, tables: Arc<Tables>, settings: &str) -> Home {
        Home {
            folder,
            storage_url: None,
            tables,
            settings: settings.to_owned(),
            keys: false,
            clock: false,
            environment: Vec::new(),
        }
    }

    /// Three API keys, one for each role; the daemon's [`Api`] speaks as ops.
    #[must_use]
    pub fn with_keys(mut self) -> Home {
        self.keys = true;
        self
    }

    /// Time in the test's hand, from [`NOON`] on.
    #[must_use]
    pub fn with_clock(mut self) -> Home {
        self.clock = true;
        write_clock(&self.clock_file(), NOON);
        self
    }

    /// Goes to the database by another way.
    #[must_use]
    pub fn with_storage(mut self, url: String) -> Home {
        self.storage_url = Some(url);
        self
    }

    /// A variable of the daemon's environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Home {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn clock_file(&self) -> PathBuf {
        self.path("clock")
    }

    fn log_file(&self) -> PathBuf {
        self.path("stderr.log")
    }

    /// What its daemons have written to stderr so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The configuration's text.
    fn configuration(&self) -> String {
        let mut text = String::from("[server]\nlisten = \"127.0.0.1:0\"\n");
        let keys = [("shop", "storefront", SHOP_KEY), ("desk", "ops", DESK_KEY)];
        let keys = keys.into_iter().chain([("wall", "reader", WALL_KEY)]);
        for (name, role, key) in keys.filter(|_| self.keys) {
            text += &format!(
                "[[server.keys]]\nname = \"{name}\"\nrole = \"{role}\"\nkey = \"{key}\"\n"
            );
        }
        let storage = self.storage_url.clone().unwrap_or_else(|| self.tables.url());
        text += &format!("[storage]\nurl = \"{storage}\"\n");
        let server = matches!(*self.tables, Tables::Server(_));
        if server && !self.settings.contains("[coordination]") {
            let redis = tables::service("STOCKHOLD_TEST_REDIS");
            text += &format!("[coordination]\nurl = \"{redis}\"\n");
        }
        text + &self.settings + "\n"
    }

    /// The binary with this configuration and these arguments after `--config FILE`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let file = self.path("stockhold.toml");
        std::fs::write(&file, self.configuration()).expect("the configuration is written");
        let mut command = Command::new(BINARY);
        command.arg("--config").arg(file).args(arguments).current_dir(self.folder.path());
        for name in ["STOCKHOLD_CONFIG", "STOCKHOLD_LOG", "STOCKHOLD_LOG_FORMAT", "TZ"] {
            command.env_remove(name);
        }
        if self.clock {
            command.env("STOCKHOLD_TEST_CLOCK", self.clock_file());
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments)).await
    }

    /// Starts a daemon and waits until it serves.
    pub async fn serve(&self) -> Daemon<'_> {
        self.start(self.command(&["serve"])).await
    }

    /// Starts what `command` runs, which serves.
    pub async fn start(&self, mut command: Command) -> Daemon<'_> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file());
        command.stdout(Stdio::piped()).stderr(log.expect("the log"));
        let mut child = command.spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("its stdout");
        let mut lines = BufReader::new(stdout).lines();
        let first = timeout(LIMIT, lines.next_line()).await.expect("it serves in time");
        let first = first.expect("its stdout is read").unwrap_or_default();
        let Some(url) = first.strip_prefix("stockhold serves ") else {
            panic!("it said {first:?} instead of serving; its log:\n{}", self.log());
        };
        let api = Api::new(url, self.keys.then_some(DESK_KEY));
        Daemon { home: self, child, api, _stdout: lines }
    }

    /// Sets the manual clock for the next start.
    pub fn set_clock(&self, at: i64) {
        write_clock(&self.clock_file(), at);
    }

    /// Rows of the database as they are committed now.
    pub async fn rows<T: Row>(&self, sql: &str) -> Vec<T> {
        self.tables.rows(sql, &[]).await
    }

    /// One number of the database.
    pub async fn number(&self, sql: &str) -> i64 {
        self.tables.number(sql).await
    }

    /// Changes the database behind the daemon's back.
    pub async fn tamper(&self, sql: &str) {
        self.tables.run(sql).await;
    }

    /// Waits until readers of the ledger may pass all that is written: on a server shared with other
    /// tests that takes as long as their open transactions do.
    pub async fn settled(&self) {
        if matches!(*self.tables, Tables::File(_)) {
            return;
        }
        let open =
            "SELECT count(*) FROM ledger WHERE xact >= pg_snapshot_xmin(pg_current_snapshot())";
        eventually("the ledger is settled", async || self.number(open).await == 0).await;
    }

    /// The rules that hold at every committed instant, by reading the tables: a level's figures
    /// are its open holds' and its ledger's sums, nothing is oversold, what ended holds nothing.
    pub async fn check_books(&self) {
        let faults: Vec<(String, String)> = self.rows(BOOKS).await;
        assert_eq!(faults, [], "the books do not agree");
    }
}

/// (what is wrong, where)
const BOOKS: &str = "
    SELECT 'held is not its holds' AS fault, id FROM levels l WHERE held <>
        (SELECT coalesce(sum(quantity), 0) FROM holds h WHERE level_id = l.id AND state = 'active')
    UNION ALL SELECT 'committed is not its holds', id FROM levels l WHERE committed <>
        (SELECT coalesce(sum(quantity), 0) FROM holds h
         WHERE level_id = l.id AND state = 'committed')
    UNION ALL SELECT 'figures are not the ledger''s', id FROM levels l WHERE
        (quantity, held, committed) <> (SELECT coalesce(sum(by_quantity), 0),
         coalesce(sum(by_held), 0), coalesce(sum(by_committed), 0) FROM ledger
         WHERE level_id = l.id)
    UNION ALL SELECT 'oversold', id FROM levels
        WHERE kind = 'warehouse' AND held + committed > quantity
    UNION ALL SELECT 'an ended order holds stock', id FROM orders o
        WHERE state IN ('cancelled', 'expired', 'completed') AND EXISTS
        (SELECT 1 FROM holds WHERE order_id = o.id AND state = 'active')
    UNION ALL SELECT 'an order that waits has no hold', id FROM orders o
        WHERE state IN ('pending_payment', 'paid', 'confirming') AND NOT EXISTS
        (SELECT 1 FROM holds WHERE order_id = o.id AND state IN ('active', 'committed'))
    UNION ALL SELECT 'a line is not its holds', o.id FROM orders o JOIN order_lines l
        ON l.order_id = o.id WHERE o.state NOT IN ('cancelled', 'expired')
        AND l.quantity - l.cancelled <> (SELECT coalesce(sum(quantity), 0) FROM holds h
         WHERE h.order_id = o.id AND h.line = l.no AND h.state NOT IN ('released', 'reversed')
         -- What was in the feed when its purchase was undone stays settled.
         AND NOT (h.state = 'settled' AND EXISTS (SELECT 1 FROM purchase_orders p
         WHERE p.id = h.purchase_id AND p.state = 'cancelled')))
    UNION ALL SELECT 'money is kept that nothing is given for', id FROM orders o
        WHERE state IN ('cancelled', 'expired') AND
        (SELECT coalesce(sum(amount), 0) FROM payments WHERE order_id = o.id) <>
        (SELECT coalesce(sum(amount), 0) FROM refunds WHERE order_id = o.id)
    UNION ALL SELECT 'more is refunded than was paid', id FROM orders o WHERE
        (SELECT coalesce(sum(amount), 0) FROM payments WHERE order_id = o.id) <
        (SELECT coalesce(sum(amount), 0) FROM refunds WHERE order_id = o.id)";

/// A running daemon; killed when dropped. Dereferences to its [`Api`].
pub struct Daemon<'h> {
    pub home: &'h Home,
    child: Child,
    api: Api,
    _stdout: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Daemon<'_> {
    pub fn process(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Kills it as a power cut would, as far as this process is concerned.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }

    /// Sends SIGTERM; see [`Self::ended`].
    pub fn terminate(&self) {
        signal(self.process(), "TERM");
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> ExitStatus {
        timeout(LIMIT, self.child.wait()).await.expect("it ends in time").expect("waited for")
    }

    /// Stops it softly.
    pub async fn stop(self) {
        self.terminate();
        let home = self.home;
        let status = self.ended().await;
        assert!(status.success(), "{status}; its log:\n{}", home.log());
    }

    /// Sets the manual clock and waits until the daemon follows.
    pub async fn time(&self, at: i64) {
        self.home.set_clock(at);
        let seen = self.home.path("clock.seen");
        let told = at.to_string();
        eventually("the daemon follows the clock", async || {
            std::fs::read_to_string(&seen).is_ok_and(|text| text == told)
        })
        .await;
    }
}

impl Deref for Daemon<'_> {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.home.log();
            let from = log.char_indices().rev().nth(8_000).map_or(0, |(at, _)| at);
            eprintln!("--- the daemon's log\n{}", log.get(from..).unwrap_or(&log));
        }
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Its stdout, when it succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Its stderr, when it ended with 1.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.stderr
    }
}

/// Runs a command of the binary to its end.
pub async fn finish(mut command: Command) -> Ran {
    let ran = timeout(LIMIT, command.output()).await.expect("it ends in time");
    let Output { status, stdout, stderr } = ran.expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Sends a signal to a process of ours.
pub fn signal(process: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .arg(format!("-{name}"))
        .arg(process.to_string())
        .status()
        .expect("kill runs");
    assert!(sent.success(), "SIG{name} to {process}");
}

/// Waits until something holds that is under way.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = timeout(LIMIT, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}

/// Runs all at once and gathers their results.
pub async fn together<F>(tasks: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut results = Vec::with_capacity(running.len());
    for task in running {
        results.push(task.await.expect("a task ends"));
    }
    results
}

/// Whole, or not at all: the daemon may read at any time.
fn write_clock(file: &Path, at: i64) {
    let part = file.with_extension("part");
    std::fs::write(&part, at.to_string()).expect("the time is written");
    std::fs::rename(part, file).expect("the time is set");
}
