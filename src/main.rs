//! The binary: reads the command line, and hands over.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    stockhold::app::commands::run(stockhold::cli::Cli::parse())
}
