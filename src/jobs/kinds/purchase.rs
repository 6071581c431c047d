//! `purchase`: does the next thing about a purchase order, and the next, while there is one due.
//!
//! Each step is claimed in its own transaction, done outside, and its answer handed back; the rules
//! say what comes next. What must hold: a create is sent only in the time for which the claim keeps
//! everybody else away, and its answer is handed back before anything else is done. An answer that
//! cannot be handed back is a lost one, which the look-ups settle.

use crate::clock::{Span, Timestamp};
use crate::domain::command::Command;
use crate::domain::names::PurchaseId;
use crate::domain::outcome::{Outcome, PurchaseStep};
use crate::domain::policy::Terms;
use crate::domain::supply::{Created, Fault, NOT_SENT, PurchaseRequest};
use crate::jobs::run::{Answer, Run, Stop, again, unexpected};
use crate::suppliers::Supplier;

/// Steps in one run; more are left to the next, so that others have their turn.
const ROUNDS: usize = 8;
/// How soon that next run is.
const BREATH: Span = Span::secs(1);
/// Beside the time-outs of preview and create, what a claim allows for.
const MARGIN: Span = Span::secs(10);

pub async fn run(run: &Run<'_>, purchase: &PurchaseId) -> Result<Answer, Stop> {
    let source = purchase
        .supplier()
        .ok_or_else(|| Stop::Fail(format!("purchase {purchase} names no supplier")))?;
    let (supplier, terms) = run.supplier(&source)?;
    let errand = Errand { run, supplier, terms, purchase };
    for _ in 0..ROUNDS {
        let next = match errand.claim().await? {
            Claimed::Step(step, busy_until) => errand.step(*step, busy_until).await?,
            Claimed::Nothing(answer) => return Ok(answer),
        };
        match next {
            Some(at) if at <= run.now() => {}
            other => return Ok(other.into()),
        }
    }
    Ok(Answer::At(run.now() + BREATH))
}

/// What a claim gave: a step with the time until which others stay away, or nothing to do now.
enum Claimed {
    Step(Box<PurchaseStep>, Timestamp),
    Nothing(Answer),
}

struct Errand<'a> {
    run: &'a Run<'a>,
    supplier: &'a dyn Supplier,
    terms: &'a Terms,
    purchase: &'a PurchaseId,
}

impl Errand<'_> {
    async fn claim(&self) -> Result<Claimed, Stop> {
        // Preview and create, one after the other.
        let busy_for = self.terms.request_timeout.times(2, 1) + MARGIN;
        self.run.cover(busy_for).await?;
        let busy_until = self.run.now() + busy_for;
        let claim = Command::ClaimPurchase { purchase: self.purchase.clone(), busy_for };
        Ok(match self.run.submit(claim).await? {
            Outcome::Step(PurchaseStep::Wait(at)) => Claimed::Nothing(Answer::At(at)),
            Outcome::Step(PurchaseStep::Done) => Claimed::Nothing(Answer::Done),
            Outcome::Step(step) => Claimed::Step(Box::new(step), busy_until),
            other => Claimed::Nothing(again(other)?.into()),
        })
    }

    /// Does one step and answers when the next is due.
    async fn step(
        &self,
        step: PurchaseStep,
        busy_until: Timestamp,
    ) -> Result<Option<Timestamp>, Stop> {
        let purchase = self.purchase.clone();
        let command = match step {
            PurchaseStep::Place { attempt, request } => {
                let (sent, answer) = self.place(&request, busy_until).await;
                Command::Placed { purchase, attempt, sent, answer }
            }
            PurchaseStep::LookUp { reference } => {
                self.run.cover(self.terms.request_timeout).await?;
                Command::LookedUp {
                    purchase,
                    late: None,
                    answer: self.supplier.look_up(&reference).await,
                }
            }
            PurchaseStep::Poll { supplier_order_id } => {
                self.run.cover(self.terms.request_timeout).await?;
                let sent_at = self.run.now();
                let answer = self.supplier.order(&supplier_order_id).await;
                Command::Polled { purchase, sent_at, answer }
            }
            PurchaseStep::Cancel { supplier_order_id } => {
                self.run.cover(self.terms.request_timeout).await?;
                let answer = self.supplier.cancel(&supplier_order_id).await;
                Command::CancelAnswered { purchase, supplier_order_id, answer }
            }
            other @ (PurchaseStep::Wait(_) | PurchaseStep::Done) => {
                return Err(unexpected(&Outcome::Step(other)));
            }
        };
        again(self.run.submit(command).await?)
    }

    /// Previews, then creates. Whether the create was sent decides whether its loss matters.
    async fn place(
        &self,
        request: &PurchaseRequest,
        busy_until: Timestamp,
    ) -> (bool, Result<Created, Fault>) {
        if let Err(fault) = self.may_send(busy_until).await {
            return (false, Err(fault));
        }
        match self.supplier.preview(request).await {
            Ok(preview) if preview.orders > 1 => return (false, Err(would_split(preview.orders))),
            Ok(_) => {}
            Err(fault) => return (false, Err(fault)),
        }
        if let Err(fault) = self.may_send(busy_until).await {
            return (false, Err(fault));
        }
        let answer = self.supplier.create(request).await;
        let left = !matches!(&answer, Err(Fault::Unknown { code, .. }) if code == NOT_SENT);
        (left, answer)
    }

    /// Whether a call would surely end while the purchase and the job are still ours.
    async fn may_send(&self, busy_until: Timestamp) -> Result<(), Fault> {
        let not_sent =
            |message: String| Fault::Unknown { code: NOT_SENT.into(), message, retry_after: None };
        if self.run.now() + self.terms.request_timeout > busy_until {
            return Err(not_sent("the time of the claim ran out".into()));
        }
        let covered = self.run.cover(self.terms.request_timeout).await;
        covered.map_err(|stop| not_sent(stop.to_string()))
    }
}

/// A purchase is one supplier order: one is recorded, paid and polled. A basket that would become
/// several is not ordered at all, and asking again would not make it one.
fn would_split(orders: u32) -> Fault {
    let message = format!("the supplier would split the basket into {orders} orders");
    Fault::Refused { code: "split".into(), message }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::job::Job;
    use crate::domain::supply::{Address, Preview, UpstreamOrder, UpstreamState};
    use crate::engine::Error;
    use crate::jobs::testing::*;

    const REFERENCE: &str = "o1-s1-1";

    fn job() -> Job {
        Job::Purchase { purchase: REFERENCE.into() }
    }

    fn claim() -> Said {
        Said::Command(Command::ClaimPurchase {
            purchase: REFERENCE.into(),
            busy_for: Span::secs(30), // twice 10 s, and 10 s
        })
    }

    fn place() -> Outcome {
        Outcome::Step(PurchaseStep::Place {
            attempt: 1,
            request: PurchaseRequest {
                reference: REFERENCE.into(),
                items: Vec::new(),
                deliver_to: Address::default(),
            },
        })
    }

    fn placed(sent: bool, answer: Result<Created, Fault>) -> Said {
        Said::Command(Command::Placed { purchase: REFERENCE.into(), attempt: 1, sent, answer })
    }

    fn created() -> Created {
        Created { supplier_order_id: "88".into(), total: Some(12_800), left_out: Vec::new() }
    }

    const PREVIEW: Preview = Preview { total: 12_800, orders: 1 };

    #[tokio::test]
    async fn a_purchase_is_previewed_made_and_handed_back() {
        let stage = Arc::new(Stage::default());
        let poll_at = START + Span::minutes(5);
        stage.will(place());
        stage.previews.lock().expect("ok").push_back(Ok(PREVIEW));
        stage.creates.lock().expect("ok").push_back(Ok(created()));
        stage.will(Outcome::Again(Some(poll_at)));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::At(poll_at)));
        assert_eq!(
            stage.said(),
            [
                claim(),
                Said::Preview(REFERENCE.into()),
                Said::Create(REFERENCE.into()),
                placed(true, Ok(created())),
            ]
        );
    }

    #[tokio::test]
    async fn a_refusal_at_the_preview_sends_no_create() {
        let short = Fault::OutOfStock { code: "500_004".into(), message: "库存不足".into() };
        let split = Fault::Refused {
            code: "split".into(),
            message: "the supplier would split the basket into 2 orders".into(),
        };
        for (preview, fault) in
            [(Err(short.clone()), short), (Ok(Preview { total: 12_800, orders: 2 }), split)]
        {
            let stage = Arc::new(Stage::default());
            stage.will(place());
            stage.previews.lock().expect("ok").push_back(preview);
            stage.will(Outcome::Again(None));
            let ended = run_under(&deps(&stage), &job(), &Endless).await;
            assert_eq!(ended, Ok(Answer::Done));
            assert_eq!(
                stage.said(),
                [claim(), Said::Preview(REFERENCE.into()), placed(false, Err(fault))]
            );
        }
    }

    #[tokio::test]
    async fn a_lost_create_is_sent_once_and_handed_back_as_sent() {
        let stage = Arc::new(Stage::default());
        let look_up_at = START + Span::minutes(2);
        stage.will(place());
        stage.previews.lock().expect("ok").push_back(Ok(PREVIEW));
        stage.creates.lock().expect("ok").push_back(Err(unanswered()));
        stage.will(Outcome::Again(Some(look_up_at)));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::At(look_up_at)));
        assert_eq!(stage.said().last(), Some(&placed(true, Err(unanswered()))));
        let creates = stage.said();
        let creates = creates.iter().filter(|s| matches!(s, Said::Create(_)));
        assert_eq!(creates.count(), 1);
    }

    #[tokio::test]
    async fn a_preview_that_used_up_the_claim_sends_no_create() {
        let stage = Arc::new(Stage::default());
        let deps = deps(&stage);
        *stage.clock.lock().expect("ok") = Some((deps.clock.clone(), Span::secs(21)));
        stage.will(place());
        stage.previews.lock().expect("ok").push_back(Ok(PREVIEW));
        stage.will(Outcome::Again(None));
        let ended = run_under(&deps, &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        let Some(Said::Command(Command::Placed { sent, answer, .. })) = stage.said().pop() else {
            panic!("the answer must be handed back");
        };
        assert!(!sent);
        assert!(
            matches!(&answer, Err(Fault::Unknown { code, .. }) if code == "not_sent"),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn a_create_that_never_left_is_not_a_lost_one() {
        let stage = Arc::new(Stage::default());
        let not_sent = Fault::Unknown {
            code: NOT_SENT.into(),
            message: "its turn would have come too late".into(),
            retry_after: None,
        };
        stage.will(place());
        stage.previews.lock().expect("ok").push_back(Ok(PREVIEW));
        stage.creates.lock().expect("ok").push_back(Err(not_sent.clone()));
        stage.will(Outcome::Again(None));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        assert_eq!(stage.said().pop(), Some(placed(false, Err(not_sent))));
    }

    #[tokio::test]
    async fn steps_that_are_due_follow_in_the_same_run() {
        let stage = Arc::new(Stage::default());
        let order = UpstreamOrder {
            supplier_order_id: "88".into(),
            reference: Some(REFERENCE.into()),
            state: UpstreamState::AwaitingPayment,
            items: Vec::new(),
            total: None,
            close_reason: None,
            parcels: Vec::new(),
        };
        stage.will(Outcome::Step(PurchaseStep::LookUp { reference: REFERENCE.into() }));
        stage.look_ups.lock().expect("ok").push_back(Ok(vec![order.clone()]));
        stage.will(Outcome::Again(Some(START)));
        stage.will(Outcome::Step(PurchaseStep::Poll { supplier_order_id: "88".into() }));
        stage.orders.lock().expect("ok").push_back(Ok(order.clone()));
        stage.will(Outcome::Again(Some(START)));
        stage.will(Outcome::Step(PurchaseStep::Cancel { supplier_order_id: "89".into() }));
        stage.cancels.lock().expect("ok").push_back(Err(Fault::TooSoon));
        stage.will(Outcome::Again(Some(START)));
        let wait = START + Span::secs(20);
        stage.will(Outcome::Step(PurchaseStep::Wait(wait)));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::At(wait)));
        let purchase = || PurchaseId::from(REFERENCE);
        assert_eq!(
            stage.said(),
            [
                claim(),
                Said::LookUp(REFERENCE.into()),
                Said::Command(Command::LookedUp {
                    purchase: purchase(),
                    late: None,
                    answer: Ok(vec![order.clone()])
                }),
                claim(),
                Said::Order("88".into()),
                Said::Command(Command::Polled {
                    purchase: purchase(),
                    sent_at: START,
                    answer: Ok(order)
                }),
                claim(),
                Said::Cancel("89".into()),
                Said::Command(Command::CancelAnswered {
                    purchase: purchase(),
                    supplier_order_id: "89".into(),
                    answer: Err(Fault::TooSoon)
                }),
                claim(),
            ]
        );
    }

    #[tokio::test]
    async fn one_run_does_not_go_on_for_ever() {
        let stage = Arc::new(Stage::default());
        for _ in 0..ROUNDS {
            stage.will(Outcome::Step(PurchaseStep::LookUp { reference: REFERENCE.into() }));
            stage.look_ups.lock().expect("ok").push_back(Ok(Vec::new()));
            stage.will(Outcome::Again(Some(START)));
        }
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::At(START + Span::secs(1))));
        assert_eq!(stage.said().len(), 3 * ROUNDS);
    }

    #[tokio::test]
    async fn an_answer_is_handed_back_again_when_the_store_was_away() {
        let stage = Arc::new(Stage::default());
        stage.will(place());
        stage.previews.lock().expect("ok").push_back(Ok(PREVIEW));
        stage.creates.lock().expect("ok").push_back(Ok(created()));
        let away = Err(Error::StorageUnavailable("disk full".into()));
        stage.outcomes.lock().expect("ok").push_back(away);
        stage.will(Outcome::Again(None));
        let ended = run_under(&deps(&stage), &job(), &Endless).await;
        assert_eq!(ended, Ok(Answer::Done));
        let said = stage.said();
        assert_eq!(said[3], placed(true, Ok(created())));
        assert_eq!(said[4], placed(true, Ok(created())));
    }

    #[tokio::test]
    async fn nothing_is_claimed_under_a_lost_lease() {
        let stage = Arc::new(Stage::default());
        let ended = run_under(&deps(&stage), &job(), &Lost).await;
        assert!(matches!(ended, Err(Stop::Retry(_))), "{ended:?}");
        assert_eq!(stage.said(), []);
    }
}
