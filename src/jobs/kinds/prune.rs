//! `prune`: deletes what is kept for a limited time.

use super::super::run::{Answer, Run, Stop};
use super::super::store;

pub async fn run(run: &Run<'_>) -> Result<Answer, Stop> {
    store::prune(&run.deps.db, run.now()).await?;
    Ok(Answer::Done)
}
