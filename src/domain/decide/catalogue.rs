//! SKUs as sellers define them: put, imported, renamed by alias, paused.

use super::{Result, Rules};
use crate::clock::Timestamp;
use crate::domain::command::{Command, ImportRow};
use crate::domain::names::{LevelId, SkuKey, SourceId};
use crate::domain::outcome::{ImportReport, Outcome, Refusal, Stop};
use crate::domain::sku::{Kind, MAX_SOURCES, Pause, Sku, What};
use crate::domain::stock::{Entry, Level, Shift};

/// A setting of the stop switch.
struct Switch<'c> {
    what: What,
    /// Or resume.
    pause: bool,
    reason: &'c str,
    by: &'c str,
}

impl Switch<'_> {
    fn pause_at(&self, now: Timestamp) -> Option<Pause> {
        self.pause.then(|| Pause { at: now, reason: self.reason.to_owned() })
    }
}

impl Rules<'_> {
    pub(super) fn put_sku(&mut self, sku: &Sku) -> Result<Outcome> {
        self.check_sku(sku)?;
        let paused = self.world.skus.get(&sku.key).map(|s| s.paused.clone()).unwrap_or_default();
        self.world.put_sku(Sku { paused, ..sku.clone() });
        self.create_levels(sku);
        self.sku_answer(&sku.key)
    }

    fn check_sku(&self, sku: &Sku) -> Result<()> {
        if self.world.aliases.contains_key(&sku.key) {
            let why = format!("{} is an alias of another SKU", sku.key);
            return Err(Refusal::Conflict("alias", why).into());
        }
        if sku.sources.is_empty() || sku.sources.len() > MAX_SOURCES {
            let message = format!("1 to {MAX_SOURCES} sources");
            return Err(Refusal::invalid("sources", message).into());
        }
        let mark = sku.watermark;
        let (low, recover) =
            (mark.low.unwrap_or(self.policy.low), mark.recover.unwrap_or(i64::MAX));
        if recover <= low {
            return Err(Refusal::invalid("watermark.recover", "must exceed low").into());
        }
        for (i, source) in sku.sources.iter().enumerate() {
            let wrong = |field: &str, message: &str| {
                Err(Stop::Refused(Refusal::invalid(format!("sources[{i}].{field}"), message)))
            };
            if sku.sources.iter().take(i).any(|s| s.source == source.source) {
                return wrong("source", "named twice");
            }
            let known = self.policy.suppliers.contains_key(&source.source);
            match source.kind {
                Kind::Supplier if !known => return wrong("source", "no such supplier"),
                Kind::Supplier if source.item.is_none() => return wrong("offer_id", "is missing"),
                Kind::Warehouse if known => return wrong("kind", "this source is a supplier"),
                _ => {}
            }
            if source.min_quantity < 1 || source.pack_size < 1 {
                return wrong("pack_size", "pack size and minimum are at least 1");
            }
            if source.buffer.is_some_and(|b| b < 0) {
                return wrong("buffer", "must not be negative");
            }
        }
        Ok(())
    }

    fn create_levels(&mut self, sku: &Sku) {
        for source in &sku.sources {
            if !self.world.levels.contains_key(&source.level) {
                let level =
                    Level::empty(source.level.clone(), source.source.clone(), source.item.clone());
                self.world.create_level(level);
            }
        }
    }

    pub(super) fn sku_answer(&self, key: &SkuKey) -> Result<Outcome> {
        let sku = self.world.sku(key).ok_or(Stop::Refused(Refusal::NotFound("SKU")))?;
        let levels = sku.sources.iter().filter_map(|s| self.world.levels.get(&s.level));
        let levels = levels.map(|level| Level::clone(level)).collect();
        Ok(Outcome::Sku(Box::new(sku.clone()), levels))
    }

    /// Applies rows that were checked for form. A shelf count is set only where the level is new;
    /// elsewhere a difference is reported, and corrected only when told to.
    pub(super) fn import(&mut self, rows: &[ImportRow], set_quantities: bool) -> Result<Outcome> {
        let mut report = ImportReport::default();
        for row in rows {
            let new_levels: Vec<_> = row
                .sku
                .sources
                .iter()
                .filter(|s| !self.world.levels.contains_key(&s.level))
                .map(|s| s.level.clone())
                .collect();
            let before = self.world.skus.get(&row.sku.key).cloned();
            let before = before.as_deref();
            let paused = before.map(|s| s.paused.clone()).unwrap_or_default();
            let sku = Sku { paused, ..row.sku.clone() };
            let sku = before.map_or(sku.clone(), |known| sku.keeping(known));
            match before {
                Some(known) if *known == sku => report.unchanged += 1,
                Some(_) => report.updated += 1,
                None => report.created += 1,
            }
            if before != Some(&sku) {
                self.check_sku(&sku)?;
                self.world.put_sku(sku.clone());
            }
            self.create_levels(&sku);
            for (source, units) in &row.quantities {
                let level = sku.sources.iter().find(|s| &s.source == source).map(|s| &s.level);
                let Some(id) = level else { continue };
                let has = self.level(id)?.clone();
                let owes = has.held.saturating_add(has.committed);
                let event = if new_levels.contains(id) {
                    "created"
                } else if has.quantity == *units {
                    continue;
                } else if set_quantities && owes > *units {
                    report.refused.push((row.line, id.clone(), owes, *units));
                    continue;
                } else {
                    report.differences.push((row.line, id.clone(), has.quantity, *units));
                    if !set_quantities {
                        continue;
                    }
                    "correction"
                };
                self.world.shift(Entry {
                    at: self.now,
                    level: id.clone(),
                    sku: Some(sku.key.clone()),
                    order: None,
                    hold: None,
                    event,
                    by: Shift { quantity: units - has.quantity, ..Shift::default() },
                    note: "catalogue import".into(),
                })?;
            }
        }
        Ok(Outcome::Imported(report))
    }

    pub(super) fn add_alias(&mut self, sku: &SkuKey, alias: &SkuKey) -> Result<Outcome> {
        let found = self.world.sku(sku).ok_or(Stop::Refused(Refusal::NotFound("SKU")))?;
        let key = found.key.clone();
        match self.world.sku(alias) {
            Some(other) if other.key != key => {
                let state = if other.key == *alias { "sku" } else { "alias" };
                Err(Refusal::Conflict(state, format!("{alias} is another SKU's")).into())
            }
            Some(_) => self.sku_answer(&key),
            None => {
                self.world.put_alias(alias.clone(), key.clone());
                self.sku_answer(&key)
            }
        }
    }

    /// Pauses with a reason; resumes without. Resuming selling clears the SKU's blocked levels.
    /// The stop switch of a SKU or a supplier.
    pub(super) fn switch(&mut self, command: &Command) -> Result<Outcome> {
        let set = |what: &What, pause, reason, by| Switch { what: *what, pause, reason, by };
        match command {
            Command::PauseSku { sku, what, reason, by } => {
                self.pause_sku(sku, &set(what, true, reason, by))
            }
            Command::ResumeSku { sku, what, reason, by } => {
                self.pause_sku(sku, &set(what, false, reason, by))
            }
            Command::PauseSupplier { supplier, what, reason, by } => {
                self.pause_supplier(supplier, &set(what, true, reason, by))
            }
            Command::ResumeSupplier { supplier, what, reason, by } => {
                self.pause_supplier(supplier, &set(what, false, reason, by))
            }
            _ => Err(Refusal::NotFound("stop switch").into()),
        }
    }

    fn pause_sku(&mut self, sku: &SkuKey, switch: &Switch<'_>) -> Result<Outcome> {
        let found = self.world.sku(sku).ok_or(Stop::Refused(Refusal::NotFound("SKU")))?;
        let mut changed = found.clone();
        let resume = !switch.pause && switch.what != What::Buying;
        changed.paused.set(switch.what, switch.pause_at(self.now));
        let (key, sources) = (changed.key.clone(), changed.sources.clone());
        self.world.put_sku(changed);
        self.wake_what_waited(switch);
        for source in &sources {
            self.tell_switch(source.level.clone(), Some(key.clone()), switch);
        }
        for source in sources.iter().filter(|_| resume) {
            if let Some(level) = self.world.level_mut(&source.level)
                && level.blocked_at.take().is_some()
            {
                self.world.alerts.push(crate::domain::alert::AlertChange::Close {
                    kind: crate::domain::alert::AlertKind::SupplierClosed,
                    subject: source.level.to_string(),
                });
            }
        }
        self.sku_answer(&key)
    }

    fn pause_supplier(&mut self, supplier: &SourceId, switch: &Switch<'_>) -> Result<Outcome> {
        if !self.policy.suppliers.contains_key(supplier) {
            return Err(Refusal::NotFound("supplier").into());
        }
        let mut paused = self.world.suppliers.get(supplier).cloned().unwrap_or_default();
        paused.set(switch.what, switch.pause_at(self.now));
        self.world.put_supplier(supplier.clone(), paused.clone());
        self.wake_what_waited(switch);
        // Of no level: the supplier's own name stands where a level's would.
        self.tell_switch(LevelId::from(supplier.as_str()), None, switch);
        Ok(Outcome::Supplier(paused))
    }

    fn wake_what_waited(&mut self, switch: &Switch<'_>) {
        if !switch.pause && switch.what != What::Selling {
            self.wake_waiting();
        }
    }

    /// Who set the stop switch and why stands in the ledger, where no figure changes by it.
    fn tell_switch(&mut self, level: LevelId, sku: Option<SkuKey>, switch: &Switch<'_>) {
        self.world.ledger.push(Entry {
            at: self.now,
            level,
            sku,
            order: None,
            hold: None,
            event: if switch.pause { "paused" } else { "resumed" },
            by: Shift::default(),
            note: format!("{} by {}: {}", switch.what.as_str(), switch.by, switch.reason),
        });
    }
}
