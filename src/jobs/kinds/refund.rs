//! `refund`: asks the provider to make a refund, or what became of it.
//!
//! What must hold: a refund that may have been asked for is looked up before it is asked for again,
//! and its id never changes. The rules say which; an unknown answer is theirs to put off.

use super::super::run::{Answer, Run, Stop, again, unexpected};
use crate::clock::Span;
use crate::domain::command::Command;
use crate::domain::names::RefundId;
use crate::domain::outcome::{Outcome, RefundStep};
use crate::refunds::Request;

/// A look-up that says *not made* is followed by the request in the same run.
const ROUNDS: usize = 3;
const BREATH: Span = Span::secs(1);

pub async fn run(run: &Run<'_>, refund: &RefundId) -> Result<Answer, Stop> {
    let provider = run.deps.refunds.as_ref();
    for _ in 0..ROUNDS {
        run.cover(Span::from_std(provider.timeout())).await?;
        let claim = Command::ClaimRefund {
            refund: refund.clone(),
        };
        let (step, order) = match run.submit(claim).await? {
            Outcome::RefundStep { step, order } => (step, order),
            other => return Ok(again(other)?.into()),
        };
        let answer = match step {
            RefundStep::Done => return Ok(Answer::Done),
            RefundStep::LookUp => provider.look_up(refund).await,
            RefundStep::Make { amount } => {
                let owed = order.refunds.iter().find(|r| &r.id == refund);
                let owed = owed.ok_or_else(|| unexpected(&Outcome::Done))?;
                let request = Request::of(&order, owed, amount);
                let request = request.map_err(|e| Stop::Fail(e.to_string()))?;
                provider.make(&request).await
            }
        };
        let answered = Command::RefundAnswered {
            refund: refund.clone(),
            answer,
        };
        match again(run.submit(answered).await?)? {
            Some(at) if at <= run.now() => {}
            other => return Ok(other.into()),
        }
    }
    Ok(Answer::At(run.now() + BREATH))
}
