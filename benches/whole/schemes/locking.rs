//! `for-update`: one transaction for each order, which locks the stock row, looks, and writes.

use async_trait::async_trait;
use sqlx::PgPool;

use super::order::Order;
use super::{Failure, Placed, Scheme, rows};

pub struct ForUpdate(pub PgPool);

#[async_trait]
impl Scheme for ForUpdate {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        let mut tx = self.0.begin().await?;
        for line in &order.lines {
            let free: Option<i64> = sqlx::query_scalar(
                "SELECT quantity - held - committed FROM levels WHERE id = $1 FOR UPDATE",
            )
            .bind(&line.level)
            .fetch_optional(&mut *tx)
            .await?;
            if free.unwrap_or(0) < line.quantity {
                tx.rollback().await?;
                return Ok(Placed::SoldOut);
            }
            let take = sqlx::query(rows::TAKE).bind(&line.level).bind(line.quantity);
            take.execute(&mut *tx).await?;
        }
        rows::into_postgres(&mut tx, &order).await?;
        tx.commit().await?;
        Ok(Placed::Held)
    }
}
