//! The supplier port: what the jobs may ask of a supplier, whichever protocol it speaks.
//!
//! What must hold: an adapter answers in `domain::supply` words, decides nothing, retries nothing
//! that could have had an effect, and calls anything that is not definite `Fault::Unknown`.

use async_trait::async_trait;

use crate::domain::supply::{
    Created, Fault, Item, Preview, PurchaseRequest, Reading, UpstreamOrder,
};

pub mod alibaba1688;
pub mod simulator;

/// One supplier. Every method is one question; time-outs are the adapter's (`request_timeout`).
#[async_trait]
pub trait Supplier: Send + Sync {
    /// The feed: figures of the given items, one reading for each item, in the same order. An item
    /// that could not be read is `Figure::Unknown`; it is `Err` only when nothing could be had.
    async fn feed(&self, items: &[Item]) -> Result<Vec<Reading>, Fault>;

    /// The live question for one item, as late as the supplier's own answers are.
    async fn ask(&self, item: &Item) -> Result<Reading, Fault>;

    /// The supplier's last word on a purchase before it is made. Has no effect.
    async fn preview(&self, purchase: &PurchaseRequest) -> Result<Preview, Fault>;

    /// Makes the purchase. `Fault::Unknown` means that it may have been made.
    async fn create(&self, purchase: &PurchaseRequest) -> Result<Created, Fault>;

    /// Every order that carries our reference: complete and without error, or `Err`.
    async fn look_up(&self, reference: &str) -> Result<Vec<UpstreamOrder>, Fault>;

    /// One order by the supplier's id.
    async fn order(&self, supplier_order_id: &str) -> Result<UpstreamOrder, Fault>;

    /// Closes an unpaid order. `Fault::Refused` when it is past that (paid meanwhile).
    async fn cancel(&self, supplier_order_id: &str) -> Result<(), Fault>;
}
