//! `recheck`: looks the reference of a lost create up again, long after: attempts can land late.

use super::super::run::{Answer, Run, Stop, again};
use crate::clock::Timestamp;
use crate::domain::command::Command;
use crate::domain::names::PurchaseId;

pub async fn run(
    run: &Run<'_>,
    purchase: &PurchaseId,
    lost_at: Timestamp,
    step: usize,
) -> Result<Answer, Stop> {
    let source = purchase
        .supplier()
        .ok_or_else(|| Stop::Fail(format!("purchase {purchase} names no supplier")))?;
    let (supplier, terms) = run.supplier(&source)?;
    run.cover(terms.request_timeout).await?;
    // A purchase's id is its reference.
    let answer = supplier.look_up(purchase.as_str()).await;
    let outcome = run
        .submit(Command::LookedUp {
            purchase: purchase.clone(),
            late: Some((lost_at, step)),
            answer,
        })
        .await?;
    Ok(again(outcome)?.into())
}
