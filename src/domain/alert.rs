//! What ops are told. An alert is open once for each (kind, subject), reminds while it stays open,
//! and closes when what it says is no longer true.

use super::names::texts;

texts!(AlertKind {
    LowStock = "low_stock",
    FeedStale = "feed_stale",
    FeedSuspect = "feed_suspect",
    ReleaseFailing = "release_failing",
    ReconciliationRepaired = "reconciliation_repaired",
    PurchaseUnknown = "purchase_unknown",
    PurchaseUnpaid = "purchase_unpaid",
    SupplierClosed = "supplier_closed",
    UpstreamDuplicate = "upstream_duplicate",
    CancelRefusedUpstream = "cancel_refused_upstream",
    RefundFailing = "refund_failing",
    OrderAttention = "order_attention",
    JobDead = "job_dead",
    ScheduleMissed = "schedule_missed",
});

/// A change of an alert. Opening one that is open, or closing one that is not, changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertChange {
    /// `subject` names what it is about (a SKU, a supplier, an order …); `detail` is for people.
    Open {
        kind: AlertKind,
        subject: String,
        detail: String,
    },
    Close {
        kind: AlertKind,
        subject: String,
    },
}

impl AlertChange {
    pub fn is_open(&self) -> bool {
        matches!(self, AlertChange::Open { .. })
    }
}
