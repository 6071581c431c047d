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
            sku.is_some_and(|sku| shortages.iter().any(|short| short.sku == sku.key))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::command::{Placement, PlacementLine};
    use crate::domain::names::LevelId;
    use crate::domain::order::ShortPolicy;
    use crate::domain::outcome::Shortage;
    use crate::domain::sku::{Class, Kind, Paused, Sku, Source, Watermark};
    use crate::domain::stock::Level;
    use crate::engine::Reply;

    /// SKUs `A` (alias `OLD`) and `B`, each with a shelf of its own without a unit, at version 7.
    fn world() -> World {
        let mut world = World::default();
        for key in ["A", "B"] {
            let (key, source) = (SkuKey::from(key), "main".into());
            let level = LevelId::warehouse(&source, &key);
            let shelf = Source {
                source: source.clone(),
                kind: Kind::Warehouse,
                level: level.clone(),
                item: None,
                cost: None,
                currency: None,
                min_quantity: 1,
                pack_size: 1,
                buffer: None,
            };
            world.put_sku(Sku {
                key,
                title: String::new(),
                class: Class::Flash,
                watermark: Watermark::default(),
                sources: vec![shelf],
                paused: Paused::default(),
            });
            world.create_level(Level { version: 7, ..Level::empty(level, source, None) });
        }
        world.put_alias("OLD".into(), "A".into());
        world
    }

    fn placing(skus: &[&str]) -> Envelope {
        let line =
            |sku: &&str| PlacementLine { sku: SkuKey::from(*sku), quantity: 2, unit_price: 1_000 };
        let placement = Placement {
            id: "o".into(),
            channel: "web".into(),
            external_id: "W-1".into(),
            content_hash: String::new(),
            idempotency: None,
            currency: "USD".into(),
            lines: skus.iter().map(line).collect(),
            shipping: 0,
            discount: 0,
            customer: None,
            ship_to: None,
            payment: None,
            short_policy: ShortPolicy::CancelOrder,
        };
        Command::Place(Box::new(placement)).into()
    }

    /// Refused for want of these, of each so many being there.
    fn short(skus: &[(&str, i64)]) -> Result<Reply, Error> {
        let short = |(sku, available): &(&str, i64)| Shortage {
            sku: SkuKey::from(*sku),
            requested: 2,
            available: *available,
        };
        Err(Refusal::InsufficientStock(skus.iter().map(short).collect()).into())
    }

    /// The names found sold out, of a group of these placements with these results.
    fn found(world: &World, group: Vec<(Envelope, Result<Reply, Error>)>) -> String {
        let (commands, results): (Vec<_>, Results) = group.into_iter().unzip();
        let found = sold_out(&commands, &results, world, &Policy::default(), Timestamp(0));
        let told = found.iter().map(|note| {
            assert_eq!(note.versions.values().collect::<Vec<_>>(), [&7]);
            format!("{}={}", note.asked, note.sku)
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn it_is_what_was_refused_and_is_not_there_at_the_end_by_the_names_asked_for() {
        let mut world = world();
        let crowd = || {
            vec![
                // One was left then, which is gone by now.
                (placing(&["A"]), short(&[("A", 1)])),
                (placing(&["A"]), short(&[("A", 0)])),
                (placing(&["OLD"]), short(&[("A", 0)])),
                (placing(&["A", "B"]), short(&[("B", 0)])),
            ]
        };
        assert_eq!(found(&world, crowd()), "A=A B=B OLD=A");
        // A later command of the group gave a unit back.
        let shelf = world.level_mut(&"main:A".into()).expect("a level");
        shelf.quantity = 1;
        assert_eq!(found(&world, crowd()), "B=B");
    }

    #[test]
    fn other_refusals_and_shortages_are_none() {
        let world = world();
        let refused =
            |refusal: Refusal| found(&world, vec![(placing(&["A"]), Err(refusal.into()))]);
        assert_eq!(refused(Refusal::StaleFeed(vec![("A".into(), None)])), "");
        assert_eq!(refused(Refusal::SkuPaused(vec!["A".into()])), "");
        assert_eq!(refused(Refusal::UnknownSku(vec!["A".into()])), "");
        assert_eq!(found(&world, vec![(placing(&["A"]), Err(Error::Overloaded))]), "");
    }
}
