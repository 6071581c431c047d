//! From samples to ratios: each is taken within a round, between neighbours in time, and the median of
//! the rounds is told with the smallest and the largest.

use serde::Serialize;

use crate::cells::{DAEMONS, Scheme};
use crate::rounds::Sample;

/// The middle, the smallest and the largest of some figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// `None` of no figures.
pub fn spread(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = |n: usize| figures.get(n).copied();
    let half = figures.len() / 2;
    let median = if figures.len() % 2 == 1 {
        middle(half)?
    } else {
        (middle(half.checked_sub(1)?)? + middle(half)?) / 2.0
    };
    Some(Spread { median, min: *figures.first()?, max: *figures.last()? })
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// A ratio over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub what: String,
    #[serde(flatten)]
    pub spread: Spread,
    pub target: Option<Target>,
    /// Of the median.
    pub met: Option<bool>,
}

type Figure = fn(&Sample) -> f64;

const RATE: Figure = |s| s.per_second;
const P50: Figure = |s| s.p50_us as f64;
const P99: Figure = |s| s.p99_us as f64;

struct Ratios<'a> {
    samples: &'a [Sample],
    found: Vec<Ratio>,
}

impl Ratios<'_> {
    /// `of` divided by `by`, both as (cell, scheme, figure); left out where one was not measured.
    fn add(
        &mut self,
        what: String,
        of: (&str, Scheme, Figure),
        by: (&str, Scheme, Figure),
        target: Option<Target>,
    ) {
        let find = |(cell, scheme, figure): (&str, Scheme, Figure), round: usize| {
            let same = |s: &&Sample| s.cell == cell && s.scheme == scheme && s.round == round;
            self.samples.iter().find(same).map(figure)
        };
        let rounds = self.samples.iter().map(|s| s.round + 1).max().unwrap_or(0);
        let quotients =
            (0..rounds).filter_map(|round| Some(find(of, round)? / find(by, round)?.max(1e-9)));
        let Some(spread) = spread(quotients) else { return };
        let met = target.map(|target| match target {
            Target::AtLeast(least) => spread.median >= least,
            Target::AtMost(most) => spread.median <= most,
        });
        self.found.push(Ratio { what, spread, target, met });
    }
}

/// Every ratio of the run, the promised ones with their targets.
pub fn ratios(samples: &[Sample]) -> Vec<Ratio> {
    use Scheme::{
        BarePostgres, BareSqlite, Floor, ForUpdate, Optimistic, RedisLock, RedisLua,
        StockholdPostgres, StockholdSqlite,
    };
    use Target::{AtLeast, AtMost};
    let mut ratios = Ratios { samples, found: Vec::new() };
    let cells = [
        ("hot-64", "hot-64"),
        ("hot-256", "hot-256"),
        ("hot-1000", "hot-1000"),
        ("spread-64", "hot-64"),
        ("spread-256", "hot-256"),
        ("spread-1000", "hot-1000"),
    ];
    for (daemon, least) in [(StockholdSqlite, 0.35), (StockholdPostgres, 0.20)] {
        for (cell, floor) in cells {
            let target = floor.ends_with("-256").then_some(AtLeast(least));
            let what = format!("{} / floor, orders a second, {cell}", daemon.name());
            ratios.add(what, (cell, daemon, RATE), (floor, Floor, RATE), target);
        }
    }
    let others = [
        (ForUpdate, Some(AtLeast(25.0))),
        (Optimistic, Some(AtLeast(40.0))),
        (RedisLock, None),
        (RedisLua, Some(AtLeast(0.8))),
    ];
    for (other, target) in others {
        for (cell, floor) in cells {
            // On the hot SKU; loose write-behind is to be kept up with everywhere.
            let target = target.filter(|_| cell == floor || other == RedisLua);
            let what = format!("stockhold-postgres / {}, orders a second, {cell}", other.name());
            ratios.add(what, (cell, StockholdPostgres, RATE), (cell, other, RATE), target);
        }
    }
    for daemon in DAEMONS {
        let name = daemon.name();
        for cell in ["hot-256", "spread-256"] {
            let what = format!("{name}: p99 / p50, {cell}");
            ratios.add(what, (cell, daemon, P99), (cell, daemon, P50), Some(AtMost(4.0)));
        }
        let what = format!("{name} / floor, sold-out refusals a second, 256 connections");
        let floor = ("hot-256", Floor, RATE);
        ratios.add(what, ("refused", daemon, RATE), floor, Some(AtLeast(0.5)));
        let what = format!("{name} / floor, availability reads a second, 256 connections");
        let floor = ("reads", Floor, RATE);
        ratios.add(what, ("reads", daemon, RATE), floor, Some(AtLeast(0.6)));
    }
    for (daemon, bare) in [(StockholdSqlite, BareSqlite), (StockholdPostgres, BarePostgres)] {
        let what = format!("{} / {}, a single client's p50", daemon.name(), bare.name());
        let (of, by) = (("single", daemon, P50), ("single", bare, P50));
        ratios.add(what, of, by, Some(AtMost(1.3)));
    }
    ratios.found
}
