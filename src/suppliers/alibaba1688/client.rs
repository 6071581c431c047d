//! The supplier port over the 1688 gateway.
//!
//! What must hold: each method is one question, translated there and back; nothing is judged here.
//! 1688 states no time of reading, so `stated_at` is always empty.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use futures::StreamExt;
use tokio::sync::watch;

use super::gateway::{Answer, Gateway};
use super::tokens::Tokens;
use super::wire::{
    CANCEL, CREATE, OFFER, ORDER, PREVIEW, cancel, create, offer, order, preview, purchase,
};
use super::{Error, Terms};
use crate::clock::{Clock, Span, Timestamp};
use crate::domain::supply::{
    Created, Fault, Figure, Item, Preview, PurchaseRequest, Reading, UpstreamOrder,
};
use crate::suppliers::Supplier;

/// Offers asked for at the same time; the pace is set by `max_requests_per_second`.
const FEED_CALLS: usize = 4;

/// One 1688 account as a supplier.
pub struct Alibaba1688 {
    pub(super) gateway: Gateway,
    pub(super) clock: Clock,
    pub(super) page_size: u32,
    flow: String,
}

/// One offer asked for, however it ended.
struct Asked {
    offer: Result<offer::Offer, Fault>,
    sent_at: Timestamp,
    received_at: Timestamp,
}

impl Alibaba1688 {
    /// # Errors
    /// When the gateway is not an http(s) address or no HTTP client can be had.
    pub fn new(terms: Terms) -> Result<Alibaba1688, Error> {
        Ok(Alibaba1688 {
            gateway: Gateway::new(&terms)?,
            clock: terms.clock,
            page_size: terms.page_size.max(1),
            flow: terms.flow,
        })
    }

    /// The tokens in use, and every later pair: to be kept over a restart.
    pub fn tokens(&self) -> watch::Receiver<Tokens> {
        self.gateway.session.subscribe()
    }

    async fn asked(&self, offer_id: &str) -> Asked {
        let began_at = self.clock.now();
        match self.gateway.call(OFFER, &offer::params(offer_id)).await {
            Ok(Answer { body, sent_at, received_at }) => {
                Asked { offer: offer::answer(&body, offer_id), sent_at, received_at }
            }
            Err(fault) => {
                Asked { offer: Err(fault), sent_at: began_at, received_at: self.clock.now() }
            }
        }
    }
}

impl Asked {
    fn reading(&self, item: &Item) -> Reading {
        let figure = match &self.offer {
            Ok(offer) => offer.figure(item.spec_id.as_deref()),
            Err(fault) => Figure::Unknown(fault.to_string()),
        };
        Reading {
            item: item.clone(),
            figure,
            stated_at: None,
            sent_at: self.sent_at,
            received_at: self.received_at,
        }
    }
}

fn retry_after(fault: &Fault) -> Option<Span> {
    match fault {
        Fault::Unknown { retry_after, .. } => *retry_after,
        _ => None,
    }
}

#[async_trait]
impl Supplier for Alibaba1688 {
    async fn feed(&self, items: &[Item]) -> Result<Vec<Reading>, Fault> {
        let offers: BTreeSet<String> = items.iter().map(|item| item.offer_id.clone()).collect();
        let asked: HashMap<String, Asked> = futures::stream::iter(offers)
            .map(|offer_id| async move {
                let asked = self.asked(&offer_id).await;
                (offer_id, asked)
            })
            .buffer_unordered(FEED_CALLS)
            .collect()
            .await;
        if !asked.is_empty() && asked.values().all(|a| a.offer.is_err()) {
            let faults = asked.into_values().filter_map(|a| a.offer.err());
            return faults.max_by_key(retry_after).map_or(Ok(vec![]), Err);
        }
        let read = |item: &Item| asked.get(&item.offer_id).map(|a| a.reading(item));
        Ok(items.iter().filter_map(read).collect())
    }

    async fn ask(&self, item: &Item) -> Result<Reading, Fault> {
        let asked = self.asked(&item.offer_id).await;
        let reading = asked.reading(item);
        asked.offer.map(|_| reading)
    }

    async fn preview(&self, purchase: &PurchaseRequest) -> Result<Preview, Fault> {
        let params = purchase::preview_params(purchase, &self.flow)?;
        preview::preview(&self.gateway.call(PREVIEW, &params).await?.body)
    }

    async fn create(&self, purchase: &PurchaseRequest) -> Result<Created, Fault> {
        let params = purchase::create_params(purchase, &self.flow)?;
        create::created(&self.gateway.call(CREATE, &params).await?.body, purchase)
    }

    async fn look_up(&self, reference: &str) -> Result<Vec<UpstreamOrder>, Fault> {
        self.orders_of(reference).await
    }

    async fn order(&self, supplier_order_id: &str) -> Result<UpstreamOrder, Fault> {
        let answer = self.gateway.call(ORDER, &order::params(supplier_order_id)).await?;
        order::order(&answer.body, supplier_order_id)
    }

    async fn cancel(&self, supplier_order_id: &str) -> Result<(), Fault> {
        let params = cancel::params(supplier_order_id);
        cancel::cancelled(&self.gateway.call(CANCEL, &params).await?.body)
    }
}
