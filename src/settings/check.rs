//! Checks across keys: what cannot work together stops the start, what is risky is warned about.
//!
//! Leaves out bounds of one key alone (`read`); runs only when those hold, so that a fault is told
//! once and not again through its placeholder.

use std::collections::BTreeSet;

use secrecy::ExposeSecret;
use url::Url;

use super::section::Report;
use super::unit::span_text;
use super::{
    ChannelSettings, CoordinationSettings, Protocol, RefundSettings, Role, Settings,
    SupplierSettings,
};
use crate::clock::Span;

/// The fewest characters of an API key.
const MIN_KEY: usize = 16;
/// The name of the own warehouse among the sources.
const WAREHOUSE: &str = "main";

pub(super) fn across(settings: &Settings, report: &mut Report) {
    server(settings, report);
    holds(settings, report);
    if settings.watermark.recover <= settings.watermark.low {
        let low = settings.watermark.low;
        report.error("watermark.recover", format!("must exceed watermark.low ({low})"));
    }
    if settings.orders.complete_after < settings.orders.ship_deadline {
        report.warn("orders.complete_after", "is shorter than orders.ship_deadline");
    }
    for (index, supplier) in settings.suppliers.iter().enumerate() {
        let path = |key: &str| format!("suppliers.{index}.{key}");
        if settings.suppliers.iter().take(index).any(|other| other.id == supplier.id) {
            report.error(&path("id"), format!("`{}` is used twice", supplier.id));
        }
        supplier_alone(supplier, &path, report);
        supplier_in_context(supplier, settings, &path, report);
    }
    if let RefundSettings::Webhook { url, .. } = &settings.refunds {
        warn_of_plain_http("refunds.url", url, report);
    }
    if let CoordinationSettings::Redis { url } = &settings.coordination {
        warn_of_plain_redis(url.expose_secret(), report);
    }
    if settings.alerts.channels.is_empty() {
        report.warn("alerts.channels", "is empty: alerts are seen only by those who look");
    }
    for (index, channel) in settings.alerts.channels.iter().enumerate() {
        if let ChannelSettings::Webhook { url, .. } = channel {
            warn_of_plain_http(&format!("alerts.channels.{index}.url"), url, report);
        }
    }
}

fn server(settings: &Settings, report: &mut Report) {
    let server = &settings.server;
    if server.keys.is_empty() {
        if !server.listen.ip().is_loopback() {
            let fault = format!(
                "{} is not loopback, and no key is configured: anyone could order; add [[server.keys]]",
                server.listen
            );
            report.error("server.listen", fault);
        }
        return;
    }
    let (mut names, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for (index, key) in server.keys.iter().enumerate() {
        let path = format!("server.keys.{index}");
        let secret = key.key.expose_secret();
        if !names.insert(key.name.as_str()) {
            report.error(&format!("{path}.name"), format!("`{}` is used twice", key.name));
        }
        if !secrets.insert(secret) {
            report.error(&format!("{path}.key"), "is the same as another entry's");
        }
        if secret.chars().count() < MIN_KEY {
            report
                .error(&format!("{path}.key"), format!("must have at least {MIN_KEY} characters"));
        }
        if !secret.bytes().all(|b| b.is_ascii_graphic()) {
            report.error(&format!("{path}.key"), "must be printable ASCII without blanks");
        }
    }
    if !server.keys.iter().any(|key| key.role == Role::Ops) {
        report
            .warn("server.keys", "none has the role ops: nobody can decide, refund or count stock");
    }
}

fn holds(settings: &Settings, report: &mut Report) {
    let holds = &settings.holds;
    if holds.ttl_hot > holds.ttl_normal || holds.ttl_flash > holds.ttl_hot {
        report.warn(
            "holds",
            "hotter goods are held longer: ttl_flash <= ttl_hot <= ttl_normal is usual",
        );
    }
    let shortest = holds.ttl_flash.min(holds.ttl_hot).min(holds.ttl_normal);
    if holds.sweep_interval > shortest {
        let risk = format!("is longer than the shortest ttl ({})", span_text(shortest));
        report.warn("holds.sweep_interval", risk);
    }
    if settings.confirm.attention_deadline < settings.confirm.retry_deadline {
        report.warn("confirm.attention_deadline", "is shorter than confirm.retry_deadline");
    }
}

fn supplier_alone(
    supplier: &SupplierSettings,
    path: &impl Fn(&str) -> String,
    report: &mut Report,
) {
    if supplier.id == WAREHOUSE {
        report.error(&path("id"), "`main` is the own warehouse");
    }
    match supplier.protocol {
        Protocol::Alibaba1688 if supplier.declared_lag <= Span::ZERO => report.error(
            &path("declared_lag"),
            "must be above 0: 1688 states no time of reading, so 0 would promise figures without age",
        ),
        Protocol::Alibaba1688 => {}
    }
    if supplier.settle_margin == Span::ZERO {
        report
            .warn(&path("settle_margin"), "0s trusts that a purchase shows in the figures at once");
    }
    if supplier.sync_interval < supplier.request_timeout {
        report.warn(&path("sync_interval"), "is shorter than request_timeout");
    }
    if supplier.sync_interval > Span::hours(1) {
        report.warn(&path("sync_interval"), "is over an hour: stock is sold on figures that old");
    }
    if supplier.suspect_drop.0 == 100 {
        report.warn(&path("suspect_drop"), "100% believes even a feed that lists nothing");
    }
    warn_of_plain_http(&path("gateway"), &supplier.gateway, report);
}

fn supplier_in_context(
    supplier: &SupplierSettings,
    settings: &Settings,
    path: &impl Fn(&str) -> String,
    report: &mut Report,
) {
    let (timeout, lease) = (supplier.request_timeout, settings.jobs.lease);
    if timeout >= lease {
        let fault = format!(
            "must be shorter than jobs.lease ({}): no call would ever begin",
            span_text(lease)
        );
        report.error(&path("request_timeout"), fault);
    } else if timeout > lease.times(1, 2) {
        report.warn(
            &path("request_timeout"),
            "is over half of jobs.lease: calls will often be put off",
        );
    }
    if timeout >= settings.confirm.max_answer_age {
        report.warn(
            &path("request_timeout"),
            "is not below confirm.max_answer_age: slow answers decide nothing",
        );
    }
    if settings.confirm.retry_deadline < supplier.sync_interval {
        report.warn(&path("sync_interval"), "is longer than confirm.retry_deadline");
    }
}

fn warn_of_plain_http(path: &str, url: &str, report: &mut Report) {
    let Ok(url) = Url::parse(url) else { return };
    if url.scheme() == "http" && !is_near(&url) {
        report.warn(path, "is plain http: secrets and addresses can be read on the way");
    }
}

fn warn_of_plain_redis(url: &str, report: &mut Report) {
    let Ok(url) = Url::parse(url) else { return };
    if url.scheme() == "redis" && url.password().is_some() && !is_near(&url) {
        report.warn("coordination.url", "is not rediss://: the password can be read on the way");
    }
}

/// On this machine.
fn is_near(url: &Url) -> bool {
    match url.host() {
        // In other schemes than http, addresses are left as names.
        Some(url::Host::Domain(name)) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
