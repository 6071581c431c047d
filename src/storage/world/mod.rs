//! What a group of commands names, loaded under lock as a [`World`], and what its decisions made of
//! it, saved by difference.
//!
//! What must hold: locks are taken in one order (orders by id, then levels by id), nothing is
//! decided on a row read before its lock (but for [`Placing`], whose levels must be of the revision that was
//! known), and the number of statements does not grow with the group.

mod find;
mod items;
mod load;
mod orders;
mod save;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use crate::domain::order::Order;
use crate::domain::sku::{Paused, Sku};
use crate::domain::stock::Level;
use crate::domain::world::World;

pub use load::{catalogue, load};
pub use orders::orders_by_id;
pub use save::{Placed, Placing, Saved, save};

/// A loaded world, and what it was.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub world: World,
    pub before: Before,
    /// The server's clock once all was locked; `None` with SQLite.
    pub server_time: Option<Timestamp>,
}

/// The rows as they were loaded, to find what changed.
#[derive(Clone, Debug, Default)]
pub struct Before {
    orders: BTreeMap<OrderId, Arc<Order>>,
    levels: BTreeMap<LevelId, Arc<Level>>,
    skus: BTreeMap<SkuKey, Arc<Sku>>,
    aliases: BTreeMap<SkuKey, SkuKey>,
    suppliers: BTreeMap<SourceId, Paused>,
}

impl Before {
    /// Nothing was decided that needs saving.
    pub fn is_same(&self, world: &World) -> bool {
        world.ledger.is_empty()
            && world.jobs.is_empty()
            && world.alerts.is_empty()
            && self.orders == world.orders
            && self.levels == world.levels
            && self.skus == world.skus
            && self.aliases == world.aliases
            && self.suppliers == world.suppliers
    }

    /// The levels that are not as they were loaded, as they are.
    pub fn changed_levels<'a>(&'a self, world: &'a World) -> impl Iterator<Item = &'a Arc<Level>> {
        world.levels.values().filter(|level| self.levels.get(&level.id) != Some(level))
    }

    /// SKUs, aliases or stop switches are not as they were loaded.
    pub fn has_other_catalogue(&self, world: &World) -> bool {
        self.skus != world.skus
            || self.aliases != world.aliases
            || self.suppliers != world.suppliers
    }

    fn of(world: &World) -> Before {
        Before {
            orders: world.orders.clone(),
            levels: world.levels.clone(),
            skus: world.skus.clone(),
            aliases: world.aliases.clone(),
            suppliers: world.suppliers.clone(),
        }
    }
}
