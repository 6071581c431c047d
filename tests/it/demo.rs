//! `stockhold demo`, the whole night with the built binary: it must end by itself, with status 0 and
//! the table that says why.

use std::process::{Command, Stdio};

#[test]
fn the_night_ends_with_every_promise_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_stockhold"))
        .arg("demo")
        .env_clear()
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let (text, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{text}\n{log}", output.status);
    let value = |name: &str| {
        let row = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let row = row.unwrap_or_else(|| panic!("no `{name}` in\n{text}"));
        row.split_whitespace().next().and_then(|n| n.parse::<i64>().ok()).expect("a number")
    };
    for name in ["active holds left", "units oversold", "balances unlike their ledger"] {
        assert_eq!(value(name), 0, "{name}\n{text}");
    }
    assert_eq!(value("orders still open"), 0, "{text}");
    for name in ["orders placed", "orders refused", "orders confirmed", "orders cancelled"] {
        assert!(value(name) > 0, "{name}\n{text}");
    }
    assert!(value("orders expired") > 0, "{text}");
    assert_eq!(value("refunds owed"), value("refunds made"), "{text}");
    assert!(!text.contains("BROKEN") && !text.contains("NOT EXERCISED"), "{text}");
    assert!(text.contains("every promise held"), "{text}");
    let left = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "the demo leaves nothing behind");
}
