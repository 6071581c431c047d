//! A temporary folder for one run, readable by nobody else, removed when it is dropped.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::clock::Clock;
use crate::ids::Ids;

pub struct Folder(PathBuf);

impl Folder {
    /// # Errors
    /// When the system has no room for temporary files.
    pub fn new() -> Result<Folder, String> {
        let name = format!("stockhold-demo-{}", Ids::system().next(Clock::System.now()));
        let path = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_when_it_is_dropped() {
        let folder = Folder::new().expect("a folder");
        let file = folder.write("a.toml", "x = 1").expect("a file");
        assert_eq!(fs::read_to_string(&file).expect("text"), "x = 1");
        drop(folder);
        assert!(!file.exists());
    }
}
