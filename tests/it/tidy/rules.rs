//! What the source must look like. Each rule is a function from text to faults, so that each can be
//! shown to fail; `tidy` applies them to the tree.

use std::collections::BTreeSet;

use super::source::{functions, names_crate, parts, rooms_used, without_tests};

/// The most lines of a file and of a function.
const MAX_FILE: usize = 600;
const MAX_FUNCTION: usize = 70;

const PORTS: [&str; 4] = ["suppliers", "refunds", "alerts", "coordination"];

/// Which rooms (folders or files directly under `src`) a room may use besides itself; `None` when
/// the room is unknown. `*` is all.
fn may_use(room: &str) -> Option<Vec<&'static str>> {
    let basis = ["clock", "ids", "domain"];
    let rooms = match room {
        "clock" | "lifecycle" | "telemetry" | "http_client" => vec![],
        "cli" => vec!["bench"],
        "bench" => vec!["clock", "ids"],
        "ids" | "webhook_signature" => vec!["clock"],
        "domain" => vec!["clock", "ids"],
        "settings" => vec!["clock", "domain"],
        "catalogue" => vec!["domain", "settings"],
        "storage" | "suppliers" => [&basis[..], &["settings"]].concat(),
        "coordination" => vec!["clock", "domain", "settings"],
        "refunds" | "alerts" => {
            [&basis[..], &["settings", "http_client", "webhook_signature"]].concat()
        }
        "engine" => [&basis[..], &["storage"]].concat(),
        "jobs" => [&basis[..], &["engine", "storage", "settings"], &PORTS].concat(),
        "http" => [&basis[..], &["engine", "storage", "settings", "telemetry"], &PORTS].concat(),
        "demo" => {
            let running = ["app", "engine", "lifecycle", "catalogue", "settings", "suppliers"];
            [&basis[..], &running, &["http_client"]].concat()
        }
        "app" | "main" | "lib" | "testing" => vec!["*"],
        _ => return None,
    };
    Some(rooms)
}

/// The room of a path such as `src/domain/hold.rs` or `src/ids.rs`.
fn room_of(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    inside.split('/').next().and_then(|part| part.split('.').next()).unwrap_or_default()
}

/// The layers: no room uses one that it may not.
pub fn layers(path: &str, text: &str) -> Vec<String> {
    let room = room_of(path);
    let Some(allowed) = may_use(room) else {
        return vec![format!("{path}: `{room}` has no row in the table of layers")];
    };
    let code = parts(text).code;
    let code = without_tests(&code);
    let mut faults = Vec::new();
    if code.contains("super::super::") {
        faults.push(format!("{path}: write `crate::…` instead of `super::super::…`"));
    }
    for used in rooms_used(code) {
        if used != room && !allowed.contains(&used.as_str()) && !allowed.contains(&"*") {
            faults.push(format!("{path}: `{room}` may not use `{used}`"));
        }
    }
    faults
}

/// Crates that belong to one place, and SQL with the first of them.
pub fn outside_crates(path: &str, text: &str) -> Vec<String> {
    let homes: [(&str, &[&str]); 4] = [
        ("sqlx", &["src/storage"]),
        ("reqwest", &["src/suppliers", "src/refunds", "src/alerts", "src/http_client", "src/demo"]),
        ("redis", &["src/coordination"]),
        ("axum", &["src/http", "src/suppliers/simulator", "src/testing"]),
    ];
    let split = parts(text);
    let code = without_tests(&split.code);
    let literals = split.literals.get(..code.len()).unwrap_or(&split.literals);
    let at_home = |homes: &[&str]| {
        homes
            .iter()
            .any(|home| path == format!("{home}.rs") || path.starts_with(&format!("{home}/")))
    };
    let mut faults = Vec::new();
    for (name, homes) in homes {
        if names_crate(code, name) && !at_home(homes) {
            faults.push(format!("{path}: `{name}` belongs in {}", homes.join(", ")));
        }
    }
    let sql = ["SELECT ", "INSERT INTO ", "DELETE FROM ", "CREATE TABLE "];
    if sql.iter().any(|word| literals.contains(word)) && !at_home(&["src/storage"]) {
        faults.push(format!("{path}: SQL belongs in src/storage"));
    }
    faults
}

/// Lengths, the opening comment, and words that mean unfinished work.
pub fn form(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//! ") {
        faults.push(format!("{path}: does not open with `//!`: what it is for, what must hold"));
    }
    let lines = text.lines().count();
    if lines > MAX_FILE {
        faults.push(format!("{path}: {lines} lines; {MAX_FILE} is the most"));
    }
    let code = parts(text).code;
    for (name, line, length) in functions(&code) {
        if length > MAX_FUNCTION {
            faults.push(format!(
                "{path}:{line}: `{name}` has {length} lines; {MAX_FUNCTION} is the most"
            ));
        }
    }
    for word in ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"] {
        if code.contains(word) {
            faults.push(format!("{path}: `{word}` is unfinished work"));
        }
    }
    faults
}

/// The two folders of migrations hold the same names, numbered `NNNN_name.sql` without a gap.
pub fn migrations(sqlite: &BTreeSet<String>, postgres: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for name in sqlite.symmetric_difference(postgres) {
        let missing = if sqlite.contains(name) { "postgres" } else { "sqlite" };
        faults.push(format!("migrations/{missing}: {name} is missing"));
    }
    for (name, number) in sqlite.union(postgres).zip(1_usize..) {
        let words =
            name.strip_prefix(&format!("{number:04}_")).and_then(|n| n.strip_suffix(".sql"));
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !words.is_some_and(|words| !words.is_empty() && words.chars().all(good)) {
            faults.push(format!("migrations: {name} should be {number:04}_name.sql"));
        }
    }
    faults
}
