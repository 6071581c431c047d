//! The built binary as a process of the test's: started with a configuration and a clock in a file,
//! killed as by `kill -9`, and gone when the test ends, however it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a start may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running daemon.
pub struct Process {
    child: Child,
    /// Where its HTTP listens.
    pub base: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(folder: &Path, clock: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockhold"));
    command
        .arg("--config")
        .arg(folder.join("stockhold.toml"))
        .env("STOCKHOLD_TEST_CLOCK", clock)
        .env("STOCKHOLD_LOG", "info")
        .stdin(Stdio::null());
    command
}

fn append(path: &Path) -> File {
    File::options().create(true).append(true).open(path).expect("a log file")
}

/// Runs a command of the binary to its end.
pub fn run(folder: &Path, clock: &Path, args: &[&str]) {
    let output = command(folder, clock).args(args).output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
}

impl Process {
    /// Starts `serve` in a folder that has `stockhold.toml`, and waits until it listens.
    pub async fn serve(folder: &Path, clock: &Path) -> Process {
        let told = folder.join("stdout");
        let _ = std::fs::remove_file(&told);
        let child = command(folder, clock)
            .arg("serve")
            .stdout(append(&told))
            .stderr(append(&log(folder)))
            .spawn()
            .expect("the binary starts");
        let mut process = Process { child, base: String::new() };
        let give_up = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(&told).unwrap_or_default();
            if let Some(base) = text.lines().find_map(|l| l.strip_prefix("stockhold serves ")) {
                process.base = base.to_owned();
                return process;
            }
            let ended = process.child.try_wait().expect("its state");
            assert!(ended.is_none() && Instant::now() < give_up, "no start:\n{}", tail(folder));
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// `kill -9`; nothing of it runs any more when this returns.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("stderr")
}

/// The end of the daemon's log.
pub fn tail(folder: &Path) -> String {
    let text = std::fs::read_to_string(log(folder)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
