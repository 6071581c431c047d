//! Goods that leave: the warehouse's by call, the supplier's as the supplier tells.

use super::{Result, Rules};
use crate::domain::names::{OrderId, PurchaseId};
use crate::domain::order::{HoldState, Shipment, State};
use crate::domain::outcome::{Outcome, Refusal, Stop, Touch};
use crate::domain::supply::Parcel;

impl Rules<'_> {
    pub(super) fn ship(
        &mut self,
        id: &OrderId,
        lines: &[(i64, i64)],
        carrier: &str,
        tracking_number: &str,
    ) -> Result<Outcome> {
        if self.order(id)?.state != State::Confirmed {
            return Err(self.conflict(id, "only a confirmed order ships"));
        }
        if self.order(id)?.cancel_requested.is_some() {
            return Err(self.conflict(id, "its cancellation is under way"));
        }
        for (line, quantity) in lines {
            self.ship_line(id, *line, *quantity)?;
        }
        let shipment = Shipment {
            at: self.now,
            lines: lines.to_vec(),
            carrier: carrier.to_owned(),
            tracking_number: tracking_number.to_owned(),
        };
        self.order_mut(id)?.shipments.push(shipment);
        self.tell(id, "shipment", format!("{carrier} {tracking_number}"))?;
        self.advance(id)?;
        self.answer(id, Touch::Changed)
    }

    /// Ships units of a line's sold warehouse shares; a share shipped in part is cut in two.
    fn ship_line(&mut self, id: &OrderId, line: i64, quantity: i64) -> Result<()> {
        self.order(id)?.line(line).ok_or(Stop::Refused(Refusal::NotFound("line")))?;
        let sold = self
            .holds(id, |h| h.line == line && !h.is_supplier() && h.state == HoldState::Committed)?;
        let mut left = quantity;
        for key in sold {
            let units = self.hold(id, key)?.quantity.min(left);
            if units > 0 {
                let off = self.cut(id, key, units)?;
                self.step(id, off, HoldState::Settled)?;
                left -= units;
            }
        }
        if left > 0 {
            let why = format!("line {line} has {} warehouse units to ship", quantity - left);
            return Err(Refusal::QuantityExceeded(why).into());
        }
        self.add_shipped(id, line, quantity)
    }

    fn add_shipped(&mut self, id: &OrderId, line: i64, units: i64) -> Result<()> {
        if let Some(l) = self.order_mut(id)?.lines.iter_mut().find(|l| l.no == line) {
            // What was cancelled and comes all the same is a matter of returns.
            l.shipped = l.shipped.saturating_add(units).min(l.kept());
        }
        Ok(())
    }

    /// The supplier shipped a purchase: its lines are with the customer soon.
    pub(super) fn supplier_shipped(
        &mut self,
        id: &OrderId,
        purchase: &PurchaseId,
        parcels: &[Parcel],
    ) -> Result<()> {
        // A cancelled order's goods that come all the same are a matter of returns.
        let ended = self.order(id)?.is_end();
        let lines = self.purchase(id, purchase)?.trail.lines.clone();
        let placed = lines.iter().filter(|l| !ended && l.result.as_deref() == Some("placed"));
        for line in placed {
            self.add_shipped(id, line.share.line, line.share.quantity)?;
        }
        let detail: Vec<String> =
            parcels.iter().map(|p| format!("{} {}", p.carrier, p.tracking_number)).collect();
        self.tell(id, "shipment", detail.join(", "))
    }

    pub(super) fn complete(&mut self, id: &OrderId) -> Result<Outcome> {
        match self.order(id)?.state {
            State::Completed => {}
            State::Shipped => self.completed(id)?,
            _ => return Err(self.conflict(id, "not all of it is shipped")),
        }
        self.answer(id, Touch::Changed)
    }

    pub(super) fn completed(&mut self, id: &OrderId) -> Result<()> {
        self.tell(id, "order_completed", "")?;
        self.enter(id, State::Completed, None)
    }
}
