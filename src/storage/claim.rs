//! One process at a time writes to a SQLite file: whoever does holds a lock on `<file>.lock`, in
//! which its number and command stand for others to name. With PostgreSQL there is nothing to
//! claim.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::sqlite::SqliteConnectOptions;

use super::error::{Error, Result};

/// Keeps the claim until dropped (or until the process ends, however it ends).
#[derive(Debug)]
pub struct Claim {
    _file: Option<File>,
}

/// Claims the database file behind `url` for this process.
///
/// # Errors
/// [`Error::Unavailable`] naming the process that has it, or when the lock file cannot be made.
pub fn claim_file(url: &str) -> Result<Claim> {
    if !url.starts_with("sqlite:") {
        return Ok(Claim { _file: None });
    }
    let options = SqliteConnectOptions::from_str(url)?;
    let mut path = options.get_filename().as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let failed =
        |e: std::io::Error| Error::Unavailable(format!("{} cannot be locked: {e}", path.display()));
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process",
                named => named,
            };
            return Err(Error::Unavailable(format!(
                "the database file is in use by {holder} ({})",
                path.display()
            )));
        }
        Err(TryLockError::Error(e)) => return Err(failed(e)),
    }
    file.set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| writeln!(file, "process {} ({})", std::process::id(), command()))
        .and_then(|()| file.flush())
        .map_err(failed)?;
    Ok(Claim { _file: Some(file) })
}

/// Program and sub-command; no further arguments, which may hold secrets.
fn command() -> String {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    match args.next().filter(|a| !a.starts_with('-')) {
        Some(sub) => format!("{name} {sub}"),
        None => name,
    }
}
