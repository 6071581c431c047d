//! Placeholder for storage's reads and writes of jobs, until they are there.

use std::collections::BTreeSet;

use super::run::Stop;
use crate::clock::{Span, Timestamp};
use crate::domain::alert::AlertKind;
use crate::domain::job::{Job, JobRequest};
use crate::domain::names::{LevelId, OrderId, SkuKey, SourceId};
use crate::domain::sku::Sku;
use crate::domain::stock::Level;
use crate::engine::Fence;
use crate::storage::Db;

pub type Result<T> = std::result::Result<T, Stop>;

#[derive(Clone, Debug)]
pub struct Claimed {
    pub id: i64,
    pub job: Job,
    pub token: i64,
    pub attempts: i64,
    pub until: Timestamp,
    pub last_error: Option<String>,
}
#[derive(Clone, Debug)]
pub enum Finish {
    Done,
    At(Timestamp),
    Failed { error: String, at: Timestamp },
    Dead { error: String },
    HandBack,
}
pub struct AlertRow {
    pub kind: AlertKind,
    pub subject: String,
    pub detail: String,
    pub opened_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub last_told_at: Timestamp,
}
pub struct Schedule {
    pub name: String,
    pub last_slot: Timestamp,
    pub last_finished_at: Option<Timestamp>,
}

pub async fn claim(
    _: &Db,
    _worker: &str,
    _kinds: &[&str],
    _limit: usize,
    _lease: Span,
    _now: Timestamp,
) -> Result<Vec<Claimed>> {
    Ok(vec![])
}
pub async fn heartbeat(_: &Db, _: Fence, _until: Timestamp, _now: Timestamp) -> Result<bool> {
    Ok(true)
}
pub async fn finish(_: &Db, _: Fence, _: Finish, _now: Timestamp) -> Result<bool> {
    Ok(true)
}
pub async fn owe(_: &Db, _: Vec<JobRequest>, _now: Timestamp) -> Result<()> {
    Ok(())
}
pub async fn overdue_orders(
    _: &Db,
    _until: Timestamp,
    _after: Option<&(Timestamp, OrderId)>,
    _limit: i64,
) -> Result<Vec<(Timestamp, OrderId)>> {
    Ok(vec![])
}
pub async fn levels_of(
    _: &Db,
    _: &SourceId,
    _after: Option<&LevelId>,
    _limit: i64,
) -> Result<Vec<Level>> {
    Ok(vec![])
}
pub async fn skus(_: &Db, _after: Option<&SkuKey>, _limit: i64) -> Result<Vec<(Sku, Vec<Level>)>> {
    Ok(vec![])
}
pub async fn skus_of_levels(_: &Db, _: &[LevelId]) -> Result<Vec<(Sku, Vec<Level>)>> {
    Ok(vec![])
}
pub async fn open_subjects(_: &Db, _: AlertKind) -> Result<BTreeSet<String>> {
    Ok(BTreeSet::new())
}
pub async fn alert(_: &Db, _: i64) -> Result<Option<AlertRow>> {
    Ok(None)
}
pub async fn remind(_: &Db, _every: Span, _now: Timestamp) -> Result<()> {
    Ok(())
}
pub async fn synced(
    _: &Db,
    _: &SourceId,
    _at: Timestamp,
    _outcome: &str,
    _detail: &str,
) -> Result<()> {
    Ok(())
}
pub async fn prune(_: &Db, _now: Timestamp) -> Result<()> {
    Ok(())
}
pub async fn tick(
    _: &Db,
    _name: &str,
    _slot: Timestamp,
    _job: &Job,
    _now: Timestamp,
) -> Result<bool> {
    Ok(true)
}
pub async fn schedules(_: &Db) -> Result<Vec<Schedule>> {
    Ok(vec![])
}
