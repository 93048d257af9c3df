//! Whether a replica's file can be torn: a small file of its own beside it, `data.replica`.
//!
//! A replica commits without a sync. That is safe as long as the page cache lives, which is as long
//! as the machine's boot has the same id; and when all was synced at the end. Everything else may
//! have left any mix of old and new pages behind. The walk at open (see [`pages`](super::pages)) is
//! not meant to be led through the worst of it each time.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::OpenReason;
use crate::map::sync_directory;

const NAME: &str = "data.replica";

/// In place of a boot's id, which is a UUID.
const REFUSED: &str = "refused";

/// What is said of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// The boot of the machine in which the store was opened; `None` where the system has no id.
    pub(crate) boot: Option<String>,
    /// The transaction that it was closed with, when it was.
    pub(crate) closed: Option<u64>,
}

/// What was found beside a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Marked {
    Nothing,
    Unreadable,
    Known(Mark),
}

impl Mark {
    /// Of a store that is open from now on.
    pub(crate) fn open() -> Mark {
        Mark { boot: sys::machine::boot_id(), closed: None }
    }

    /// Of a store that the disk did not keep.
    pub(crate) fn refused() -> Mark {
        Mark { boot: Some(REFUSED.into()), closed: None }
    }

    /// Of a store that was closed after `transaction`, all of it synced.
    pub(crate) fn closed(transaction: u64) -> Mark {
        Mark { closed: Some(transaction), ..Mark::open() }
    }

    /// Whether `dir` was ever a replica's.
    pub(crate) fn is_in(dir: &Path) -> bool {
        path(dir).exists()
    }

    /// Replaces the mark in `dir`. It is on the disk when this returns: a machine that dies must
    /// not bring back the mark before.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let partial = dir.join(format!("{NAME}.partial"));
        let mut file = File::create(&partial)?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path(dir))?;
        sync_directory(dir)
    }

    /// Why the file may be torn.
    pub(crate) fn distrust(&self) -> Option<&'static str> {
        match self {
            Mark { closed: Some(_), .. } => None,
            Mark { boot: None, .. } => Some("it was not closed, and the system has no boot id"),
            Mark { boot, .. } if *boot == Mark::open().boot => None,
            Mark { boot, .. } if *boot == Mark::refused().boot => Some("the disk did not keep it"),
            Mark { .. } => Some("the machine stopped before it was closed"),
        }
    }

    fn text(&self) -> String {
        let boot = self.boot.as_deref().unwrap_or("-");
        let closed = self.closed.map_or("no".into(), |transaction| transaction.to_string());
        let text = format!(
            "data.mdb is a replica of a cluster's graph: leave this beside it.\n\
             boot {boot}\nclosed {closed}\n"
        );
        format!("{text}checksum {:016x}\n", xxh3_64(text.as_bytes()))
    }

    fn parse(bytes: &[u8]) -> Option<Mark> {
        let text = str::from_utf8(bytes).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let boot = Some(field("boot ")?).filter(|&boot| boot != "-").map(str::to_owned);
        let closed = match field("closed ")? {
            "no" => None,
            transaction => Some(transaction.parse().ok()?),
        };
        let mark = Mark { boot, closed };
        (mark.text() == text).then_some(mark)
    }
}

impl Marked {
    pub(crate) fn read(dir: &Path) -> Result<Marked, OpenReason> {
        match fs::read(path(dir)) {
            Ok(bytes) => Ok(Mark::parse(&bytes).map_or(Marked::Unreadable, Marked::Known)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Marked::Nothing),
            Err(error) => Err(OpenReason::Directory(error)),
        }
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_read_back_and_any_other_byte_makes_it_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Marked::read(dir.path()).unwrap(), Marked::Nothing);
        for mark in [Mark::open(), Mark::closed(7), Mark { boot: None, closed: None }] {
            mark.write(dir.path()).unwrap();
            assert_eq!(Marked::read(dir.path()).unwrap(), Marked::Known(mark));
        }
        let whole = fs::read(path(dir.path())).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(path(dir.path()), damaged).unwrap();
            assert_eq!(Marked::read(dir.path()).unwrap(), Marked::Unreadable, "byte {at}");
        }
    }

    #[test]
    fn mark_is_trusted_after_a_close_and_within_one_boot() {
        assert_eq!(Mark::open().distrust(), None);
        let elsewhere = Some("another boot".to_owned());
        assert!(Mark { boot: elsewhere.clone(), closed: None }.distrust().is_some());
        assert_eq!(Mark { boot: elsewhere, closed: Some(3) }.distrust(), None);
        assert_eq!(Mark { boot: None, closed: Some(3) }.distrust(), None);
        assert!(Mark { boot: None, closed: None }.distrust().is_some());
        assert_eq!(Mark::refused().distrust(), Some("the disk did not keep it"));
    }
}
