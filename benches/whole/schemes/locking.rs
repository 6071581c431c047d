//! `for-update`: one transaction for each order, which locks the stock row, looks, and writes.

use async_trait::async_trait;
use sqlx::PgPool;

use super::order::Order;
use super::{Failure, Placed, Scheme, rows};

pub struct ForUpdate(pub PgPool);

#[async_trait]
impl Scheme for ForUpdate {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        rows::hold_in_postgres(self.0.begin().await?, rows::LOCK, &order).await
    }
}
