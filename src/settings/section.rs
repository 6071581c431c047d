//! Reading one table of the merged configuration key by key.
//!
//! What must hold: a key that nobody asks for is reported by its path; every fault is collected, so
//! that one start shows all of them; a secret is never written where it could be shown. After a fault
//! the getter answers a placeholder: the result counts only when the [`Report`] has no errors.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeBounds;

use secrecy::SecretString;
use toml::{Table, Value};
use url::Url;

use super::layers;
use super::unit::{self, Percent};
use crate::clock::Span;

/// What reading and checking found.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Each names its key; any one stops the start.
    pub errors: Vec<String>,
    /// Legal, but risky.
    pub warnings: Vec<String>,
    /// What is in force, path and value, secrets blanked.
    pub shown: Vec<(String, String)>,
    /// Variables that named a key, so that an unknown key's origin can be told.
    pub variables: Vec<String>,
}

impl Report {
    pub fn error(&mut self, path: &str, fault: impl Display) {
        self.errors.push(format!("`{path}`: {fault}"));
    }

    pub fn warn(&mut self, path: &str, risk: impl Display) {
        self.warnings.push(format!("`{path}`: {risk}"));
    }
}

/// One table that is being read.
pub(super) struct Section<'r> {
    path: String,
    table: Table,
    pub report: &'r mut Report,
}

/// Reads a whole table and reports the keys that `read` did not ask for.
pub(super) fn read_table<T>(
    path: &str,
    table: Table,
    report: &mut Report,
    read: impl FnOnce(&mut Section<'_>) -> T,
) -> T {
    let mut section = Section {
        path: path.to_owned(),
        table,
        report,
    };
    let result = read(&mut section);
    for key in std::mem::take(&mut section.table).keys() {
        let path = section.at(key);
        let variable = layers::variable_of(&path);
        let below = format!("{variable}__");
        let mut variables = section.report.variables.iter();
        let origin = variables.find(|name| **name == variable || name.starts_with(&below));
        let origin = origin
            .map(|name| format!(" (from {name})"))
            .unwrap_or_default();
        section
            .report
            .errors
            .push(format!("unknown key `{path}`{origin}"));
    }
    result
}

impl Section<'_> {
    /// The full path of a key of this table.
    pub fn at(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Records a fault of a key of this table.
    pub fn error(&mut self, key: &str, fault: impl Display) {
        let path = self.at(key);
        self.report.error(&path, fault);
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A table inside this one; an absent one reads as empty.
    pub fn within<T>(&mut self, key: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        match self.table.remove(key) {
            Some(Value::Table(table)) => read_table(&self.at(key), table, self.report, read),
            None => read_table(&self.at(key), Table::new(), self.report, read),
            Some(_) => {
                self.error(key, "must be a table");
                // One fault is told once: what is missing inside it is not.
                read_table(&self.at(key), Table::new(), &mut Report::default(), read)
            }
        }
    }

    /// A list of tables; an absent one is empty.
    pub fn each<T>(&mut self, key: &str, mut read: impl FnMut(&mut Section<'_>) -> T) -> Vec<T> {
        let entries = match self.table.remove(key) {
            None => return Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                self.error(key, "must be a list of tables");
                return Vec::new();
            }
        };
        let mut read_all = Vec::with_capacity(entries.len());
        for (index, entry) in entries.into_iter().enumerate() {
            let path = format!("{}.{index}", self.at(key));
            match entry {
                Value::Table(t) => read_all.push(read_table(&path, t, self.report, &mut read)),
                _ => self.report.error(&path, "must be a table"),
            }
        }
        read_all
    }

    /// Takes a key, shows it, and reads it; `None` when it is absent or wrong.
    fn take<T>(&mut self, key: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let value = self.table.remove(key)?;
        let path = self.at(key);
        match read(&value) {
            Ok(read) => {
                self.report.shown.push((path, value.to_string()));
                Some(read)
            }
            Err(fault) => {
                self.report.error(&path, fault);
                None
            }
        }
    }

    /// Like [`Self::take`] for a key that must be there.
    fn need<T>(&mut self, key: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        if !self.has(key) {
            self.error(key, "is required");
        }
        self.take(key, read)
    }

    /// Text that is not blank.
    pub fn text(&mut self, key: &str) -> String {
        self.need(key, text).unwrap_or_default()
    }

    /// Text that may be absent.
    pub fn optional_text(&mut self, key: &str) -> Option<String> {
        self.take(key, text)
    }

    /// A name that is safe in a path, a log and a file: `[a-z0-9_-]{1,32}`.
    pub fn name(&mut self, key: &str) -> String {
        self.need(key, |value| {
            let name = text(value)?;
            if is_name(&name) {
                Ok(name)
            } else {
                Err(format!("`{name}` must be 1 to 32 of a-z, 0-9, _ and -"))
            }
        })
        .unwrap_or_default()
    }

    pub fn flag(&mut self, key: &str) -> bool {
        self.need(key, |value| match value {
            Value::Boolean(flag) => Ok(*flag),
            Value::String(text) if text == "true" => Ok(true),
            Value::String(text) if text == "false" => Ok(false),
            _ => Err("must be true or false".to_owned()),
        })
        .unwrap_or_default()
    }

    /// A whole number within `range`.
    pub fn integer(&mut self, key: &str, range: impl RangeBounds<i64>) -> i64 {
        self.need(key, |value| integer(value, &range))
            .unwrap_or_default()
    }

    /// A whole number within `range` that may be absent.
    pub fn optional_integer(&mut self, key: &str, range: impl RangeBounds<i64>) -> Option<i64> {
        self.take(key, |value| integer(value, &range))
    }

    /// Shows a value that follows from other keys.
    pub fn derived(&mut self, key: &str, value: i64) -> i64 {
        let path = self.at(key);
        self.report.shown.push((path, value.to_string()));
        value
    }

    /// A duration of at least `least`.
    pub fn span(&mut self, key: &str, least: Span) -> Span {
        self.need(key, |value| {
            let span = unit::span(&text(value)?)?;
            if span >= least {
                Ok(span)
            } else {
                Err(format!("must be at least {}", unit::span_text(least)))
            }
        })
        .unwrap_or_default()
    }

    pub fn percent(&mut self, key: &str) -> Percent {
        self.need(key, |value| unit::percent(&text(value)?))
            .unwrap_or_default()
    }

    pub fn address(&mut self, key: &str) -> SocketAddr {
        self.need(key, |value| {
            let text = text(value)?;
            text.parse().map_err(|_| {
                format!("`{text}` is not an IP address and a port, such as 127.0.0.1:8080")
            })
        })
        .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// One of `built`; `planned` values are known, and refused because nothing does them yet.
    pub fn choice<T: Copy + Default>(
        &mut self,
        key: &str,
        built: &[(&str, T)],
        planned: &[&str],
    ) -> T {
        self.need(key, |value| {
            let text = text(value)?;
            if let Some((_, choice)) = built.iter().find(|(name, _)| *name == text) {
                return Ok(*choice);
            }
            if planned.contains(&text.as_str()) {
                return Err(not_built(&text));
            }
            let names: Vec<&str> = built.iter().map(|(name, _)| *name).collect();
            Err(format!("`{text}` is not one of: {}", names.join(", ")))
        })
        .unwrap_or_default()
    }

    /// An `http` or `https` address; shown without its query and user information, which may be secret.
    pub fn url(&mut self, key: &str) -> String {
        let Some(url) = self.need(key, |value| url(&text(value)?)) else {
            return String::new();
        };
        let shown = format!("\"{}\"", without_secrets(&url));
        if let Some(last) = self.report.shown.last_mut() {
            last.1 = shown;
        }
        url.to_string()
    }

    /// A place to connect to, in any scheme; shown without user information.
    pub fn location(&mut self, key: &str) -> String {
        let location = self.text(key);
        if let (Ok(url), Some(last)) = (Url::parse(&location), self.report.shown.last_mut())
            && (url.password().is_some() || !url.username().is_empty())
        {
            last.1 = format!("\"{}\"", without_secrets(&url));
        }
        location
    }

    /// Drops a key that has been judged already.
    pub fn forget(&mut self, key: &str) {
        self.table.remove(key);
    }

    /// A secret, given as `key` or, by the path of a file, as `key_file`.
    pub fn secret(&mut self, key: &str) -> Option<SecretString> {
        let file_key = format!("{key}_file");
        let path = self.at(key);
        let (given, file) = (self.table.remove(key), self.table.remove(&file_key));
        let (read, shown) = match (given, file) {
            (None, None) => return None,
            (Some(_), Some(_)) => (
                Err(format!("give it or `{file_key}`, not both")),
                String::new(),
            ),
            (Some(value), None) => (text(&value), "(set)".to_owned()),
            (None, Some(file)) => (
                text(&file).and_then(|f| secret_file(&f)),
                format!("(from {file})"),
            ),
        };
        match read {
            Ok(secret) => {
                self.report.shown.push((path, shown));
                Some(SecretString::from(secret))
            }
            Err(fault) => {
                self.report.error(&path, fault);
                None
            }
        }
    }

    /// A secret that must be there.
    pub fn required_secret(&mut self, key: &str) -> SecretString {
        if !self.has(key) && !self.has(&format!("{key}_file")) {
            self.error(key, format!("is required (or `{key}_file`)"));
        }
        self.secret(key).unwrap_or_default()
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &str) -> Vec<String> {
        self.need(key, |value| match value {
            Value::Array(items) => items.iter().map(text).collect(),
            _ => Err("must be a list of texts".to_owned()),
        })
        .unwrap_or_default()
    }
}

/// The refusal of a value that is planned.
pub(super) fn not_built(value: &str) -> String {
    format!("`{value}` is not built yet")
}

/// Whether a text can name a source of stock or a key: `[a-z0-9_-]{1,32}`.
pub fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.trim().is_empty() => Err("must not be blank".to_owned()),
        Value::String(text) => Ok(text.clone()),
        _ => Err("must be text in quotes".to_owned()),
    }
}

fn integer(value: &Value, range: &impl RangeBounds<i64>) -> Result<i64, String> {
    let number = match value {
        Value::Integer(number) => *number,
        // From the environment.
        Value::String(text) => text
            .parse()
            .map_err(|_| "must be a whole number".to_owned())?,
        _ => return Err("must be a whole number".to_owned()),
    };
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("{number} is out of range"))
    }
}

fn url(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err("must be an http:// or https:// address".to_owned()),
    }
}

fn without_secrets(url: &Url) -> String {
    let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
    let more = if url.query().is_some() { "?…" } else { "" };
    format!(
        "{}://{}{port}{}{more}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.path()
    )
}

fn secret_file(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.trim().is_empty() {
        Err(format!("{path} is empty"))
    } else {
        Ok(secret.to_owned())
    }
}
