//! Every order that carries our reference: the answer on which *surely not there* rests.
//!
//! What must hold: the list is read to its stated end, unchanged meanwhile, or the look-up fails.
//! The platform's filter is not trusted (others of its filters were seen to do nothing): rows are
//! matched here. A row that carries no reference at all might be ours, so it is read one by one,
//! and if that does not tell, the look-up fails rather than say *not there*. Where other orders'
//! references prove that the filter did nothing and that references are shown, an old row without
//! one is taken for an order made by hand. Left out: orders older than the list goes back, which
//! is three months.

use std::collections::BTreeMap;

use super::client::Alibaba1688;
use super::wire::answer::{PARAM_MISSING, unknown};
use super::wire::list::{self, Page, Row};
use super::wire::order;
use super::wire::{ORDER, ORDERS};
use crate::clock::Span;
use crate::domain::supply::{Fault, UpstreamOrder};
use crate::suppliers::Supplier;

/// A longer list is not read.
const MAX_PAGES: u32 = 100;
/// At most this many rows without a reference are read one by one.
const MAX_UNNAMED: usize = 10;
/// A create is looked up for up to a day after it was lost; three leave room for a stopped daemon.
const RECENT: Span = Span::days(3);

impl Alibaba1688 {
    /// See [`Supplier::look_up`].
    pub(super) async fn orders_of(&self, reference: &str) -> Result<Vec<UpstreamOrder>, Fault> {
        let mut rows = self.listed(reference).await?;
        let mut hits = BTreeMap::new();
        if let Some(order) = self.order_under(reference).await? {
            rows.remove(&order.supplier_order_id);
            hits.insert(order.supplier_order_id.clone(), named(order, reference)?);
        }
        let (unnamed, named_rows): (Vec<Row>, Vec<Row>) =
            rows.into_values().partition(|row| row.reference.is_none());
        let (ours, others): (Vec<Row>, Vec<Row>) =
            named_rows.into_iter().partition(|row| row.reference.as_deref() == Some(reference));
        for row in ours {
            let order = self.order(&row.supplier_order_id).await?;
            hits.insert(row.supplier_order_id, named(order, reference)?);
        }
        let filter_ignored = !others.is_empty();
        let since = self.clock.now() - RECENT;
        let mut unclear = unnamed;
        unclear.retain(|row| !filter_ignored || row.created_at.is_none_or(|at| at >= since));
        if unclear.len() > MAX_UNNAMED {
            let n = unclear.len();
            return Err(unknown("look_up_incomplete", format!("{n} orders show no reference")));
        }
        for row in unclear {
            let order = self.order(&row.supplier_order_id).await?;
            match order.reference.as_deref() {
                Some(its) if its == reference => {
                    hits.insert(row.supplier_order_id, order);
                }
                Some(_) => {}
                None => {
                    let which = format!("order {} shows no reference", row.supplier_order_id);
                    return Err(unknown("look_up_incomplete", which));
                }
            }
        }
        Ok(hits.into_values().collect())
    }

    /// All rows of the list, by id.
    async fn listed(&self, reference: &str) -> Result<BTreeMap<String, Row>, Fault> {
        let incomplete = |why: String| Err(unknown("look_up_incomplete", why));
        let mut rows = BTreeMap::new();
        let mut first_total = None;
        for page in 1..=MAX_PAGES {
            let params = list::params(reference, page, self.page_size);
            let answer = self.gateway.call(ORDERS, &params).await?;
            let Page { rows: new, total } = list::page(&answer.body)?;
            if *first_total.get_or_insert(total) != total {
                return incomplete("the list changed while it was read".into());
            }
            let (ended, seen) = (new.is_empty(), rows.len() + new.len());
            rows.extend(new.into_iter().map(|row| (row.supplier_order_id.clone(), row)));
            // An order that is listed twice has pushed another one off the pages.
            if rows.len() != seen || seen > total {
                return incomplete("the list does not add up".into());
            }
            if seen == total {
                return Ok(rows);
            }
            if ended {
                return incomplete(format!("{seen} of {total} orders were listed"));
            }
        }
        incomplete(format!("more than {MAX_PAGES} pages of orders"))
    }

    /// The order that the platform itself finds under our reference. That it finds none says
    /// nothing; that it cannot be asked fails the look-up, unless asking so is not supported.
    async fn order_under(&self, reference: &str) -> Result<Option<UpstreamOrder>, Fault> {
        match self.gateway.call(ORDER, &order::reference_params(reference)).await {
            Ok(answer) => order::order_by_reference(&answer.body),
            Err(Fault::Unknown { code, .. }) if code == PARAM_MISSING => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

/// The order with our reference, where it does not carry another.
fn named(mut order: UpstreamOrder, reference: &str) -> Result<UpstreamOrder, Fault> {
    match order.reference.as_deref() {
        Some(its) if its != reference => {
            let what = format!("order {} is {its}, not {reference}", order.supplier_order_id);
            Err(unknown("look_up_contradiction", what))
        }
        _ => {
            order.reference = Some(reference.to_owned());
            Ok(order)
        }
    }
}
