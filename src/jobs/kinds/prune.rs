//! `prune`: deletes what is kept for a limited time.

use crate::jobs::run::{Answer, Run, Stop};
use crate::jobs::store;

pub async fn run(run: &Run<'_>) -> Result<Answer, Stop> {
    store::prune(&run.deps.db, run.now()).await?;
    Ok(Answer::Done)
}
