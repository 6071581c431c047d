//! `confirm`: asks the supplier about one item and has the orders that wait on it judged.
//!
//! The item's lock covers only this. Its truth is a row; the key that is taken before it only keeps
//! others from going to the database in vain, and lapses at the latest with it. A question is answered, judged, and, before *short* is decided,
//! the item's placed but unpaid purchases are read back and it is judged again, by the same answer
//! unless that has grown too old. What must hold: nothing here judges; a fault is handed on as it is.

use crate::clock::Span;
use crate::coordination::Holder;
use crate::domain::command::Command;
use crate::domain::lock_ttl;
use crate::domain::names::{LevelId, PurchaseId};
use crate::domain::outcome::Outcome;
use crate::domain::policy::Terms;
use crate::domain::supply::{Fault, Item, Reading};
use crate::jobs::run::{Answer, Run, Stop, again, unexpected};
use crate::suppliers::Supplier;

pub async fn run(run: &Run<'_>, level: &LevelId) -> Result<Answer, Stop> {
    let (supplier, terms) = run.supplier(&level.source())?;
    let fence = run.lease.fence();
    let holder = Holder { owner: run.job.key(), job: fence.job, token: fence.token };
    let ttl = lock_ttl::lock_ttl(terms, terms.declared_lag);
    let calm = &run.deps.coordination;
    if let Err(wait) = calm.lock_item(level, &holder, ttl).await {
        return Err(Stop::Until(run.now() + Span::from_std(wait.0)));
    }
    let ended = decide(run, level, supplier, terms).await;
    calm.unlock_item(level, &holder).await;
    ended
}

/// What the item's key, which others look at first, is held for.
async fn decide(
    run: &Run<'_>,
    level: &LevelId,
    supplier: &dyn Supplier,
    terms: &Terms,
) -> Result<Answer, Stop> {
    let lock = Command::LockItem { level: level.clone(), owner: run.job.key() };
    let (token, item) = match run.submit(lock).await? {
        Outcome::Locked { token, item, .. } => (token, item),
        other => return Ok(again(other)?.into()),
    };
    let judge = |answer, polled| Command::JudgeItem { level: level.clone(), token, answer, polled };

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
        let sent_at = run.now();
        let answer = supplier.order(&supplier_order_id).await;
        run.submit(Command::Polled { purchase, sent_at, answer }).await?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::job::Job;
    use crate::domain::outcome::Refusal;
    use crate::domain::supply::{Figure, UpstreamOrder, UpstreamState};
    use crate::engine::Error;
    use crate::jobs::testing::*;

    fn level() -> LevelId {
        LevelId::supplier(&"s1".into(), &item())
    }

    fn job() -> Job {
        Job::Confirm { level: level() }
    }

    fn locked() -> Outcome {
        Outcome::Locked { token: 9, item: item(), unpaid: Vec::new() }
    }

    fn lock() -> Said {
        Said::Command(Command::LockItem { level: level(), owner: "confirm:s1:61:".into() })
    }

    fn judge(answer: Result<Reading, Fault>, polled: bool) -> Said {
        Said::Command(Command::JudgeItem { level: level(), token: 9, answer, polled })
    }

    fn unpaid_order() -> UpstreamOrder {
        UpstreamOrder {
            supplier_order_id: "88".into(),
            reference: None,
            state: UpstreamState::AwaitingPayment,
            items: Vec::new(),
            total: None,
            close_reason: None,
            parcels: Vec::new(),
        }
    }

    #[tokio::test]
    async fn the_item_is_locked_asked_about_and_judged() {
        let stage = Arc::new(Stage::default());
        let live = reading(Figure::Listed(5), START);
        stage.will(locked());
        stage.asks.lock().expect("ok").push_back(Ok(live.clone()));
        stage.will(Outcome::Again(None));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        assert_eq!(stage.said(), [lock(), Said::Ask(item()), judge(Ok(live), false)]);
    }

    #[tokio::test]
    async fn a_fault_is_handed_on_and_the_rules_say_when_to_ask_again() {
        let stage = Arc::new(Stage::default());
        stage.will(locked());
        stage.asks.lock().expect("ok").push_back(Err(unanswered()));
        let later = START + Span::secs(30);
        stage.will(Outcome::Again(Some(later)));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::At(later)));
        assert_eq!(stage.said()[2], judge(Err(unanswered()), false));
    }

    #[tokio::test]
    async fn a_lock_held_by_another_is_waited_for_without_a_question() {
        let stage = Arc::new(Stage::default());
        let until = START + Span::minutes(12);
        let refused = Err(Error::Refused(Refusal::Locked(until)));
        stage.outcomes.lock().expect("ok").push_back(refused);
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Err(Stop::Until(until)));
        assert_eq!(stage.said(), [lock()]);
    }

    #[tokio::test]
    async fn while_another_has_the_item_s_key_the_database_is_left_alone() {
        let stage = Arc::new(Stage::default());
        let deps = deps(&stage);
        let other = Holder { owner: "another".into(), job: 1, token: 1 };
        let ttl = Span::minutes(12);
        deps.coordination.lock_item(&level(), &other, ttl).await.expect("free");
        let ended = run_under(&deps, &job(), &Endless).await;
        assert_eq!(ended, Err(Stop::Until(START + Span::secs(5))));
        assert_eq!(stage.said(), []);
        deps.coordination.unlock_item(&level(), &other).await;
        // Refused by the database, the key is given back all the same.
        let refused = Err(Error::Refused(Refusal::Locked(START + ttl)));
        stage.outcomes.lock().expect("ok").push_back(refused);
        assert_eq!(run_under(&deps, &job(), &Endless).await, Err(Stop::Until(START + ttl)));
        assert_eq!(deps.coordination.lock_item(&level(), &other, ttl).await, Ok(()));
    }

    #[tokio::test]
    async fn before_short_unpaid_purchases_are_read_back_and_the_answer_used_again() {
        let stage = Arc::new(Stage::default());
        let live = reading(Figure::Listed(1), START);
        let purchase = PurchaseId::from("o1-s1-1");
        stage.will(locked());
        stage.asks.lock().expect("ok").push_back(Ok(live.clone()));
        stage.will(Outcome::PollFirst(vec![(purchase.clone(), "88".into())]));
        stage.orders.lock().expect("ok").push_back(Ok(unpaid_order()));
        stage.will(Outcome::Again(None));
        stage.will(Outcome::Again(None));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        assert_eq!(
            stage.said(),
            [
                lock(),
                Said::Ask(item()),
                judge(Ok(live.clone()), false),
                Said::Order("88".into()),
                Said::Command(Command::Polled {
                    purchase,
                    sent_at: START,
                    answer: Ok(unpaid_order())
                }),
                judge(Ok(live), true),
            ]
        );
    }

    #[tokio::test]
    async fn an_answer_that_grew_too_old_meanwhile_is_replaced() {
        let stage = Arc::new(Stage::default());
        let deps = deps(&stage);
        // Each question takes 30 s; an answer is good for 60 s after it was sent for.
        *stage.clock.lock().expect("ok") = Some((deps.clock.clone(), Span::secs(30)));
        let first = reading(Figure::Listed(1), START);
        let second = reading(Figure::Listed(4), START + Span::secs(60));
        stage.will(locked());
        let asks = [Ok(first.clone()), Ok(second.clone())];
        stage.asks.lock().expect("ok").extend(asks);
        stage.will(Outcome::PollFirst(vec![("o1-s1-1".into(), "88".into())]));
        stage.orders.lock().expect("ok").push_back(Ok(unpaid_order()));
        stage.will(Outcome::Again(None));
        stage.will(Outcome::Again(None));
        let ended = run_under(&deps, &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        let said = stage.said();
        assert_eq!(said[2], judge(Ok(first), false));
        assert_eq!(said.last(), Some(&judge(Ok(second), true)));
    }

    #[tokio::test]
    async fn nothing_is_asked_under_a_lost_lease() {
        let stage = Arc::new(Stage::default());
        stage.will(locked());
        let ended = run_under(&deps(&stage), &job(), &Lost).await;
        assert!(matches!(ended, Err(Stop::Retry(_))), "{ended:?}");
        assert_eq!(stage.said(), [lock()]);
    }

    #[tokio::test]
    async fn an_unknown_supplier_is_for_a_person() {
        let stage = Arc::new(Stage::default());
        let job = Job::Confirm { level: "gone:61:".into() };
        let ended = run_under(&deps(&stage), &job, &Endless).await;
        assert_eq!(ended, Err(Stop::Fail("supplier gone is not configured".into())));
    }
}
