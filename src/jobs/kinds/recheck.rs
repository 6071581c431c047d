//! `recheck`: looks the reference of a lost create up again, long after: attempts can land late.

use crate::clock::Timestamp;
use crate::domain::command::Command;
use crate::domain::names::PurchaseId;
use crate::jobs::run::{Answer, Run, Stop, again};

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::Span;
    use crate::domain::job::Job;
    use crate::domain::outcome::Outcome;
    use crate::jobs::testing::*;

    #[tokio::test]
    async fn the_reference_is_looked_up_and_the_next_step_is_the_rules() {
        let stage = Arc::new(Stage::default());
        let job = Job::Recheck { purchase: "o1-s1-1".into(), lost_at: START, step: 2 };
        stage.look_ups.lock().expect("ok").push_back(Err(unanswered()));
        let again = START + Span::minutes(1);
        stage.will(Outcome::Again(Some(again)));
        let ended = run_under(&deps(&stage), &job, &Endless).await;
        assert_eq!(ended, Ok(Answer::At(again)));
        assert_eq!(
            stage.said(),
            [
                Said::LookUp("o1-s1-1".into()),
                Said::Command(Command::LookedUp {
                    purchase: "o1-s1-1".into(),
                    late: Some((START, 2)),
                    answer: Err(unanswered()),
                })
            ]
        );
    }
}
