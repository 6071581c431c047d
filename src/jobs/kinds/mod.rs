//! The registry: each kind of job with what runs it. The compiler checks that none is forgotten.

use async_trait::async_trait;

use super::run::{Answer, Run, Stop};
use super::runner::Handler;
use super::watermark;
use crate::domain::job::Job;

mod alert;
mod confirm;
mod overdue;
mod prune;
mod purchase;
mod recheck;
mod refund;
mod sync;

/// What runs the jobs of the program.
#[derive(Clone, Copy, Debug)]
pub struct Kinds;

#[async_trait]
impl Handler for Kinds {
    async fn run(&self, run: &Run<'_>) -> Result<Answer, Stop> {
        match run.job {
            Job::Deadline { second } => overdue::deadline(run, *second).await,
            Job::Confirm { level } => confirm::run(run, level).await,
            Job::Purchase { purchase } => purchase::run(run, purchase).await,
            Job::Recheck { purchase, lost_at, step } => {
                recheck::run(run, purchase, *lost_at, *step).await
            }
            Job::Refund { refund } => refund::run(run, refund).await,
            Job::Alert { alert, event } => alert::spread(run, *alert, event).await,
            Job::Tell { alert, event, channel } => alert::tell(run, *alert, event, channel).await,
            Job::Sync { supplier } => sync::run(run, supplier, false).await,
            Job::AcceptFeed { supplier } => sync::run(run, supplier, true).await,
            Job::Sweep => overdue::sweep(run).await,
            Job::Watermark => watermark::run(run).await,
            Job::Prune => prune::run(run).await,
        }
    }
}
