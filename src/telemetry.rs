//! Logs: to stderr, as text or as one JSON object a line. Set up once, before the settings are read,
//! so that a failed start is logged too; hence by environment alone:
//!
//! - `STOCKHOLD_LOG`: a filter in `tracing-subscriber`'s syntax, default `info` (`error` for the demo);
//! - `STOCKHOLD_LOG_FORMAT`: `text` (default) or `json`.
//!
//! Every line that is written for a request names it ([`REQUEST`]): not by a span, which would cost each
//! request, lines or none, as much as reading it.
//!
//! Leaves out metrics (`http::metrics`). A bad value stops the start: a filter that is dropped in
//! silence is found out when the log is needed.

use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;

use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{self, DefaultFields, JsonFields, Writer};
use tracing_subscriber::fmt::{
    FmtContext, FormatEvent, FormatFields, MakeWriter, SubscriberBuilder,
};
use tracing_subscriber::registry::LookupSpan;
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

tokio::task_local! {
    /// The request that the task works on.
    pub static REQUEST: Request;
}

/// What a line tells of the request that it was written for.
pub struct Request {
    pub id: String,
    pub method: String,
    pub route: String,
    /// The name of the API key that it came with.
    pub key: Option<Arc<str>>,
}

impl Request {
    fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Request { id, method, route, key } = self;
        let of_all = [("request.id", &**id), ("http.method", method), ("http.route", route)];
        of_all.into_iter().chain(key.iter().map(|key| ("api_key.name", &**key)))
    }
}

/// Lines as `F` writes them, with the request that they were written for at their end.
struct WithRequest<F> {
    lines: F,
    format: Format,
}

impl<S, N, F> FormatEvent<S, N> for WithRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let written = REQUEST.try_with(|request| {
            let mut line = String::new();
            self.lines.format_event(context, Writer::new(&mut line), event)?;
            writer.write_str(&named(&line, request, self.format))
        });
        written.unwrap_or_else(|_| self.lines.format_event(context, writer.by_ref(), event))
    }
}

/// A line with the request's fields at its end.
fn named(line: &str, request: &Request, format: Format) -> String {
    let line = line.trim_end_matches('\n');
    match format {
        Format::Text => {
            let fields = request.fields().map(|(name, value)| format!(" {name}={value}"));
            format!("{line}{}\n", fields.collect::<String>())
        }
        Format::Json => {
            let line = line.strip_suffix('}').unwrap_or(line);
            let field = |(name, value)| format!(",\"{name}\":{}", serde_json::Value::from(value));
            format!("{line}{}}}\n", request.fields().map(field).collect::<String>())
        }
    }
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
        Format::Json => in_json(lines).finish().try_init(),
        Format::Text => in_text(lines, std::io::stderr().is_terminal()).finish().try_init(),
    };
    done.map_err(|_| Error::Twice)
}

type Lines<N, E, W> = SubscriberBuilder<N, E, EnvFilter, W>;

fn in_text<W: for<'w> MakeWriter<'w> + 'static>(
    lines: Lines<DefaultFields, format::Format, W>,
    colours: bool,
) -> Lines<DefaultFields, WithRequest<format::Format>, W> {
    lines.with_ansi(colours).map_event_format(|lines| WithRequest {
        lines: lines.with_ansi(colours),
        format: Format::Text,
    })
}

fn in_json<W: for<'w> MakeWriter<'w> + 'static>(
    lines: Lines<DefaultFields, format::Format, W>,
) -> Lines<JsonFields, WithRequest<format::Format<format::Json>>, W> {
    let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
    lines.map_event_format(|lines| WithRequest { lines, format: Format::Json })
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
    fn a_line_written_for_a_request_names_it_and_others_do_not() {
        use std::io::Write;
        use std::sync::Mutex;

        #[derive(Clone, Default)]
        struct Log(Arc<Mutex<Vec<u8>>>);
        impl Write for Log {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().expect("a log").write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let request = |key: Option<&str>| Request {
            id: "r-\"1\"".into(),
            method: "GET".into(),
            route: "/v1/orders/{id}".into(),
            key: key.map(Into::into),
        };
        let say = || tracing::error!(panic = "p", "a handler panicked");
        for format in [Format::Text, Format::Json] {
            let log = Log::default();
            let writer = log.clone();
            let lines = tracing_subscriber::fmt().with_env_filter(EnvFilter::new("info"));
            let lines = lines.with_writer(move || writer.clone());
            let set = match format {
                Format::Text => tracing::subscriber::set_default(in_text(lines, false).finish()),
                Format::Json => tracing::subscriber::set_default(in_json(lines).finish()),
            };
            say();
            REQUEST.sync_scope(request(Some("shop")), say);
            REQUEST.sync_scope(request(None), say);
            drop(set);
            let text = String::from_utf8(log.0.lock().expect("a log").clone()).expect("a text");
            let [nobodys, shops, keyless] = text.lines().collect::<Vec<_>>()[..] else {
                panic!("three lines: {text}")
            };
            match format {
                Format::Text => {
                    assert!(nobodys.ends_with(": a handler panicked panic=\"p\""), "{nobodys}");
                    let end = ": a handler panicked panic=\"p\" request.id=r-\"1\" http.method=GET \
                        http.route=/v1/orders/{id}";
                    assert!(shops.ends_with(&format!("{end} api_key.name=shop")), "{shops}");
                    assert!(keyless.ends_with(end), "{keyless}");
                }
                Format::Json => {
                    let read = |line| -> serde_json::Value {
                        serde_json::from_str(line).expect("an object a line")
                    };
                    let (nobodys, shops) = (read(nobodys), read(shops));
                    assert_eq!(nobodys["message"], "a handler panicked");
                    assert_eq!(nobodys.get("request.id"), None);
                    assert_eq!(shops["message"], "a handler panicked");
                    assert_eq!(shops["request.id"], "r-\"1\"");
                    assert_eq!(shops["http.method"], "GET");
                    assert_eq!(shops["http.route"], "/v1/orders/{id}");
                    assert_eq!(shops["api_key.name"], "shop");
                    assert_eq!(read(keyless).get("api_key.name"), None);
                }
            }
        }
    }

    #[test]
    fn the_format_is_text_or_json() {
        assert_eq!(format(None).expect("default"), Format::Text);
        assert_eq!(format(Some("json")).expect("json"), Format::Json);
        let error = format(Some("xml")).expect_err("no such format").to_string();
        assert_eq!(error, "STOCKHOLD_LOG_FORMAT is `text` or `json`, not `xml`");
    }
}
