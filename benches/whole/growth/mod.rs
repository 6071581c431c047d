//! What changes as a shop grows: open holds, SKUs, what falls due at once, what is open and waits.
//!
//! What must hold: what is seeded by SQL satisfies the books, and they are read again at the end.
//! `scripts/bench growth [PARTS]`; a full run of all parts writes its part of docs/benchmarks.md.

mod memory;
mod open;
mod seed;
mod sweep;
mod wave;

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cells::{DAEMONS, Scheme};
use crate::machine::Machine;
use crate::schemes::Failure;
use crate::store::Stage;
use crate::{Run, report};

const PARTS: [&str; 5] = ["holds", "catalogue", "sweep", "wave", "memory"];

/// What the parts found.
#[derive(Default)]
pub struct Found {
    /// Markdown, in the order of the parts.
    text: String,
    figures: serde_json::Map<String, Value>,
    /// What must not be: the run fails.
    faults: Vec<String>,
}

impl Found {
    fn line(&mut self, text: &str) {
        eprintln!("{text}");
        let _ = writeln!(self.text, "{text}");
    }

    fn figure(&mut self, part: &str, figure: Value) {
        let figures = self.figures.entry(part).or_insert_with(|| json!([]));
        if let Value::Array(figures) = figures {
            figures.push(figure);
        }
    }

    fn judge(&mut self, what: &str, faults: Vec<String>) {
        self.faults.extend(faults.into_iter().map(|fault| format!("{what}: {fault}")));
    }
}

/// Whether everything held.
///
/// # Errors
/// A part that is none.
pub async fn run(run: &Run, stage: &Stage, machine: &Machine) -> Result<bool, Failure> {
    let names: Vec<&str> = run.names.iter().skip(1).map(String::as_str).collect();
    let schemes: Vec<Scheme> = DAEMONS.into_iter().filter(|s| names.contains(&s.name())).collect();
    let parts: Vec<&str> = names.iter().copied().filter(|n| PARTS.contains(n)).collect();
    if parts.len() + schemes.len() < names.len() {
        return Err(format!("growth has the parts {}", PARTS.join(", ")).into());
    }
    let daemons = if schemes.is_empty() { DAEMONS.to_vec() } else { schemes };
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    let mut found = Found::default();
    if wanted("holds") {
        open::holds(run, stage, &daemons, &mut found).await?;
    }
    if wanted("catalogue") {
        open::catalogue(run, stage, &daemons, &mut found).await?;
    }
    if wanted("sweep") {
        sweep::run(run, stage, &daemons, &mut found).await?;
    }
    if wanted("wave") {
        wave::run(run, stage, &daemons, &mut found).await?;
    }
    if wanted("memory") {
        memory::run(stage, &daemons, &mut found).await?;
    }
    if let Some(path) = &run.json {
        let all = json!({
            "machine": machine,
            "quick": run.quick,
            "growth": found.figures,
            "faults": found.faults,
        });
        std::fs::write(path, serde_json::to_string_pretty(&all)?)?;
    }
    let mut text = format!("# As it grows\n{}\n", found.text);
    for name in ["machine", "commit", "date"] {
        let _ = writeln!(text, "- {name}: {}", machine.get(name).map_or("?", String::as_str));
    }
    println!("{text}");
    if names.is_empty() && !run.quick && found.faults.is_empty() {
        report::write("growth", &text)?;
    }
    for fault in &found.faults {
        eprintln!("growth: {fault}");
    }
    Ok(found.faults.is_empty())
}
