//! `refund`: asks the provider to make a refund, or what became of it.
//!
//! What must hold: a refund that may have been asked for is looked up before it is asked for again,
//! and its id never changes. The rules say which; an unknown answer is theirs to put off.

use crate::clock::Span;
use crate::domain::command::Command;
use crate::domain::names::RefundId;
use crate::domain::outcome::{Outcome, RefundStep};
use crate::jobs::run::{Answer, Run, Stop, again, unexpected};
use crate::refunds::Request;

/// A look-up that says *not made* is followed by the request in the same run.
const ROUNDS: usize = 3;
const BREATH: Span = Span::secs(1);

pub async fn run(run: &Run<'_>, refund: &RefundId) -> Result<Answer, Stop> {
    let provider = run.deps.refunds.as_ref();
    for _ in 0..ROUNDS {
        run.cover(Span::from_std(provider.timeout())).await?;
        let claim = Command::ClaimRefund { refund: refund.clone() };
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
                // This process may have stood still since: another may have looked it up and made it.
                run.cover(Span::from_std(provider.timeout())).await?;
                provider.make(&request).await
            }
        };
        let answered = Command::RefundAnswered { refund: refund.clone(), answer };
        match again(run.submit(answered).await?)? {
            Some(at) if at <= run.now() => {}
            other => return Ok(other.into()),
        }
    }
    Ok(Answer::At(run.now() + BREATH))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::command::RefundAnswer;
    use crate::domain::job::Job;
    use crate::domain::order::{Order, ShortPolicy, State};
    use crate::domain::refund::{Refund, RefundState};
    use crate::jobs::testing::*;

    fn job() -> Job {
        Job::Refund { refund: "r1".into() }
    }

    fn order(currency: &str) -> Arc<Order> {
        let refund = Refund {
            id: "r1".into(),
            cause: "cancelled:4".into(),
            reason: "supplier_short".into(),
            payment_id: "pay-1".into(),
            amount: 500,
            state: RefundState::Pending,
            attempt: 1,
            asked_at: None,
            reference: None,
            note: None,
            created_at: START,
            deadline_at: None,
        };
        Arc::new(Order {
            id: "o1".into(),
            channel: "web".into(),
            external_id: "W-1001".into(),
            content_hash: String::new(),
            idempotency: None,
            state: State::Cancelled,
            currency: currency.into(),
            total: 500,
            shipping: 0,
            discount: 0,
            short_policy: ShortPolicy::CancelOrder,
            cancel_reason: None,
            cancel_requested: None,
            created_at: START,
            expires_at: START,
            grace_used: false,
            paid_at: None,
            deadline_at: None,
            attention: None,
            customer: None,
            ship_to: None,
            lines: Vec::new(),
            holds: Vec::new(),
            payments: Vec::new(),
            refunds: vec![refund],
            purchases: Vec::new(),
            shipments: Vec::new(),
            events: Vec::new(),
        })
    }

    fn step(step: RefundStep, currency: &str) -> Outcome {
        Outcome::RefundStep { step, order: order(currency) }
    }

    fn claim() -> Said {
        Said::Command(Command::ClaimRefund { refund: "r1".into() })
    }

    fn answered(answer: RefundAnswer) -> Said {
        Said::Command(Command::RefundAnswered { refund: "r1".into(), answer })
    }

    #[tokio::test]
    async fn a_refund_that_may_have_been_asked_for_is_looked_up_first() {
        let stage = Arc::new(Stage::default());
        let made = RefundAnswer::Succeeded { reference: None };
        stage.will(step(RefundStep::LookUp, "JPY"));
        stage.will(Outcome::Again(Some(START)));
        stage.will(step(RefundStep::Make { amount: 500 }, "JPY"));
        stage.will(Outcome::Again(None));
        let answers = [RefundAnswer::NotMade, made.clone()];
        stage.refunds.lock().expect("ok").extend(answers);
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        let request = Request {
            refund_id: "r1".into(),
            order_id: "o1".into(),
            external_id: "W-1001".into(),
            payment_id: "pay-1".into(),
            amount: "500".into(), // the yen has no decimals
            currency: "JPY".into(),
            reason: "supplier_short".into(),
        };
        assert_eq!(
            stage.said(),
            [
                claim(),
                Said::RefundLookUp("r1".into()),
                answered(RefundAnswer::NotMade),
                claim(),
                Said::Make(request),
                answered(made),
            ]
        );
    }

    #[tokio::test]
    async fn a_lost_answer_is_handed_on_and_asked_about_later() {
        let stage = Arc::new(Stage::default());
        let lost = RefundAnswer::Unknown { message: "connection reset".into() };
        let later = START + Span::minutes(1);
        stage.will(step(RefundStep::Make { amount: 500 }, "USD"));
        stage.will(Outcome::Again(Some(later)));
        stage.refunds.lock().expect("ok").push_back(lost.clone());
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::At(later)));
        let said = stage.said();
        let Some(Said::Make(request)) = said.get(1) else {
            panic!("{said:?}");
        };
        assert_eq!(request.amount, "5.00");
        assert_eq!(said.last(), Some(&answered(lost)));
    }

    #[tokio::test]
    async fn a_refund_whose_job_was_taken_over_since_the_claim_is_not_asked_for() {
        let stage = Arc::new(Stage::default());
        stage.will(step(RefundStep::Make { amount: 500 }, "USD"));
        let ended = run_under(&deps(&stage), &job(), &LostAfter::covering(1)).await;
        assert_eq!(ended, Err(Stop::Retry("the lease was taken over".into())));
        assert_eq!(stage.said(), [claim()]);
    }

    #[tokio::test]
    async fn a_refund_that_is_done_is_not_asked_about() {
        let stage = Arc::new(Stage::default());
        stage.will(step(RefundStep::Done, "USD"));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        assert_eq!(stage.said(), [claim()]);
    }
}
