//! From start to exit: supervised tasks, signals, and a stop in two steps.
//!
//! - *Soft*: SIGTERM or SIGINT, a call of [`Lifecycle::stop`], or the death of a supervised task.
//!   Tasks see [`Lifecycle::stopping`], take nothing new and finish what they have begun.
//! - *Hard*: a second signal, or the end of the grace. Supervised tasks are dropped where they stand.
//!   That loses nothing (whatever is owed is in the database), it only leaves it to the next start.
//!
//! What must hold: a supervised task that panics, fails, or returns before a stop was asked for ends
//! the process with a non-zero exit code. A half-dead daemon that still answers `/healthz` is worse
//! than one that is restarted. Leaves out the order in which tasks drain: each waits for its own
//! inputs to end.

use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a hard stop waits for tasks that cannot be dropped (a blocking call, a commit under way).
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The process's tasks and its stop; clones share both.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    tasks: TaskTracker,
    soft: CancellationToken,
    hard: CancellationToken,
    /// The first supervised task that died, and why.
    death: Arc<OnceLock<Death>>,
}

/// A supervised task's untimely end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    pub task: String,
    pub cause: String,
}

/// How the process ended. As an exit code: 0 for `Clean`, 1 for the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Asked to stop, and everything finished in time.
    Clean,
    /// Asked to stop, and something had to be cut short.
    Forced,
    /// A supervised task died.
    Died(Death),
}

impl From<End> for ExitCode {
    fn from(end: End) -> ExitCode {
        match end {
            End::Clean => ExitCode::SUCCESS,
            End::Forced | End::Died(_) => ExitCode::FAILURE,
        }
    }
}

impl Lifecycle {
    pub fn new() -> Lifecycle {
        Lifecycle::default()
    }

    /// Cancelled when tasks should take nothing new and finish.
    pub fn stopping(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Cancelled when the grace is over. Supervised tasks are dropped then and need not look.
    pub fn stopping_hard(&self) -> CancellationToken {
        self.hard.clone()
    }

    /// Asks for a soft stop.
    pub fn stop(&self) {
        self.soft.cancel();
    }

    /// For work that may end at any time and must not be cut short by the one who asked for it, such
    /// as a transaction: a stop waits for what is spawned here. Its end, or panic, is the caller's.
    pub fn tracker(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Starts a task that must live until the stop. Returning `Ok` after [`Lifecycle::stopping`] is
    /// its good end; `Err`, a panic, or any return before is its death, which stops the process.
    pub fn supervise<F, E>(&self, name: impl Into<String>, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let (name, life) = (name.into(), self.clone());
        self.tasks.spawn(async move {
            let guarded = AssertUnwindSafe(task).catch_unwind();
            let cause = tokio::select! {
                biased;
                outcome = guarded => match outcome {
                    Ok(Ok(())) if life.soft.is_cancelled() => {
                        tracing::debug!(task.name = name, "task finished");
                        return;
                    }
                    Ok(Ok(())) => "returned before it was asked to stop".to_owned(),
                    Ok(Err(error)) => format!("failed: {error}"),
                    Err(panic) => format!("panicked: {}", panic_message(panic.as_ref())),
                },
                () = life.hard.cancelled() => {
                    tracing::warn!(task.name = name, "task cut short");
                    return;
                }
            };
            tracing::error!(task.name = name, cause, "task died; stopping");
            // The first death is the reason; those that follow from it are only logged.
            let _ = life.death.set(Death { task: name, cause });
            life.soft.cancel();
        });
    }

    /// Waits for a signal, a death or [`Lifecycle::stop`], then stops softly, then, after `grace` or
    /// at the next signal, hard.
    pub async fn run(self, grace: Duration, mut signals: Signals) -> End {
        tokio::select! {
            () = self.soft.cancelled() => {}
            name = signals.next() => tracing::info!(signal = name, "stopping"),
        }
        self.soft.cancel();
        self.tasks.close();
        let forced = tokio::select! {
            biased;
            () = self.tasks.wait() => false,
            name = signals.next() => {
                tracing::warn!(signal = name, tasks = self.tasks.len(), "second signal: stopping hard");
                true
            }
            () = tokio::time::sleep(grace) => {
                tracing::warn!(tasks = self.tasks.len(), "grace is over: stopping hard");
                true
            }
        };
        if forced {
            self.hard.cancel();
            if tokio::time::timeout(LAST_WAIT, self.tasks.wait())
                .await
                .is_err()
            {
                tracing::error!(tasks = self.tasks.len(), "tasks left behind");
            }
        }
        match (self.death.get(), forced) {
            (Some(death), _) => End::Died(death.clone()),
            (None, true) => End::Forced,
            (None, false) => End::Clean,
        }
    }
}

/// SIGTERM and SIGINT of this process, or whatever a test sends in their place.
#[derive(Debug)]
pub struct Signals(mpsc::UnboundedReceiver<&'static str>);

impl Signals {
    /// Takes over SIGTERM and SIGINT.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn of_the_process() -> std::io::Result<Signals> {
        let mut term = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    Some(()) = term.recv() => "SIGTERM",
                    Some(()) = interrupt.recv() => "SIGINT",
                    else => return,
                };
                if sender.send(name).is_err() {
                    return;
                }
            }
        });
        Ok(Signals(receiver))
    }

    /// Signals that a test gives by hand.
    pub fn by_hand() -> (mpsc::UnboundedSender<&'static str>, Signals) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Signals(receiver))
    }

    /// The next signal; never ends when there can be none any more.
    async fn next(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    fn died(task: &str, cause: &str) -> End {
        End::Died(Death {
            task: task.to_owned(),
            cause: cause.to_owned(),
        })
    }

    /// A task that ends well when asked.
    fn obedient(life: &Lifecycle) -> Arc<AtomicBool> {
        let (stopping, finished) = (life.stopping(), Arc::new(AtomicBool::new(false)));
        let done = Arc::clone(&finished);
        life.supervise("obedient", async move {
            stopping.cancelled().await;
            tokio::task::yield_now().await;
            done.store(true, Ordering::SeqCst);
            Ok::<(), Infallible>(())
        });
        finished
    }

    #[tokio::test]
    async fn a_signal_lets_tasks_finish() {
        let (life, (kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        let finished = obedient(&life);
        kill.send("SIGTERM").expect("sent");
        assert_eq!(life.run(LONG, signals).await, End::Clean);
        assert!(finished.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_stop_waits_for_tracked_work() {
        let (life, (_kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        let (release, wait) = tokio::sync::oneshot::channel::<()>();
        let work = life.tracker().spawn(async move { wait.await.is_ok() });
        life.stop();
        let running = tokio::spawn(life.run(LONG, signals));
        tokio::task::yield_now().await;
        assert!(!running.is_finished());
        release.send(()).expect("sent");
        assert_eq!(running.await.expect("joins"), End::Clean);
        assert!(work.await.expect("joins"));
    }

    #[tokio::test]
    async fn a_panic_stops_the_others_and_names_the_task() {
        let (life, (_kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        let finished = obedient(&life);
        life.supervise::<_, Infallible>("sweeper", async { panic!("no {}", "disk") });
        assert_eq!(
            life.run(LONG, signals).await,
            died("sweeper", "panicked: no disk")
        );
        assert!(finished.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn an_error_and_an_early_return_are_deaths() {
        let (life, (_kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        life.supervise("http", async { Err("address in use") });
        assert_eq!(
            life.run(LONG, signals).await,
            died("http", "failed: address in use")
        );

        let (life, (_kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        life.supervise("jobs", async { Ok::<(), Infallible>(()) });
        let end = life.run(LONG, signals).await;
        assert_eq!(end, died("jobs", "returned before it was asked to stop"));
    }

    #[tokio::test]
    async fn an_error_while_stopping_is_a_death_too() {
        let (life, (_kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        let stopping = life.stopping();
        life.supervise("outbox", async move {
            stopping.cancelled().await;
            Err("not flushed")
        });
        life.stop();
        assert_eq!(
            life.run(LONG, signals).await,
            died("outbox", "failed: not flushed")
        );
    }

    #[tokio::test]
    async fn a_second_signal_cuts_a_deaf_task_short() {
        let (life, (kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        life.supervise::<_, Infallible>("deaf", std::future::pending());
        kill.send("SIGINT").expect("sent");
        kill.send("SIGINT").expect("sent");
        assert_eq!(life.run(LONG, signals).await, End::Forced);
    }

    #[tokio::test]
    async fn the_end_of_the_grace_cuts_a_deaf_task_short() {
        let (life, (_kill, signals)) = (Lifecycle::new(), Signals::by_hand());
        let hard = life.stopping_hard();
        life.supervise::<_, Infallible>("deaf", std::future::pending());
        life.stop();
        assert_eq!(
            life.run(Duration::from_millis(1), signals).await,
            End::Forced
        );
        assert!(hard.is_cancelled());
    }

    #[tokio::test]
    async fn a_real_sigterm_arrives() {
        let mut signals = Signals::of_the_process().expect("handlers");
        let me = std::process::id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-TERM", &me])
            .status();
        assert!(sent.expect("kill runs").success());
        assert_eq!(signals.next().await, "SIGTERM");
    }
}
