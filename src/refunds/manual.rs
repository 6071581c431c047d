//! Refunds by hand: nothing is called. A refund stays pending, listed for ops under `/v1/refunds`,
//! until they resolve it; one that is open for a day alerts.

use std::time::Duration;

use async_trait::async_trait;

use super::{Provider, Request};
use crate::domain::command::RefundAnswer;
use crate::domain::names::RefundId;

/// Ops are the provider.
#[derive(Clone, Copy, Debug)]
pub struct Manual;

#[async_trait]
impl Provider for Manual {
    async fn make(&self, _: &Request) -> RefundAnswer {
        RefundAnswer::Pending
    }

    async fn look_up(&self, _: &RefundId) -> RefundAnswer {
        RefundAnswer::Pending
    }

    fn timeout(&self) -> Duration {
        Duration::ZERO
    }
}
