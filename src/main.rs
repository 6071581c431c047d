//! The binary: reads the command line, and hands over.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use stockhold::cli::{Cli, Command};
use stockhold::settings::{self, Sources};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::CheckConfig => check_config(cli.config),
        other => {
            eprintln!("stockhold: this build does not do that: {other:?}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what is in force on stdout, warnings and faults on stderr.
fn check_config(file: Option<PathBuf>) -> ExitCode {
    match settings::load(&Sources::of_the_process(file, None)) {
        Ok(loaded) => {
            print!("{}", loaded.redacted());
            for warning in &loaded.warnings {
                eprintln!("warning: {warning}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stockhold: {error}");
            ExitCode::FAILURE
        }
    }
}
