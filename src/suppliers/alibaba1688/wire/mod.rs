//! The 1688 wire: what is sent and how each envelope is read. Pure; sends nothing.
//!
//! What must hold: ids and money are read from the digits as they stand in the JSON, never through
//! a float; what cannot be read exactly is not guessed; words of an error message decide nothing.
//! Field names and spellings (`orderPreviewResuslt`, `tradeID`, …) are the platform's own.
//! Left out: product details, refunds, payment, messages.

pub mod answer;
pub mod cancel;
pub mod create;
pub mod list;
pub mod offer;
pub mod order;
pub mod preview;
pub mod purchase;
pub mod scalar;

/// Form fields of one call, before token, time and signature are added.
pub type Params = Vec<(&'static str, String)>;

/// One API of the platform, all of version 1.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    pub namespace: &'static str,
    pub name: &'static str,
}

impl Api {
    /// The part of the address that is signed: from `param2` to the app key.
    pub fn url_path(self, app_key: &str) -> String {
        format!("param2/1/{}/{}/{app_key}", self.namespace, self.name)
    }
}

const fn trade(name: &'static str) -> Api {
    Api { namespace: "com.alibaba.trade", name }
}

pub const OFFER: Api =
    Api { namespace: "com.alibaba.fenxiao", name: "alibaba.fenxiao.productInfo.get" };
pub const PREVIEW: Api = trade("alibaba.createOrder.preview");
pub const CREATE: Api = trade("alibaba.trade.fastCreateOrder");
pub const ORDER: Api = trade("alibaba.trade.get.buyerView");
pub const ORDERS: Api = trade("alibaba.trade.getBuyerOrderList");
pub const CANCEL: Api = trade("alibaba.trade.cancel");

/// A fixture of `fixtures/suppliers/1688/`, for the tests of this module.
#[cfg(test)]
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/fixtures/suppliers/1688/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
