//! The daemon of a home as a process that a world owns, can kill, and can start again.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::blackbox::api::Api;
use crate::blackbox::daemon::{Home, LIMIT};

/// A running daemon; killed when dropped.
pub struct Process {
    child: Child,
    pub api: Api,
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `serve` and waits until it does.
    pub async fn serve(home: &Home) -> Process {
        let log = std::fs::File::options().create(true).append(true).open(home.path("stderr.log"));
        let mut command = home.command(&["serve"]);
        command.stdout(Stdio::piped()).stderr(log.expect("the log"));
        let mut child = command.spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        let first = timeout(LIMIT, stdout.next_line()).await.expect("it serves in time");
        let first = first.expect("its stdout is read").unwrap_or_default();
        let Some(url) = first.strip_prefix("stockhold serves ") else {
            panic!("it said {first:?}:\n{}", tail(home));
        };
        let api = Api::new(url, None);
        Process { child, api, _stdout: stdout }
    }

    /// `kill -9`; nothing of it runs any more when this returns.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }
}

/// The end of the log.
pub fn tail(home: &Home) -> String {
    let text = home.log();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
