//! The binary: reads the command line, and hands over.

use std::process::ExitCode;

use clap::Parser;

/// Requests and their transactions allocate in one thread and free in another, which the system's
/// allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stockhold::app::commands::run(stockhold::cli::Cli::parse())
}
