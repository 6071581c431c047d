//! The calls that the simulator knows, by their names on the wire and in settings.
//!
//! What must hold: a name, a namespace and a version belong together; anything else is
//! `gw.APIUnsupported`. Which parameters are required and whether a token is needed is said here.

use serde::{Deserialize, Serialize};

/// One call of the open platform. In settings and under `/sim` it goes by its short name
/// (`product`, `create` …).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `alibaba.fenxiao.productInfo.get`: offers and their stock.
    Product,
    /// `alibaba.createOrder.preview`.
    Preview,
    /// `alibaba.trade.fastCreateOrder`.
    Create,
    /// `alibaba.trade.get.buyerView`: one order.
    View,
    /// `alibaba.trade.getBuyerOrderList`.
    List,
    /// `alibaba.trade.cancel`.
    Cancel,
    /// `alibaba.trade.pay.protocolPay.preparePay`.
    Pay,
    /// `alibaba.trade.receiveAddress.get`.
    Addresses,
    /// `alibaba.trade.getLogisticsInfos.buyerView`: the parcels of an order.
    Parcels,
    /// `alibaba.trade.getLogisticsTraceInfo.buyerView`: the way of a parcel.
    Trace,
    /// `alibaba.logistics.OpQueryLogisticCompanyList`.
    Companies,
    /// `system/currentTime`.
    Time,
    /// `system/currentTimeMillis`.
    TimeMillis,
    /// `system.oauth2/getToken`, not signed.
    Token,
}

const TRADE: &str = "com.alibaba.trade";
const LOGISTICS: &str = "com.alibaba.logistics";

impl Api {
    /// Every call, in the order of the settings.
    pub const ALL: [Api; 14] = [
        Api::Product,
        Api::Preview,
        Api::Create,
        Api::View,
        Api::List,
        Api::Cancel,
        Api::Pay,
        Api::Addresses,
        Api::Parcels,
        Api::Trace,
        Api::Companies,
        Api::Time,
        Api::TimeMillis,
        Api::Token,
    ];

    /// Namespace and name on the wire.
    pub const fn wire(self) -> (&'static str, &'static str) {
        match self {
            Api::Product => ("com.alibaba.fenxiao", "alibaba.fenxiao.productInfo.get"),
            Api::Preview => (TRADE, "alibaba.createOrder.preview"),
            Api::Create => (TRADE, "alibaba.trade.fastCreateOrder"),
            Api::View => (TRADE, "alibaba.trade.get.buyerView"),
            Api::List => (TRADE, "alibaba.trade.getBuyerOrderList"),
            Api::Cancel => (TRADE, "alibaba.trade.cancel"),
            Api::Pay => (TRADE, "alibaba.trade.pay.protocolPay.preparePay"),
            Api::Addresses => (TRADE, "alibaba.trade.receiveAddress.get"),
            Api::Parcels => (LOGISTICS, "alibaba.trade.getLogisticsInfos.buyerView"),
            Api::Trace => (LOGISTICS, "alibaba.trade.getLogisticsTraceInfo.buyerView"),
            Api::Companies => (LOGISTICS, "alibaba.logistics.OpQueryLogisticCompanyList"),
            Api::Time => ("system", "currentTime"),
            Api::TimeMillis => ("system", "currentTimeMillis"),
            Api::Token => ("system.oauth2", "getToken"),
        }
    }

    /// The call of that name, in that namespace and version (all known calls are version 1).
    pub fn find(version: &str, namespace: &str, name: &str) -> Option<Api> {
        Api::ALL.into_iter().find(|api| version == "1" && api.wire() == (namespace, name))
    }

    /// Whether the call acts for a person, so that `access_token` is required.
    pub const fn needs_token(self) -> bool {
        !matches!(self, Api::Time | Api::TimeMillis | Api::Token)
    }

    /// Whether the answer's stock or order states can be made late (`lag`). Create and cancel
    /// always judge the true state.
    pub const fn can_lag(self) -> bool {
        matches!(self, Api::Product | Api::Preview | Api::View | Api::List)
    }

    /// The first required parameter that `has` does not know; alternatives share a group.
    pub fn missing(self, has: impl Fn(&str) -> bool) -> Option<&'static str> {
        let groups: &[&[&'static str]] = match self {
            Api::Product => &[&["offerId", "openOfferId"]],
            Api::Preview => &[&["addressParam"], &["cargoParamList"]],
            Api::Create => &[&["flow"], &["addressParam"], &["cargoParamList"]],
            Api::View | Api::Trace => &[&["webSite"], &["orderId"]],
            Api::Parcels => &[&["orderId"]],
            Api::Cancel => &[&["webSite"], &["tradeID"], &["cancelReason"]],
            Api::Pay => &[&["tradeWithholdPreparePayParam"]],
            _ => &[],
        };
        groups
            .iter()
            .find(|group| !group.iter().any(|name| has(name)))
            .and_then(|group| group.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_its_namespace_and_version() {
        let (trade, create) = Api::Create.wire();
        assert_eq!(Api::find("1", trade, create), Some(Api::Create));
        assert_eq!(Api::find("2", trade, create), None);
        assert_eq!(Api::find("1", "com.alibaba.product", create), None);
        // The wrong namespace that clients have been seen to try.
        assert_eq!(Api::find("1", trade, "alibaba.trade.getLogisticsInfos.buyerView"), None);
    }

    #[test]
    fn required_parameters_are_named() {
        assert_eq!(Api::Product.missing(|name| name == "openOfferId"), None);
        assert_eq!(Api::Product.missing(|_| false), Some("offerId"));
        assert_eq!(Api::Cancel.missing(|name| name != "tradeID"), Some("tradeID"));
        assert_eq!(Api::List.missing(|_| false), None);
    }
}
