//! `confirm`: asks the supplier about one item and has the orders that wait on it judged.
//!
//! The item's lock covers only this. A question is answered, judged, and, before *short* is decided,
//! the item's placed but unpaid purchases are read back and it is judged again, by the same answer
//! unless that has grown too old. What must hold: nothing here judges; a fault is handed on as it is.

use super::super::run::{Answer, Run, Stop, again, unexpected};
use crate::domain::command::Command;
use crate::domain::names::{LevelId, PurchaseId};
use crate::domain::outcome::Outcome;
use crate::domain::policy::Terms;
use crate::domain::supply::{Fault, Item, Reading};
use crate::suppliers::Supplier;

pub async fn run(run: &Run<'_>, level: &LevelId) -> Result<Answer, Stop> {
    let (supplier, terms) = run.supplier(&level.source())?;
    let lock = Command::LockItem {
        level: level.clone(),
        owner: run.job.key(),
    };
    let (token, item) = match run.submit(lock).await? {
        Outcome::Locked { token, item, .. } => (token, item),
        other => return Ok(again(other)?.into()),
    };
    let judge = |answer, polled| Command::JudgeItem {
        level: level.clone(),
        token,
        answer,
        polled,
    };

    let mut answer = ask(run, supplier, terms, &item).await?;
    let unpaid = match run.submit(judge(answer.clone(), false)).await? {
        Outcome::PollFirst(unpaid) => unpaid,
        other => return Ok(again(other)?.into()),
    };
    poll(run, supplier, terms, unpaid).await?;
    if too_old(run, &answer) {
        answer = ask(run, supplier, terms, &item).await?;
    }
    match run.submit(judge(answer, true)).await? {
        Outcome::PollFirst(_) => Err(unexpected(&Outcome::PollFirst(Vec::new()))),
        other => Ok(again(other)?.into()),
    }
}

async fn ask(
    run: &Run<'_>,
    supplier: &dyn Supplier,
    terms: &Terms,
    item: &Item,
) -> Result<Result<Reading, Fault>, Stop> {
    run.cover(terms.request_timeout).await?;
    Ok(supplier.ask(item).await)
}

/// Reads purchases back, one after the other.
async fn poll(
    run: &Run<'_>,
    supplier: &dyn Supplier,
    terms: &Terms,
    unpaid: Vec<(PurchaseId, String)>,
) -> Result<(), Stop> {
    for (purchase, supplier_order_id) in unpaid {
        run.cover(terms.request_timeout).await?;
        let answer = supplier.order(&supplier_order_id).await;
        run.submit(Command::Polled { purchase, answer }).await?;
    }
    Ok(())
}

/// A failed question is put again rather than judged twice.
fn too_old(run: &Run<'_>, answer: &Result<Reading, Fault>) -> bool {
    match answer {
        Ok(reading) => run.now().since(reading.sent_at) >= run.deps.policy.max_answer_age,
        Err(_) => true,
    }
}
