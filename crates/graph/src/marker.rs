//! What the store held when it was last opened or closed, in a small file of its own beside it.
//!
//! A file that was emptied looks like a new one, and one whose newest commit was lost by the disk
//! looks like an older one. Neither can say so itself; `data.state` can. It is a lower bound: after
//! a `kill -9` the store is further than it says.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use sys::plain_file;
use xxhash_rust::xxh3::xxh3_64;

use super::error::OpenReason;

/// Its name in the directory.
pub(super) const NAME: &str = "data.state";

/// A state of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marker {
    pub(super) transaction: u64,
    pub(super) subscriptions: u64,
    /// See [`super::sum::State::digest`].
    pub(super) digest: u64,
}

/// What was found beside the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recorded {
    Nothing,
    Unreadable,
    Known(Marker),
}

impl Recorded {
    pub(super) fn read(dir: &Path) -> Result<Recorded, OpenReason> {
        match plain_file::read(&path(dir)) {
            Ok(bytes) => Ok(Marker::parse(&bytes).map_or(Recorded::Unreadable, Recorded::Known)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Recorded::Nothing),
            Err(error) => Err(OpenReason::Directory(error)),
        }
    }

    /// Whether a sound store in state `found`, or none at all, can be what was recorded.
    pub(super) fn admits(self, found: Option<Marker>) -> Result<(), OpenReason> {
        match (self, found) {
            (Recorded::Nothing, _) | (Recorded::Unreadable, Some(_)) => Ok(()),
            (Recorded::Unreadable, None) => Err(OpenReason::Gone { subscriptions: None }),
            (Recorded::Known(known), None) => {
                Err(OpenReason::Gone { subscriptions: Some(known.subscriptions) })
            }
            (Recorded::Known(known), Some(found)) => {
                let other = found.transaction == known.transaction && found != known;
                if found.transaction < known.transaction || other {
                    let (found, known) = (found.transaction, known.transaction);
                    return Err(OpenReason::Older { found, known });
                }
                Ok(())
            }
        }
    }
}

impl Marker {
    /// Replaces what is recorded in `dir`: wholly or not at all.
    pub(super) fn write(self, dir: &Path) -> io::Result<()> {
        debug_assert_eq!(Marker::parse(self.text().as_bytes()), Some(self));
        let partial = dir.join(format!("{NAME}.partial"));
        let mut file = plain_file::create(&partial, 0o644)?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path(dir))
    }

    fn text(self) -> String {
        let Marker { transaction, subscriptions, digest } = self;
        let text = format!(
            "What data.mdb held when it was last opened or closed: leave this beside it.\n\
             transaction {transaction}\nsubscriptions {subscriptions}\ndigest {digest:016x}\n"
        );
        format!("{text}checksum {:016x}\n", xxh3_64(text.as_bytes()))
    }

    fn parse(bytes: &[u8]) -> Option<Marker> {
        let text = str::from_utf8(bytes).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let marker = Marker {
            transaction: field("transaction ")?.parse().ok()?,
            subscriptions: field("subscriptions ")?.parse().ok()?,
            digest: u64::from_str_radix(field("digest ")?, 16).ok()?,
        };
        (marker.text() == text).then_some(marker)
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_7: Marker = Marker { transaction: 7, subscriptions: 3, digest: 1 };

    #[test]
    fn marker_is_read_back_and_any_other_byte_makes_it_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Recorded::read(dir.path()).unwrap(), Recorded::Nothing);
        AT_7.write(dir.path()).unwrap();
        assert_eq!(Recorded::read(dir.path()).unwrap(), Recorded::Known(AT_7));
        let whole = fs::read(path(dir.path())).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(path(dir.path()), damaged).unwrap();
            assert_eq!(Recorded::read(dir.path()).unwrap(), Recorded::Unreadable, "byte {at}");
        }
    }

    #[test]
    fn store_may_be_further_than_recorded_and_not_behind() {
        let known = Recorded::Known(AT_7);
        let at = |transaction, digest| Some(Marker { transaction, digest, ..AT_7 });
        assert!(known.admits(at(7, 1)).is_ok() && known.admits(at(8, 2)).is_ok());
        for found in [at(6, 1), at(7, 2), None] {
            assert!(known.admits(found).is_err(), "{found:?}");
        }
        assert!(Recorded::Unreadable.admits(at(1, 1)).is_ok());
        assert!(Recorded::Unreadable.admits(None).is_err());
        assert!(Recorded::Nothing.admits(None).is_ok());
    }
}
