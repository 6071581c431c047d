//! From the configuration to what the rules and the adapters are given.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Clock;
use crate::domain::names::SourceId;
use crate::domain::policy::{Policy, Terms};
use crate::settings::{CountsAt, RefundSettings, Settings, SupplierSettings};
use crate::suppliers::{Supplier, alibaba1688};

/// 1688 lists at most this many orders a page.
const PAGE_SIZE: u32 = 50;
/// 1688 sells in yuan.
const CURRENCY: &str = "CNY";

/// The settings that rules depend on.
pub fn policy(settings: &Settings) -> Policy {
    let suppliers: BTreeMap<SourceId, Terms> =
        settings.suppliers.iter().map(|s| (SourceId::from(s.id.as_str()), terms(s))).collect();
    Policy {
        ttl_normal: settings.holds.ttl_normal,
        ttl_hot: settings.holds.ttl_hot,
        ttl_flash: settings.holds.ttl_flash,
        payment_grace: settings.holds.payment_grace,
        confirm_delay: settings.confirm.delay,
        max_answer_age: settings.confirm.max_answer_age,
        retry_deadline: settings.confirm.retry_deadline,
        attention_deadline: settings.confirm.attention_deadline,
        ship_deadline: settings.orders.ship_deadline,
        complete_after: settings.orders.complete_after,
        low: settings.watermark.low,
        recover: settings.watermark.recover,
        remind_every: settings.watermark.remind_every,
        refunds_by_provider: matches!(settings.refunds, RefundSettings::Webhook { .. }),
        suppliers,
    }
}

fn terms(s: &SupplierSettings) -> Terms {
    Terms {
        sync_interval: s.sync_interval,
        declared_lag: s.declared_lag,
        // "order" only counts where somebody has checked it.
        counts_at_order: s.stock_counts_at == CountsAt::Order && s.stock_counts_verified,
        settle_margin: s.settle_margin,
        lookup_settle: s.lookup_settle,
        unpaid_deadline: s.unpaid_deadline,
        buffer: s.buffer,
        deliver_to: s.deliver_to.clone(),
        request_timeout: s.request_timeout,
        currency: CURRENCY.into(),
    }
}

/// What the adapter of a configured supplier is made from.
pub fn adapter_terms(s: &SupplierSettings, clock: &Clock) -> alibaba1688::Terms {
    alibaba1688::Terms {
        gateway: s.gateway.clone(),
        app_key: s.app_key.clone(),
        app_secret: s.app_secret.clone(),
        access_token: s.access_token.clone(),
        refresh_token: s.refresh_token.clone(),
        flow: s.flow.clone(),
        request_timeout: s.request_timeout,
        max_requests_per_second: s.max_requests_per_second,
        page_size: PAGE_SIZE,
        clock: clock.clone(),
    }
}

/// The adapters as the port that jobs use.
pub fn ports(
    adapters: &BTreeMap<SourceId, Arc<alibaba1688::Alibaba1688>>,
) -> BTreeMap<SourceId, Arc<dyn Supplier>> {
    let port = |(id, a): (&SourceId, &Arc<alibaba1688::Alibaba1688>)| {
        (id.clone(), Arc::clone(a) as Arc<dyn Supplier>)
    };
    adapters.iter().map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Sources, load};

    #[test]
    fn a_configuration_that_says_nothing_gives_the_default_policy() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("stockhold.toml");
        let supplier = "[[suppliers]]\nid = \"s1688\"\napp_key = \"1\"\napp_secret = \"s\"\n\
            access_token = \"t\"\n";
        std::fs::write(&file, supplier).expect("written");
        let loaded = load(&Sources { file: Some(file), ..Sources::default() }).expect("loaded");
        let suppliers = [("s1688".into(), Terms::default())].into();
        assert_eq!(policy(&loaded.settings), Policy { suppliers, ..Policy::default() });
    }
}
