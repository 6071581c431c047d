//! What a group found sold out: the SKUs that its placements were refused for want of stock, judged
//! again by the world as the group leaves it, since a later command may have given units back.

use std::collections::BTreeSet;

use super::group::Results;
use super::{Envelope, Error};
use crate::clock::Timestamp;
use crate::domain::availability::{self, SoldOut};
use crate::domain::command::Command;
use crate::domain::names::SkuKey;
use crate::domain::outcome::Refusal;
use crate::domain::policy::Policy;
use crate::domain::world::World;

/// By the names that the refused placements asked for, each once.
pub(super) fn sold_out(
    commands: &[Envelope],
    results: &Results,
    world: &World,
    policy: &Policy,
    now: Timestamp,
) -> Vec<SoldOut> {
    let refused = commands.iter().zip(results).filter_map(|(envelope, result)| {
        match (&envelope.command, result) {
            (
                Command::Place(placement),
                Err(Error::Refused(Refusal::InsufficientStock(shortages))),
            ) => Some((&placement.lines, shortages)),
            _ => None,
        }
    });
    let mut asked: BTreeSet<&SkuKey> = BTreeSet::new();
    for (lines, shortages) in refused {
        let short = |asked: &&SkuKey| {
            let sku = world.sku(asked);
            sku.is_some_and(|sku| {
                shortages.iter().any(|short| short.sku == sku.key && short.available == 0)
            })
        };
        asked.extend(lines.iter().map(|line| &line.sku).filter(short));
    }
    let judged = asked.into_iter().filter_map(|asked| {
        let sku = world.sku(asked)?;
        let versions = availability::sold_out(policy, &world.suppliers, &world.levels, now, sku)?;
        Some(SoldOut { asked: asked.clone(), sku: sku.key.clone(), versions })
    });
    judged.collect()
}
