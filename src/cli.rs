//! The command line: what can be asked of the binary, and nothing of how it is done.
//!
//! What must hold: `--config` is understood before and after the command; a flag that sets a key of
//! the configuration carries its text as given, so that the key's own check judges it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::bench::What;

/// Holds stock for orders.
#[derive(Debug, Parser)]
#[command(name = "stockhold", version, about, long_about = None)]
pub struct Cli {
    /// The configuration, TOML; every key is optional (see config/default.toml).
    #[arg(long, global = true, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    pub config: Option<PathBuf>,

    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, PartialEq, Subcommand)]
pub enum Command {
    /// Run the daemon.
    Serve {
        /// Address and port, over `[server] listen`.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
    },
    /// Play a busy night against a daemon with a simulated supplier, in a temporary folder; the exit
    /// code says whether every promise held.
    Demo {
        /// Stay up afterwards, until Ctrl-C.
        #[arg(long)]
        keep: bool,
    },
    /// Run a supplier that speaks the 1688 protocol, for trying things out.
    SimulateSupplier {
        /// What it sells and how it misbehaves, TOML.
        #[arg(long, value_name = "FILE")]
        settings: Option<PathBuf>,
        /// Address and port.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<SocketAddr>,
    },
    /// Measure a running daemon: how many requests a second it answers, and how fast.
    Bench {
        /// Where it is; over plain HTTP.
        #[arg(long, value_name = "URL")]
        url: String,
        /// An API key: storefront, or ops with --prepare.
        #[arg(long, value_name = "KEY", env = "STOCKHOLD_BENCH_KEY", hide_env_values = true)]
        key: Option<String>,
        #[arg(long, value_enum, default_value = "place")]
        what: What,
        #[arg(long, default_value_t = 64)]
        connections: usize,
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
        /// Requests a second, sent whether or not the last ones are answered.
        #[arg(long)]
        rate: Option<f64>,
        /// How many SKUs are asked for in turn, BENCH-1 and so on.
        #[arg(long, default_value_t = 1)]
        skus: u32,
        /// Make those SKUs first, with plenty of stock each. Not for a shop that sells.
        #[arg(long)]
        prepare: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Bring the database's schema up to date and stop.
    Migrate,
    /// Note that the store was just restored from a backup, before any daemon is started on it: what
    /// older orders owe (purchases, refunds) is then looked up before it is done.
    RestoreMark,
    /// Check the configuration and print what is in force, without secrets.
    CheckConfig,
    /// The catalogue and its stock as a CSV file.
    #[command(subcommand)]
    Stock(Stock),
    /// Print the OpenAPI document.
    Openapi,
}

/// What to do with the catalogue.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Stock {
    /// Add and change SKUs from a file; a file with any fault changes nothing.
    Import {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Also set warehouse quantities that differ, as counted corrections. Without it they are
        /// only reported.
        #[arg(long)]
        set_quantities: bool,
    },
    /// Write all SKUs to a file.
    Export {
        /// Standard output when absent.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_and_their_flags() {
        let cases = [
            ("stockhold serve", Command::Serve { listen: None }),
            (
                "stockhold serve --listen 0.0.0.0:80",
                Command::Serve { listen: Some("0.0.0.0:80".to_owned()) },
            ),
            ("stockhold demo --keep", Command::Demo { keep: true }),
            (
                "stockhold simulate-supplier --settings s.toml --listen 127.0.0.1:9",
                Command::SimulateSupplier {
                    settings: Some("s.toml".into()),
                    listen: Some(SocketAddr::from(([127, 0, 0, 1], 9))),
                },
            ),
            ("stockhold migrate", Command::Migrate),
            ("stockhold restore-mark", Command::RestoreMark),
            ("stockhold check-config", Command::CheckConfig),
            (
                "stockhold stock import c.csv --set-quantities",
                Command::Stock(Stock::Import { file: "c.csv".into(), set_quantities: true }),
            ),
            ("stockhold stock export", Command::Stock(Stock::Export { file: None })),
            (
                "stockhold stock export c.csv",
                Command::Stock(Stock::Export { file: Some("c.csv".into()) }),
            ),
            ("stockhold openapi", Command::Openapi),
        ];
        for (line, command) in cases {
            assert_eq!(parsed(line).command, command, "{line}");
        }
    }

    #[test]
    fn the_configuration_may_come_before_or_after_the_command() {
        for line in ["stockhold --config a.toml migrate", "stockhold migrate --config a.toml"] {
            assert_eq!(parsed(line).config, Some("a.toml".into()), "{line}");
        }
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for line in
            ["stockhold", "stockhold sell", "stockhold stock import", "stockhold serve --port 1"]
        {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
