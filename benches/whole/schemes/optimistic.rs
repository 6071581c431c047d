//! `optimistic`: reads the stock row with its version, and writes if the version is still the same;
//! otherwise again, up to five times.

use async_trait::async_trait;
use sqlx::PgPool;

use super::order::Order;
use super::{Failure, Placed, Scheme, rows};

const RETRIES: u32 = 5;

pub struct Optimistic(pub PgPool);

#[async_trait]
impl Scheme for Optimistic {
    async fn place(&self, order: Order) -> Result<Placed, Failure> {
        for _ in 0..=RETRIES {
            if let Some(placed) = self.attempt(&order).await? {
                return Ok(placed);
            }
        }
        Ok(Placed::GaveUp)
    }
}

impl Optimistic {
    /// `None`: somebody else was faster.
    async fn attempt(&self, order: &Order) -> Result<Option<Placed>, Failure> {
        let mut tx = self.0.begin().await?;
        for line in &order.lines {
            let row: Option<(i64, i64)> = sqlx::query_as(
                "SELECT quantity - held - committed, version FROM levels WHERE id = $1",
            )
            .bind(&line.level)
            .fetch_optional(&mut *tx)
            .await?;
            let Some((_, version)) = row.filter(|(free, _)| *free >= line.quantity) else {
                tx.rollback().await?;
                return Ok(Some(Placed::SoldOut));
            };
            let taken = sqlx::query(
                "UPDATE levels SET held = held + $2, version = version + 1 \
                 WHERE id = $1 AND version = $3",
            )
            .bind(&line.level)
            .bind(line.quantity)
            .bind(version)
            .execute(&mut *tx)
            .await?;
            if taken.rows_affected() == 0 {
                tx.rollback().await?;
                return Ok(None);
            }
        }
        rows::into_postgres(&mut tx, order).await?;
        tx.commit().await?;
        Ok(Some(Placed::Held))
    }
}
