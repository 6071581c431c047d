//! Logs: to stderr, as text or as one JSON object a line. Set up once, before the settings are read,
//! so that a failed start is logged too; hence by environment alone:
//!
//! - `STOCKHOLD_LOG`: a filter in `tracing-subscriber`'s syntax, default `info` (`error` for the demo);
//! - `STOCKHOLD_LOG_FORMAT`: `text` (default) or `json`.
//!
//! Leaves out metrics (`http::metrics`). A bad value stops the start: a filter that is dropped in
//! silence is found out when the log is needed.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// The environment's name for the filter.
pub const FILTER: &str = "STOCKHOLD_LOG";
/// The environment's name for the format.
pub const FORMAT: &str = "STOCKHOLD_LOG_FORMAT";

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{FILTER}: {0}")]
    Filter(String),
    #[error("{FORMAT} is `text` or `json`, not `{0}`")]
    Format(String),
    /// Somebody has set up logging in this process already.
    #[error("logging is set up already")]
    Twice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

/// Sets up logging for the process from its environment; `default` is the filter where that says
/// nothing.
///
/// # Errors
/// A filter or format that cannot be read, or a second call.
pub fn init(default: &str) -> Result<(), Error> {
    let filter = filter(std::env::var(FILTER).ok().as_deref(), default)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A line that cannot be written (the log's disk is full) is lost; to complain of that on the
    // same stderr would panic in whoever logs.
    let lines = lines.log_internal_errors(false);
    let done = match format(std::env::var(FORMAT).ok().as_deref())? {
        Format::Json => lines.json().flatten_event(true).finish().try_init(),
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).finish().try_init(),
    };
    done.map_err(|_| Error::Twice)
}

fn filter(text: Option<&str>, default: &str) -> Result<EnvFilter, Error> {
    let text = text.map(str::trim).filter(|t| !t.is_empty()).unwrap_or(default);
    EnvFilter::try_new(text).map_err(|e| Error::Filter(e.to_string()))
}

fn format(text: Option<&str>) -> Result<Format, Error> {
    match text {
        None | Some("" | "text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        Some(other) => Err(Error::Format(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_defaults_to_info_and_a_bad_one_is_named() {
        assert_eq!(filter(None, "info").expect("default").to_string(), "info");
        assert_eq!(filter(Some(" "), "error").expect("blank").to_string(), "error");
        let set = filter(Some("warn,stockhold=debug"), "info").expect("a filter").to_string();
        assert!(set.contains("stockhold=debug"), "{set}");
        let error = filter(Some("stockhold=loud"), "info").expect_err("no such level").to_string();
        assert!(error.starts_with("STOCKHOLD_LOG: "), "{error}");
    }

    #[test]
    fn the_format_is_text_or_json() {
        assert_eq!(format(None).expect("default"), Format::Text);
        assert_eq!(format(Some("json")).expect("json"), Format::Json);
        let error = format(Some("xml")).expect_err("no such format").to_string();
        assert_eq!(error, "STOCKHOLD_LOG_FORMAT is `text` or `json`, not `xml`");
    }
}
