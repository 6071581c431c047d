//! What is measured, of whom: the cells (a kind of request, connections, SKUs) and the schemes that run
//! in each.

use std::time::Duration;

use serde::Serialize;

use crate::Run;
use crate::schemes::{Failure, Kind};

pub const HELP: &str = "\
CELLS    hot-64 hot-256 hot-1000 (one SKU), spread-64 spread-256 spread-1000 (10,000 SKUs),
         refused (nothing left), reads (availability), single (one client), sell-out (200 units),
         crash (kill -9 under load)
SCHEMES  stockhold-sqlite stockhold-postgres, floor for-update optimistic redis-lock redis-lua,
         bare-sqlite bare-postgres
GROWTH   growth [holds] [catalogue] [sweep] [wave] [memory] [stockhold-sqlite] [stockhold-postgres]";

/// SKUs that are in every store, and that are asked for in a spread cell.
pub const SKUS: u64 = 10_000;
/// Units on the shelf in `sell-out`.
pub const FEW: i64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    Floor,
    ForUpdate,
    Optimistic,
    RedisLock,
    RedisLua,
    BareSqlite,
    BarePostgres,
    StockholdSqlite,
    StockholdPostgres,
}

use Scheme::*;

const OTHERS: [Scheme; 4] = [ForUpdate, Optimistic, RedisLock, RedisLua];
pub const DAEMONS: [Scheme; 2] = [StockholdSqlite, StockholdPostgres];

impl Scheme {
    pub const ALL: [Scheme; 9] = [
        Floor,
        ForUpdate,
        Optimistic,
        RedisLock,
        RedisLua,
        BareSqlite,
        BarePostgres,
        StockholdSqlite,
        StockholdPostgres,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Floor => "floor",
            ForUpdate => "for-update",
            Optimistic => "optimistic",
            RedisLock => "redis-lock",
            RedisLua => "redis-lua",
            BareSqlite => "bare-sqlite",
            BarePostgres => "bare-postgres",
            StockholdSqlite => "stockhold-sqlite",
            StockholdPostgres => "stockhold-postgres",
        }
    }

    pub fn is_daemon(self) -> bool {
        DAEMONS.contains(&self)
    }

    /// What to start this program with; `None` for the daemon.
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            Floor => Kind::Floor,
            ForUpdate => Kind::ForUpdate,
            Optimistic => Kind::Optimistic,
            RedisLock => Kind::RedisLock,
            RedisLua => Kind::RedisLua,
            BareSqlite => Kind::BareSqlite,
            BarePostgres => Kind::BarePostgres,
            StockholdSqlite | StockholdPostgres => return None,
        })
    }

    pub fn on_sqlite(self) -> bool {
        matches!(self, BareSqlite | StockholdSqlite)
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Orders,
    Reads,
}

#[derive(Clone, Debug)]
pub struct Cell {
    pub name: &'static str,
    pub asked: Asked,
    pub connections: usize,
    pub skus: u64,
    /// Units of the first SKU, where it is not plenty.
    pub stock: Option<i64>,
    pub schemes: Vec<Scheme>,
    /// Measured once, and not in every round.
    pub once: bool,
}

pub struct Plan {
    pub rounds: usize,
    pub span: Duration,
    pub cells: Vec<Cell>,
    /// Which daemons are killed under load in each round (or once, if quick).
    pub crashes: Vec<Scheme>,
    pub crash_rounds: usize,
    /// Nothing was left out.
    pub whole: bool,
}

/// # Errors
/// A name that is none.
pub fn plan(run: &Run) -> Result<Plan, Failure> {
    let (rounds, seconds) = if run.quick { (3, 2.0) } else { (5, 3.0) };
    let rounds = run.rounds.unwrap_or(rounds);
    let span = Duration::try_from_secs_f64(run.seconds.unwrap_or(seconds))?;
    let (cells, schemes) = asked_for(&run.names)?;
    let wanted = |cell: &str| cells.is_empty() || cells.iter().any(|name| name == cell);
    let measured = |scheme: &Scheme| schemes.is_empty() || schemes.contains(scheme);
    let mut plan = Plan {
        rounds,
        span,
        cells: all(run.quick).into_iter().filter(|cell| wanted(cell.name)).collect(),
        crashes: DAEMONS.into_iter().filter(|s| wanted("crash") && measured(s)).collect(),
        crash_rounds: if run.quick { 1 } else { rounds },
        whole: run.names.is_empty() && !run.quick,
    };
    for cell in &mut plan.cells {
        cell.schemes.retain(measured);
    }
    Ok(plan)
}

/// The cells and the schemes among the names.
fn asked_for(names: &[String]) -> Result<(Vec<String>, Vec<Scheme>), Failure> {
    let (mut cells, mut schemes) = (Vec::new(), Vec::new());
    for name in names {
        if let Some(scheme) = Scheme::ALL.into_iter().find(|s| s.name() == name) {
            schemes.push(scheme);
        } else if name == "crash" || all(false).iter().any(|cell| cell.name == name) {
            cells.push(name.clone());
        } else {
            return Err(format!("{name} names no cell and no scheme; see --help").into());
        }
    }
    Ok((cells, schemes))
}

fn all(quick: bool) -> Vec<Cell> {
    let orders = |name, connections, skus, schemes: &[Scheme]| Cell {
        name,
        asked: Asked::Orders,
        connections,
        skus,
        stock: None,
        schemes: schemes.to_vec(),
        once: false,
    };
    let hot = [&[Floor][..], &DAEMONS, &OTHERS].concat();
    let spread = [&DAEMONS[..], &OTHERS].concat();
    let mut cells = Vec::new();
    if quick {
        cells.push(orders("hot-256", 256, 1, &hot));
        cells.push(orders("spread-256", 256, SKUS, &DAEMONS));
    } else {
        for (name, n) in [("hot-64", 64), ("hot-256", 256), ("hot-1000", 1_000)] {
            cells.push(orders(name, n, 1, &hot));
        }
        for (name, n) in [("spread-64", 64), ("spread-256", 256), ("spread-1000", 1_000)] {
            cells.push(orders(name, n, SKUS, &spread));
        }
    }
    let reads = [&[Floor][..], &DAEMONS].concat();
    let single = [Floor, BareSqlite, StockholdSqlite, BarePostgres, StockholdPostgres];
    cells.extend([
        Cell { stock: Some(0), ..orders("refused", 256, 1, &DAEMONS) },
        Cell { asked: Asked::Reads, ..orders("reads", 256, 1, &reads) },
        orders("single", 1, 1, &single),
        Cell { stock: Some(FEW), once: true, ..orders("sell-out", 64, 1, &spread) },
    ]);
    cells
}
