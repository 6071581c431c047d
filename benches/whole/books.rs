//! The books, read from the database itself, not from who wrote it.

use std::collections::HashSet;

use crate::schemes::Failure;
use crate::store::Conn;

/// A level that is oversold, below zero, or does not say what its holds and its ledger say.
const LEVELS: [(&str, &str); 3] = [
    (
        "levels are oversold or below zero",
        "SELECT count(*) FROM levels \
         WHERE quantity < 0 OR held < 0 OR committed < 0 OR held + committed > quantity",
    ),
    (
        "levels hold something else than the sum of their active holds",
        "SELECT count(*) FROM levels l LEFT JOIN (SELECT level_id, sum(quantity) AS n FROM holds \
         WHERE state = 'active' GROUP BY level_id) h ON h.level_id = l.id \
         WHERE l.held <> coalesce(h.n, 0) OR coalesce(h.n, 0) > l.quantity",
    ),
    (
        "levels hold something else than their ledger says",
        "SELECT count(*) FROM levels l LEFT JOIN (SELECT level_id, sum(by_quantity) AS q, \
         sum(by_held) AS h FROM ledger GROUP BY level_id) e ON e.level_id = l.id \
         WHERE l.held <> coalesce(e.h, 0) OR l.quantity <> coalesce(e.q, 0)",
    ),
];

/// What was acknowledged: `{run}-{number}` for each of the numbers.
pub struct Acknowledged {
    pub run: String,
    pub numbers: Vec<u64>,
}

/// What is wrong, in words; empty when the books balance.
pub async fn check(conn: &mut Conn, runs: &[Acknowledged]) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    for (what, question) in LEVELS {
        match conn.number(question).await? {
            0 => {}
            n => faults.push(format!("{n} {what}")),
        }
    }
    for run in runs {
        let lost = lost(conn, run).await?;
        if !lost.is_empty() {
            faults.push(format!(
                "{} of {} acknowledged orders are not there with their holds, such as {}-{}",
                lost.len(),
                run.numbers.len(),
                run.run,
                lost.first().copied().unwrap_or_default()
            ));
        }
    }
    Ok(faults)
}

/// Acknowledged numbers without an order that holds something; a number that was acknowledged twice
/// counts as lost, since each was asked for once.
pub async fn lost(conn: &mut Conn, run: &Acknowledged) -> Result<Vec<u64>, Failure> {
    let question = format!(
        "SELECT DISTINCT o.external_id FROM orders o JOIN holds h ON h.order_id = o.id \
         WHERE o.channel = 'bench' AND o.external_id >= '{0}-' AND o.external_id < '{0}.' \
         AND h.state = 'active'",
        run.run
    );
    let mut there: HashSet<u64> = HashSet::new();
    for text in conn.texts(&question).await? {
        let number = text.rsplit_once('-').and_then(|(_, n)| n.parse().ok());
        there.insert(number.ok_or_else(|| format!("{text} was never asked for"))?);
    }
    Ok(run.numbers.iter().copied().filter(|number| !there.remove(number)).collect())
}
