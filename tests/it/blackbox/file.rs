//! What only a SQLite file can meet: another process at it, a medium that takes no writes. The
//! deployment of replicas runs everything but this.

use super::api::order;
use super::daemon::{Home, eventually, finish};
use super::store::{refuses, unavailable};

#[tokio::test]
async fn one_process_at_a_time_has_the_file() {
    let home = Home::new("");
    let daemon = home.serve().await;
    daemon.stocked("W1", 5).await;
    let process = daemon.process().to_string();
    std::fs::write(home.path("c.csv"), "sku,warehouse_quantity\nW1,7\n").expect("written");
    for arguments in [&["serve"][..], &["migrate"], &["stock", "import", "c.csv"]] {
        let said = home.run(arguments).await.refused();
        assert!(said.contains("in use") && said.contains(&process), "{arguments:?}: {said}");
    }
    assert_eq!(daemon.figures("W1").await, (5, 0, 0, 5));
    // Reading beside it is fine.
    let exported = home.run(&["stock", "export"]).await.ok();
    assert!(exported.contains("W1"), "{exported}");
    daemon.kill().await;
    home.run(&["stock", "import", "c.csv"]).await.ok();
    home.serve().await.stop().await;
}

#[tokio::test]
async fn c013_no_database_no_start() {
    let home = Home::new("");
    std::fs::write(home.path("store.db"), "this is no database, but it is long enough to look at")
        .expect("written");
    home.run(&["serve"]).await.refused();
    std::fs::remove_file(home.path("store.db")).expect("removed");
    // A folder where the file should be.
    std::fs::create_dir(home.path("store.db")).expect("made");
    home.run(&["serve"]).await.refused();
    std::fs::remove_dir(home.path("store.db")).expect("removed");
    // A folder that cannot be made.
    std::fs::write(home.path("blocked"), "").expect("written");
    let mut command = home.command(&["serve"]);
    let url = format!("sqlite://{}", home.path("blocked").join("deep/store.db").display());
    command.env("STOCKHOLD_STORAGE__URL", url);
    let said = finish(command).await.refused();
    assert!(said.contains("blocked"), "{said}");
}

#[tokio::test]
async fn c013_a_store_that_may_only_be_read_takes_nothing() {
    let home = Home::new("");
    std::fs::write(home.path("c.csv"), "sku,warehouse_quantity\nW1,9\n").expect("written");
    home.run(&["stock", "import", "c.csv"]).await.ok();
    let mut command = home.command(&["serve"]);
    let url = format!("sqlite://{}?mode=ro", home.path("store.db").display());
    command.env("STOCKHOLD_STORAGE__URL", url);
    let daemon = home.start(command).await;
    eventually("readiness is red", async || unavailable(&daemon).await).await;
    refuses(&daemon, "o1").await;
    assert_eq!(daemon.figures("W1").await, (9, 0, 0, 9), "reading goes on");
    assert_eq!(daemon.get("/healthz").await.status, 200);
    daemon.stop().await;
    home.serve().await.placed("o1", "W1", 1).await;
}

/// A full disk, by a limit on the size of files; the signal that goes with it is no disk's.
#[tokio::test]
async fn c013_a_full_disk_takes_no_order() {
    let home = Home::new("");
    let serve = home.command(&["serve"]);
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(serve.as_std().get_program());
    command.args(serve.as_std().get_args()).kill_on_drop(true);
    let daemon = home.start(command).await;
    daemon.stocked("W1", 100_000).await;
    daemon.placed("before", "W1", 1).await;
    let limit = |bytes: &str| {
        let process = daemon.process().to_string();
        let set = std::process::Command::new("prlimit")
            .args(["--pid", &process, &format!("--fsize={bytes}:unlimited")])
            .status();
        assert!(set.expect("prlimit runs").success());
    };
    limit("1024");
    refuses(&daemon, "full").await;
    eventually("readiness is red", async || unavailable(&daemon).await).await;
    assert_eq!(home.number("SELECT count(*) FROM orders").await, 1);
    assert_eq!(daemon.figures("W1").await.1, 1, "reading goes on");
    limit("unlimited");
    eventually("there is room again", async || {
        daemon.place(&order("after", &[("W1", 1)])).await.status < 300
    })
    .await;
    eventually("it is ready", async || daemon.get("/readyz").await.status == 200).await;
    home.check_books().await;
}

/// Whoever has the file knows that nobody else does: what the dead one was doing is taken over at once.
#[tokio::test]
async fn after_a_kill_no_lease_is_waited_for() {
    let home = Home::new("").with_clock();
    let daemon = home.serve().await;
    daemon.stocked("W1", 5).await;
    daemon.placed("o1", "W1", 1).await;
    daemon.kill().await;
    home.tamper(
        "UPDATE jobs SET state = 'running', lease_token = lease_token + 1, worker = 'dead',
            lease_until = 2000000000000000 WHERE kind = 'deadline'",
    )
    .await;
    let _daemon = home.serve().await;
    eventually("it is taken back", async || {
        home.number("SELECT count(*) FROM jobs WHERE lease_until = 2000000000000000").await == 0
    })
    .await;
}
