//! One order at the supplier, and its states as the wire names them.
//!
//! What must hold: states only go forward (`waitbuyerpay → waitsellersend → waitbuyerreceive →
//! confirm_goods → success`, or `cancel` from any of the first three); each step leaves its time, so
//! that the state of any earlier instant can be told.

use serde::Serialize;
use serde_json::Value;

use crate::clock::Timestamp;
use crate::domain::supply::Item;

/// Where an order stands. The text is 1688's `baseInfo.status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Status {
    #[serde(rename = "waitbuyerpay")]
    Unpaid,
    #[serde(rename = "waitsellersend")]
    Paid,
    #[serde(rename = "waitbuyerreceive")]
    Shipped,
    #[serde(rename = "confirm_goods")]
    Received,
    #[serde(rename = "success")]
    Complete,
    #[serde(rename = "cancel")]
    Closed,
}

impl Status {
    pub const fn wire(self) -> &'static str {
        match self {
            Status::Unpaid => "waitbuyerpay",
            Status::Paid => "waitsellersend",
            Status::Shipped => "waitbuyerreceive",
            Status::Received => "confirm_goods",
            Status::Complete => "success",
            Status::Closed => "cancel",
        }
    }

    /// The Chinese text beside it.
    pub const fn text(self) -> &'static str {
        match self {
            Status::Unpaid => "等待买家付款",
            Status::Paid => "等待卖家发货",
            Status::Shipped => "等待买家收货",
            Status::Received => "已收货",
            Status::Complete => "交易成功",
            Status::Closed => "交易关闭",
        }
    }
}

/// Who closed an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Buyer,
    Seller,
    /// Not paid in time.
    System,
    /// The platform's staff.
    Bops,
}

impl By {
    /// 1688's `closeOperateType`.
    pub const fn wire(self) -> &'static str {
        match self {
            By::Buyer => "CLOSE_TRADE_BY_BUYER",
            By::Seller => "CLOSE_TRADE_BY_SELLER",
            By::System => "CLOSE_TRADE_BY_SYSTEM",
            By::Bops => "CLOSE_TRADE_BY_BOPS",
        }
    }
}

/// How an order was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Closing {
    pub at: Timestamp,
    pub by: By,
    pub reason: String,
}

/// One line: an item, how many, and at what price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub item: Item,
    /// `None` for an offer without specs.
    pub sku_id: Option<u64>,
    pub title: String,
    /// The variant's name, empty without specs.
    pub variant: String,
    pub quantity: i64,
    /// Price of a unit, fen.
    pub price_fen: i64,
}

impl Line {
    pub const fn amount_fen(&self) -> i64 {
        self.price_fen.saturating_mul(self.quantity)
    }
}

/// An order. Times are those of the simulator's clock, money is fen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// 19 digits, above 2^53.
    pub id: u64,
    /// The caller's `outOrderId`.
    pub reference: Option<String>,
    pub seller: String,
    pub lines: Vec<Line>,
    pub post_fee_fen: i64,
    pub message: String,
    /// `addressParam` as it was sent.
    pub address: Value,
    pub created_at: Timestamp,
    pub paid_at: Option<Timestamp>,
    pub shipped_at: Option<Timestamp>,
    pub received_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub closed: Option<Closing>,
    /// Whether its units have been taken from the shelves and not given back.
    pub holds_stock: bool,
}

impl Order {
    pub fn goods_fen(&self) -> i64 {
        self.lines.iter().fold(0, |sum, line| sum.saturating_add(line.amount_fen()))
    }

    pub fn total_fen(&self) -> i64 {
        self.goods_fen().saturating_add(self.post_fee_fen)
    }

    /// The last state.
    pub fn status(&self) -> Status {
        self.status_at(Timestamp(i64::MAX))
    }

    /// The state as it was at `at` (an order not yet made counts as unpaid).
    pub fn status_at(&self, at: Timestamp) -> Status {
        let by = |time: Option<Timestamp>| time.is_some_and(|time| time <= at);
        if self.closed.as_ref().is_some_and(|closing| closing.at <= at) {
            Status::Closed
        } else if by(self.completed_at) {
            Status::Complete
        } else if by(self.received_at) {
            Status::Received
        } else if by(self.shipped_at) {
            Status::Shipped
        } else if by(self.paid_at) {
            Status::Paid
        } else {
            Status::Unpaid
        }
    }

    /// The order as it was at `at`: later steps taken away. For answers that lag.
    pub fn as_of(&self, at: Timestamp) -> Order {
        let before = |time: Option<Timestamp>| time.filter(|time| *time <= at);
        Order {
            paid_at: before(self.paid_at),
            shipped_at: before(self.shipped_at),
            received_at: before(self.received_at),
            completed_at: before(self.completed_at),
            closed: self.closed.clone().filter(|closing| closing.at <= at),
            ..self.clone()
        }
    }

    /// When it last changed.
    pub fn modified_at(&self) -> Timestamp {
        let closed = self.closed.as_ref().map(|closing| closing.at);
        [self.paid_at, self.shipped_at, self.received_at, self.completed_at, closed]
            .into_iter()
            .flatten()
            .fold(self.created_at, Timestamp::max)
    }

    /// The id of line `index`: the order's own when there is one line, as on the platform.
    pub fn line_id(&self, index: usize) -> u64 {
        if self.lines.len() == 1 {
            return self.id;
        }
        self.id.saturating_add(u64::try_from(index).unwrap_or(u64::MAX)).saturating_add(1)
    }

    pub fn line_ids(&self) -> Vec<u64> {
        (0..self.lines.len()).map(|index| self.line_id(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let at = Timestamp::from_secs;
        let line = Line {
            item: Item { offer_id: "1".into(), spec_id: None },
            sku_id: None,
            title: "tape".into(),
            variant: String::new(),
            quantity: 4,
            price_fen: 990,
        };
        Order {
            id: 3_657_499_272_179_232_333,
            reference: Some("so-1".into()),
            seller: "b2b-1".into(),
            lines: vec![line],
            post_fee_fen: 800,
            message: String::new(),
            address: Value::Null,
            created_at: at(10),
            paid_at: Some(at(20)),
            shipped_at: Some(at(30)),
            received_at: None,
            completed_at: None,
            closed: Some(Closing { at: at(40), by: By::Seller, reason: "lost".into() }),
            holds_stock: false,
        }
    }

    #[test]
    fn totals_are_goods_and_carriage() {
        assert_eq!(order().goods_fen(), 3_960);
        assert_eq!(order().total_fen(), 4_760);
    }

    #[test]
    fn the_state_of_any_instant_can_be_told() {
        let order = order();
        let states: Vec<&str> = [10, 19, 20, 30, 39, 40]
            .map(|secs| order.status_at(Timestamp::from_secs(secs)).wire())
            .to_vec();
        let expected = [
            "waitbuyerpay",
            "waitbuyerpay",
            "waitsellersend",
            "waitbuyerreceive",
            "waitbuyerreceive",
            "cancel",
        ];
        assert_eq!(states, expected);
        let earlier = order.as_of(Timestamp::from_secs(25));
        assert_eq!((earlier.status(), earlier.closed), (Status::Paid, None));
        assert_eq!(order.modified_at(), Timestamp::from_secs(40));
    }

    #[test]
    fn line_ids_follow_the_order_id() {
        let mut order = order();
        assert_eq!(order.line_ids(), [3_657_499_272_179_232_333]);
        order.lines.push(order.lines[0].clone());
        assert_eq!(order.line_ids(), [3_657_499_272_179_232_334, 3_657_499_272_179_232_335]);
    }
}
