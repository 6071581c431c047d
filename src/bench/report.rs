//! What was measured: answers by status, and a histogram of their latencies.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::Load;

/// The longest latency that is told apart, microseconds.
const LONGEST: u64 = 600_000_000;

pub struct Report {
    what: &'static str,
    connections: usize,
    rate: Option<f64>,
    /// Microseconds, three digits.
    latencies: Histogram<u64>,
    statuses: BTreeMap<u16, u64>,
    /// Connections that could not be made or broke, with the last reason.
    broken: (u64, Option<String>),
    took: Duration,
}

impl Report {
    /// # Errors
    /// Never, with these bounds.
    pub(super) fn new(load: &Load) -> Result<Report, String> {
        Ok(Report {
            what: load.what,
            connections: load.connections,
            rate: load.rate,
            latencies: Histogram::new_with_max(LONGEST, 3).map_err(|e| e.to_string())?,
            statuses: BTreeMap::new(),
            broken: (0, None),
            took: Duration::ZERO,
        })
    }

    pub(super) fn answered(
        &mut self,
        answer: Result<StatusCode, String>,
        after: Duration,
    ) -> Result<(), String> {
        match answer {
            Ok(status) => {
                *self.statuses.entry(status.as_u16()).or_default() += 1;
                let micros = u64::try_from(after.as_micros()).unwrap_or(LONGEST).min(LONGEST);
                self.latencies.record(micros).map_err(|e| e.to_string())
            }
            Err(why) => {
                self.broken = (self.broken.0 + 1, Some(why));
                Ok(())
            }
        }
    }

    pub(super) fn add(&mut self, other: &Report) -> Result<(), String> {
        for (status, n) in &other.statuses {
            *self.statuses.entry(*status).or_default() += n;
        }
        self.broken.0 += other.broken.0;
        self.broken.1 = other.broken.1.clone().or(self.broken.1.take());
        self.latencies.add(&other.latencies).map_err(|e| e.to_string())
    }

    pub(super) fn took(&mut self, span: Duration) {
        self.took = span;
    }

    /// Answers of that status.
    pub fn status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Answers by status.
    pub fn statuses(&self) -> &BTreeMap<u16, u64> {
        &self.statuses
    }

    /// Answers that did what was asked, or said that there is not enough.
    pub fn worked(&self) -> u64 {
        self.statuses.iter().filter(|(s, _)| matches!(**s, 200..=299 | 409)).map(|(_, n)| n).sum()
    }

    /// Answers that [`worked`](Report::worked), a second.
    pub fn per_second(&self) -> f64 {
        self.worked() as f64 / self.seconds().max(0.001)
    }

    /// From the first request to the last answer.
    pub fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }

    /// Requests that had no answer, since no connection could be made or it broke.
    pub fn broken(&self) -> u64 {
        self.broken.0
    }

    /// The latency, microseconds, that the share `q` of the answers did not exceed.
    pub fn quantile(&self, q: f64) -> u64 {
        self.latencies.value_at_quantile(q)
    }

    fn quantiles(&self) -> [(&'static str, u64); 5] {
        [
            ("p50", self.quantile(0.5)),
            ("p90", self.quantile(0.9)),
            ("p99", self.quantile(0.99)),
            ("p999", self.quantile(0.999)),
            ("max", self.latencies.max()),
        ]
    }

    /// For machines: latencies in microseconds.
    pub fn json(&self) -> Value {
        let latency: serde_json::Map<String, Value> =
            self.quantiles().into_iter().map(|(name, v)| (name.to_owned(), v.into())).collect();
        let statuses: serde_json::Map<String, Value> =
            self.statuses.iter().map(|(status, n)| (status.to_string(), (*n).into())).collect();
        json!({
            "what": self.what,
            "connections": self.connections,
            "rate": self.rate,
            "seconds": self.took.as_secs_f64(),
            "per_second": self.per_second(),
            "statuses": statuses,
            "broken": self.broken.0,
            "latency_us": latency,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.rate {
            Some(rate) => format!("open, {rate} a second"),
            None => "closed".to_owned(),
        };
        writeln!(f, "{} connections, {how}, {:.1} s", self.connections, self.took.as_secs_f64())?;
        writeln!(f, "{:>10.0} answers a second", self.per_second())?;
        for (status, n) in &self.statuses {
            writeln!(f, "{n:>10} answered {status}")?;
        }
        if let (n @ 1.., Some(why)) = &self.broken {
            writeln!(f, "{n:>10} broken: {why}")?;
        }
        for (name, micros) in self.quantiles() {
            writeln!(f, "{:>10.3} ms {name}", micros as f64 / 1_000.0)?;
        }
        Ok(())
    }
}
