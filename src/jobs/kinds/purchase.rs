//! `purchase`: does the next thing about a purchase order, and the next, while there is one due.
//!
//! Each step is claimed in its own transaction, done outside, and its answer handed back; the rules
//! say what comes next. What must hold: a create is sent only in the time for which the claim keeps
//! everybody else away, and its answer is handed back before anything else is done. An answer that
//! cannot be handed back is a lost one, which the look-ups settle.

use super::super::run::{Answer, Run, Stop, again, unexpected};
use crate::clock::{Span, Timestamp};
use crate::domain::command::Command;
use crate::domain::names::PurchaseId;
use crate::domain::outcome::{Outcome, PurchaseStep};
use crate::domain::policy::Terms;
use crate::domain::supply::{Created, Fault, PurchaseRequest};
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
    let errand = Errand {
        run,
        supplier,
        terms,
        purchase,
    };
    for _ in 0..ROUNDS {
        let next = match errand.claim().await? {
            Claimed::Step(step, busy_until) => errand.step(step, busy_until).await?,
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
    Step(PurchaseStep, Timestamp),
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
        let claim = Command::ClaimPurchase {
            purchase: self.purchase.clone(),
            busy_for,
        };
        Ok(match self.run.submit(claim).await? {
            Outcome::Step(PurchaseStep::Wait(at)) => Claimed::Nothing(Answer::At(at)),
            Outcome::Step(PurchaseStep::Done) => Claimed::Nothing(Answer::Done),
            Outcome::Step(step) => Claimed::Step(step, busy_until),
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
                Command::Placed {
                    purchase,
                    attempt,
                    sent,
                    answer,
                }
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
                Command::Polled {
                    purchase,
                    answer: self.supplier.order(&supplier_order_id).await,
                }
            }
            PurchaseStep::Cancel { supplier_order_id } => {
                self.run.cover(self.terms.request_timeout).await?;
                let answer = self.supplier.cancel(&supplier_order_id).await;
                Command::CancelAnswered {
                    purchase,
                    supplier_order_id,
                    answer,
                }
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
        if let Err(fault) = self.supplier.preview(request).await {
            return (false, Err(fault));
        }
        if let Err(fault) = self.may_send(busy_until).await {
            return (false, Err(fault));
        }
        (true, self.supplier.create(request).await)
    }

    /// Whether a call would surely end while the purchase and the job are still ours.
    async fn may_send(&self, busy_until: Timestamp) -> Result<(), Fault> {
        let not_sent = |message: String| Fault::Unknown {
            code: "not_sent".into(),
            message,
            retry_after: None,
        };
        if self.run.now() + self.terms.request_timeout > busy_until {
            return Err(not_sent("the time of the claim ran out".into()));
        }
        let covered = self.run.cover(self.terms.request_timeout).await;
        covered.map_err(|stop| not_sent(stop.to_string()))
    }
}
