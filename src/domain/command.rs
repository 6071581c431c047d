//! Everything that can be asked of the core, and what has to be loaded to decide it.

use std::collections::BTreeSet;

use super::alert::AlertChange;
use super::names::{LevelId, OrderId, PurchaseId, RefundId, SkuKey, SourceId};
use super::order::{CancelReason, Customer, ShortPolicy};
use super::sku::{Class, Sku, What};
use super::supply::{Address, Created, Fault, Reading, UpstreamOrder};
use super::watermark::Tally;
use crate::clock::{Span, Timestamp};

/// A placement, checked for form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The id that the order gets when it is new.
    pub id: OrderId,
    pub channel: String,
    pub external_id: String,
    pub content_hash: String,
    /// `{api key name}\n{Idempotency-Key}` and the hash of the body.
    pub idempotency: Option<(String, String)>,
    pub currency: String,
    /// 1 to 100: (SKU as asked, units, unit price in minor units).
    pub lines: Vec<PlacementLine>,
    pub shipping: i64,
    pub discount: i64,
    pub customer: Option<Customer>,
    pub ship_to: Option<Address>,
    pub payment: Option<Capture>,
    pub short_policy: ShortPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementLine {
    pub sku: SkuKey,
    pub quantity: i64,
    pub unit_price: i64,
}

/// Captured money as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    pub id: String,
    pub amount: i64,
    /// `None` within a placement (the order's own).
    pub currency: Option<String>,
    pub paid_at: Option<Timestamp>,
}

/// What ops decide of an order in attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Retry,
    Cancel,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockChange {
    Delta(i64),
    /// A shelf count.
    Set {
        to: i64,
        if_version: Option<i64>,
        release_newest: bool,
    },
}

/// A catalogue row: the SKU as it shall be, and the shelf counts of levels it may create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRow {
    /// Line in the file, for the report.
    pub line: u64,
    pub sku: Sku,
    /// (warehouse, units)
    pub quantities: Vec<(SourceId, i64)>,
}

/// What ops or a provider say of a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundAnswer {
    Succeeded {
        reference: Option<String>,
    },
    /// Taken; ask again later.
    Pending,
    /// The provider knows of no such refund.
    NotMade,
    /// A definite refusal: a person must see to it.
    Refused {
        message: String,
    },
    /// No usable answer.
    Unknown {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurchaseResolution {
    Placed { supplier_order_id: String },
    NotPlaced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Place(Box<Placement>),
    Pay {
        order: OrderId,
        payment: Capture,
    },
    PaymentInProgress {
        order: OrderId,
        payment_id: String,
    },
    Cancel {
        order: OrderId,
        reason: CancelReason,
    },
    CancelLine {
        order: OrderId,
        line: i64,
        quantity: i64,
    },
    ShipTo {
        order: OrderId,
        address: Address,
    },
    Decide {
        order: OrderId,
        action: Action,
    },
    /// (line number, units) of warehouse shares.
    Ship {
        order: OrderId,
        lines: Vec<(i64, i64)>,
        carrier: String,
        tracking_number: String,
    },
    Complete {
        order: OrderId,
    },
    /// A refund by ops.
    RefundOrder {
        order: OrderId,
        amount: i64,
        reason: String,
    },
    /// Whatever of the order, its purchases and its refunds is past its deadline.
    Due {
        order: OrderId,
    },

    PutSku(Box<Sku>),
    Import {
        rows: Vec<ImportRow>,
        set_quantities: bool,
    },
    PauseSku {
        sku: SkuKey,
        what: What,
        reason: String,
        /// Who says so: the API key's name.
        by: String,
    },
    ResumeSku {
        sku: SkuKey,
        what: What,
        reason: String,
        /// Who says so: the API key's name.
        by: String,
    },
    PauseSupplier {
        supplier: SourceId,
        what: What,
        reason: String,
        /// Who says so: the API key's name.
        by: String,
    },
    ResumeSupplier {
        supplier: SourceId,
        what: What,
        reason: String,
        /// Who says so: the API key's name.
        by: String,
    },
    AddAlias {
        sku: SkuKey,
        alias: SkuKey,
    },
    ChangeStock {
        sku: SkuKey,
        source: SourceId,
        change: StockChange,
        reason: String,
    },

    /// Readings of at most 500 levels of one supplier. `feed`: by sync, not by live question.
    Readings {
        supplier: SourceId,
        readings: Vec<(LevelId, Reading)>,
        feed: bool,
    },
    /// Take the lock on an item for the job `owner`.
    LockItem {
        level: LevelId,
        owner: String,
    },
    /// Decide the orders that wait on an item by the supplier's answer. `polled`: its placed,
    /// unpaid purchases have been read back since the question.
    JudgeItem {
        level: LevelId,
        token: i64,
        answer: Result<Reading, Fault>,
        polled: bool,
    },

    /// What is the next thing to do about a purchase? A step that calls the supplier to create
    /// is claimed for `busy_for`.
    ClaimPurchase {
        purchase: PurchaseId,
        busy_for: Span,
    },
    /// The preview or the create of attempt `attempt` was answered. `sent`: the create went out.
    Placed {
        purchase: PurchaseId,
        attempt: i64,
        sent: bool,
        answer: Result<Created, Fault>,
    },
    /// A look-up by reference; `late`: the recheck of a lost create (its time and step).
    LookedUp {
        purchase: PurchaseId,
        late: Option<(Timestamp, usize)>,
        answer: Result<Vec<UpstreamOrder>, Fault>,
    },
    /// A supplier order was read back; `sent_at`: when it was asked for.
    Polled {
        purchase: PurchaseId,
        sent_at: Timestamp,
        answer: Result<UpstreamOrder, Fault>,
    },
    /// The supplier's word on cancelling one of the purchase's supplier orders.
    CancelAnswered {
        purchase: PurchaseId,
        supplier_order_id: String,
        answer: Result<(), Fault>,
    },
    RetryPurchase {
        purchase: PurchaseId,
    },
    ResolvePurchase {
        purchase: PurchaseId,
        resolution: PurchaseResolution,
    },

    /// What is the next thing to do about a refund?
    ClaimRefund {
        refund: RefundId,
    },
    RefundAnswered {
        refund: RefundId,
        answer: RefundAnswer,
    },
    RetryRefund {
        refund: RefundId,
    },
    /// By hand: made (with a reference), or not made (a new attempt).
    ResolveRefund {
        refund: RefundId,
        made: bool,
        reference: Option<String>,
    },

    Alerts(Vec<AlertChange>),
    /// Has these SKUs' `low_stock` judged by what is left of them now.
    LowStock {
        skus: Vec<SkuKey>,
    },
    /// The supplier's `feed_stale` by its levels as they were walked through a moment ago.
    FeedStale {
        supplier: SourceId,
        tally: Tally,
    },
}

impl Command {
    /// The order that it names.
    fn order(&self) -> Option<&OrderId> {
        match self {
            Command::Pay { order, .. }
            | Command::PaymentInProgress { order, .. }
            | Command::Cancel { order, .. }
            | Command::CancelLine { order, .. }
            | Command::ShipTo { order, .. }
            | Command::Decide { order, .. }
            | Command::Ship { order, .. }
            | Command::Complete { order }
            | Command::RefundOrder { order, .. }
            | Command::Due { order } => Some(order),
            _ => None,
        }
    }

    /// The purchase that it names.
    fn purchase(&self) -> Option<&PurchaseId> {
        match self {
            Command::ClaimPurchase { purchase, .. }
            | Command::Placed { purchase, .. }
            | Command::LookedUp { purchase, .. }
            | Command::Polled { purchase, .. }
            | Command::CancelAnswered { purchase, .. }
            | Command::RetryPurchase { purchase }
            | Command::ResolvePurchase { purchase, .. } => Some(purchase),
            _ => None,
        }
    }

    /// The refund that it names.
    fn refund(&self) -> Option<&RefundId> {
        match self {
            Command::ClaimRefund { refund }
            | Command::RefundAnswered { refund, .. }
            | Command::RetryRefund { refund }
            | Command::ResolveRefund { refund, .. } => Some(refund),
            _ => None,
        }
    }
}

/// What a group names. Storage turns it into a `World`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub orders: BTreeSet<OrderId>,
    /// (channel, external id)
    pub external: BTreeSet<(String, String)>,
    /// Idempotency scopes of placements.
    pub placement_keys: BTreeSet<String>,
    pub payment_ids: BTreeSet<String>,
    pub refunds: BTreeSet<RefundId>,
    pub purchases: BTreeSet<PurchaseId>,
    /// Ids of suppliers' orders: which purchase has one.
    pub supplier_orders: BTreeSet<String>,
    /// With all their levels; aliases are followed.
    pub skus: BTreeSet<SkuKey>,
    /// The SKUs (with levels) of every order loaded.
    pub skus_of_orders: bool,
    pub levels: BTreeSet<LevelId>,
    /// Levels whose holds may settle: orders with committed and counted, or undone, holds there;
    /// at most 500 each.
    pub settling: BTreeSet<LevelId>,
    /// Levels to be judged: their 500 oldest undecided orders, and the units of all others.
    pub judged: BTreeSet<LevelId>,
    /// Levels whose open orders, newest first, may have to give way to a count; at most 500 each.
    pub counted: BTreeSet<LevelId>,
    /// Levels whose overdue unpaid orders (oldest 50 each) may be ended to serve a placement.
    pub overdue: BTreeSet<LevelId>,
    /// Levels whose orders with active, confirmed shares that no purchase has been sent for are
    /// loaded; at most 500 each.
    pub unbought: BTreeSet<LevelId>,
    /// SKUs and suppliers whose buying goes on: their pending purchases, the 500 that have waited
    /// longest.
    pub resumed_skus: BTreeSet<SkuKey>,
    pub resumed_suppliers: BTreeSet<SourceId>,
    /// Levels to be loaded with the sums of their holds, and corrected.
    pub recount: BTreeSet<LevelId>,
    /// Whether any unpaid order at all is overdue.
    pub any_overdue: bool,
}

impl Needs {
    pub fn is_placement(command: &Command) -> bool {
        matches!(command, Command::Place(_))
    }

    /// About how many levels the command names; a group closes at 2,000.
    pub fn weight(command: &Command) -> usize {
        match command {
            Command::Place(p) => p.lines.len().saturating_mul(2),
            Command::Readings { readings, .. } => readings.len(),
            Command::Import { rows, .. } => rows.len().saturating_mul(2),
            Command::JudgeItem { .. } => 1000,
            Command::LowStock { skus } => skus.len().saturating_mul(2),
            _ => 4,
        }
    }

    /// Adds what a command names.
    pub fn add(&mut self, command: &Command) {
        self.orders.extend(command.order().cloned());
        self.purchases.extend(command.purchase().cloned());
        self.refunds.extend(command.refund().cloned());
        match command {
            Command::ResolvePurchase {
                resolution: PurchaseResolution::Placed { supplier_order_id },
                ..
            } => {
                self.supplier_orders.insert(supplier_order_id.clone());
            }
            Command::Place(p) => {
                self.external.insert((p.channel.clone(), p.external_id.clone()));
                self.placement_keys.extend(p.idempotency.iter().map(|(key, _)| key.clone()));
                self.payment_ids.extend(p.payment.iter().map(|c| c.id.clone()));
                self.skus.extend(p.lines.iter().map(|l| l.sku.clone()));
                self.any_overdue = true;
            }
            Command::Pay { payment, .. } => {
                self.payment_ids.insert(payment.id.clone());
                self.skus_of_orders = true; // a late payment takes new holds
                self.any_overdue = true;
            }
            Command::PaymentInProgress { payment_id, .. } => {
                self.payment_ids.insert(payment_id.clone());
            }
            Command::CancelLine { .. } | Command::Due { .. } => self.skus_of_orders = true,
            Command::PutSku(sku) => self.add_sku(sku),
            Command::Import { rows, .. } => rows.iter().for_each(|row| self.add_sku(&row.sku)),
            Command::PauseSku { sku, .. } => {
                self.skus.insert(sku.clone());
            }
            Command::ResumeSku { sku, what, .. } => {
                self.skus.insert(sku.clone());
                self.resumed_skus.extend((*what != What::Selling).then(|| sku.clone()));
            }
            Command::ResumeSupplier { supplier, what, .. } if *what != What::Selling => {
                self.resumed_suppliers.insert(supplier.clone());
            }
            Command::AddAlias { sku, alias } => self.skus.extend([sku.clone(), alias.clone()]),
            Command::ChangeStock { sku, source, .. } => {
                self.skus.insert(sku.clone());
                self.counted.insert(LevelId::warehouse(source, sku));
            }
            Command::Readings { readings, .. } => {
                self.levels.extend(readings.iter().map(|(level, _)| level.clone()));
                self.settling.extend(readings.iter().map(|(level, _)| level.clone()));
            }
            Command::LockItem { level, .. } => {
                self.levels.insert(level.clone());
                self.judged.insert(level.clone());
            }
            Command::JudgeItem { level, .. } => {
                self.levels.insert(level.clone());
                self.settling.insert(level.clone());
                self.judged.insert(level.clone());
            }
            Command::LowStock { skus } => self.skus.extend(skus.iter().cloned()),
            Command::FeedStale { tally, .. } => self.levels.extend(tally.samples().cloned()),
            _ if command.purchase().is_some() => self.skus_of_orders = true,
            _ => {}
        }
    }

    fn add_sku(&mut self, sku: &Sku) {
        self.skus.insert(sku.key.clone());
        self.levels.extend(sku.sources.iter().map(|s| s.level.clone()));
    }
}

/// The shortest-lived class among those given.
pub fn shortest(classes: impl Iterator<Item = Class>) -> Class {
    classes.max().unwrap_or(Class::Normal)
}
