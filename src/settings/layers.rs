//! The four layers of the configuration, merged into one table: built-in, file, environment, flags.
//!
//! What must hold: a later layer wins key by key; tables merge, lists are replaced as a whole, except
//! that the environment reaches into a list by number. `x` in a later layer also replaces `x_file` of
//! an earlier one, and the reverse. Leaves out what the keys mean.

use std::path::PathBuf;

use toml::{Table, Value};

use super::Error;

/// The built-in layer and the reference of all keys.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// What all variables of the configuration begin with.
const PREFIX: &str = "STOCKHOLD_";
/// Variables that begin so and are no keys.
const RESERVED: [&str; 3] = ["STOCKHOLD_CONFIG", "STOCKHOLD_LOG", "STOCKHOLD_LOG_FORMAT"];
const RESERVED_PREFIX: &str = "STOCKHOLD_TEST_";

/// Where the settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config` or `STOCKHOLD_CONFIG`.
    pub file: Option<PathBuf>,
    /// The environment, name and value; names that are not ours are ignored.
    pub environment: Vec<(String, String)>,
    /// `serve --listen`.
    pub listen: Option<String>,
}

impl Sources {
    /// This process's environment, with the given file and flags.
    pub fn of_the_process(file: Option<PathBuf>, listen: Option<String>) -> Sources {
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        let environment = std::env::vars_os()
            .map(|(k, v)| (text(k), text(v)))
            .collect();
        Sources {
            file,
            environment,
            listen,
        }
    }
}

/// The merged table and the variables that named a key.
#[derive(Debug)]
pub(super) struct Merged {
    pub table: Table,
    pub variables: Vec<String>,
}

/// Reads and merges all layers.
pub(super) fn merge(sources: &Sources) -> Result<Merged, Error> {
    let user = match &sources.file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|cause| Error::Read {
            path: path.clone(),
            cause,
        })?,
    };
    let name = sources.file.clone().unwrap_or_default();
    let user = user.strip_prefix('\u{feff}').unwrap_or(&user);
    let user = parse(user).map_err(|cause| Error::Syntax { path: name, cause })?;
    let mut table = parse(DEFAULTS).map_err(|cause| Error::Syntax {
        path: PathBuf::from("config/default.toml"),
        cause,
    })?;
    let pattern = table
        .remove("suppliers")
        .and_then(first_table)
        .unwrap_or_default();
    overlay(&mut table, user);

    let mut steps: Vec<(Vec<Step>, &str, &str)> = (sources.environment.iter())
        .filter_map(|(name, value)| Some((path_of(name)?, name.as_str(), value.as_str())))
        .collect();
    steps.sort();
    let invalid = |origin: &str, fault| Error::Invalid(vec![format!("{origin}: {fault}")]);
    for (path, name, value) in &steps {
        set(&mut table, path, value).map_err(|fault| invalid(name, fault))?;
    }
    if let Some(listen) = &sources.listen {
        let path = [
            Step::Key("server".to_owned()),
            Step::Key("listen".to_owned()),
        ];
        set(&mut table, &path, listen).map_err(|fault| invalid("--listen", fault))?;
    }
    if let Some(Value::Array(suppliers)) = table.get_mut("suppliers") {
        for own in suppliers.iter_mut().filter_map(Value::as_table_mut) {
            let mut whole = pattern.clone();
            overlay(&mut whole, std::mem::take(own));
            *own = whole;
        }
    }
    Ok(Merged {
        table,
        variables: steps
            .iter()
            .map(|(_, name, _)| (*name).to_owned())
            .collect(),
    })
}

/// The variable that sets the key at `path`.
pub(super) fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.to_uppercase().replace('.', "__"))
}

fn parse(text: &str) -> Result<Table, Box<toml::de::Error>> {
    text.parse::<Table>().map_err(Box::new)
}

fn first_table(list: Value) -> Option<Table> {
    match list {
        Value::Array(entries) => match entries.into_iter().next() {
            Some(Value::Table(table)) => Some(table),
            _ => None,
        },
        _ => None,
    }
}

/// Lays `over` on `base`.
fn overlay(base: &mut Table, over: Table) {
    for key in over.keys() {
        drop_other_form(base, key);
    }
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Drops the other way to give a secret (`x`, `x_file`) that a lower layer used.
fn drop_other_form(table: &mut Table, key: &str) {
    match key.strip_suffix("_file") {
        Some(inline) => table.remove(inline),
        None => table.remove(&format!("{key}_file")),
    };
}

/// A step of a variable's path. Numbers sort as numbers, so that entry 2 exists before entry 10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Index(usize),
    Key(String),
}

/// The path that a variable names; `None` when the variable is not a key of ours.
fn path_of(variable: &str) -> Option<Vec<Step>> {
    if RESERVED.contains(&variable) || variable.starts_with(RESERVED_PREFIX) {
        return None;
    }
    let path = variable.strip_prefix(PREFIX)?.to_lowercase();
    let step = |part: &str| match part.parse() {
        Ok(index) => Step::Index(index),
        Err(_) => Step::Key(part.to_owned()),
    };
    Some(path.split("__").map(step).collect())
}

/// Sets one key, making the tables and list entries on the way.
fn set(table: &mut Table, path: &[Step], text: &str) -> Result<(), String> {
    match path {
        [Step::Key(key)] => {
            drop_other_form(table, key);
            table.insert(key.clone(), Value::String(text.to_owned()));
            Ok(())
        }
        [Step::Key(key), rest @ ..] => descend(
            table.entry(key.clone()).or_insert_with(|| container(rest)),
            rest,
            text,
        ),
        _ => Err("names no key".to_owned()),
    }
}

/// The same below a value that may be a list.
fn descend(at: &mut Value, path: &[Step], text: &str) -> Result<(), String> {
    match (at, path) {
        (Value::Table(table), path) => set(table, path, text),
        (Value::Array(list), [Step::Index(index), rest @ ..]) => {
            if *index == list.len() {
                list.push(container(rest));
            }
            let count = list.len();
            let entry = list.get_mut(*index).ok_or_else(|| {
                format!("there is no entry {index}; the list has {count}, numbered from 0")
            })?;
            if rest.is_empty() {
                *entry = Value::String(text.to_owned());
                return Ok(());
            }
            descend(entry, rest, text)
        }
        (Value::Array(_), _) => {
            Err("names an entry of a list by something else than its number".to_owned())
        }
        _ => Err("names no key".to_owned()),
    }
}

/// What a missing value on the way to `rest` is: a list where a number comes next, or else a table.
fn container(rest: &[Step]) -> Value {
    match rest.first() {
        Some(Step::Index(_)) => Value::Array(Vec::new()),
        _ => Value::Table(Table::new()),
    }
}
