//! The new store takes the old one's place: in the directory, for all readers, in the names.

use std::fs;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hub::{Id, Names};

use super::Replica;
use super::open::Building;
use crate::acquired_names::AcquiredNames;
use crate::map::data_file;
use crate::map::sync_directory;
use crate::marker;
use crate::open::Store;
use crate::replica_mark::Mark;

impl Replica {
    /// Installs `new`, which was built in `building` and is synced. `held` has all its names
    /// but those of changes, which are pinned.
    ///
    /// A crash at any moment leaves one of the two: files are renamed one by one, and what stands
    /// beside `data.mdb` admits both in between. An open store goes with its file.
    pub(super) fn take(
        &mut self,
        building: &Building,
        new: Arc<Store>,
        held: AcquiredNames<Arc<Names>>,
    ) -> io::Result<()> {
        let old = self.store();
        let dir = &self.dir;
        let stored = new.stored_names();
        let mut needed = stored.map_err(|error| io::Error::other(error.to_string()))?;
        Mark::open().write(dir)?;
        // Its state would say that the new file is an older one.
        remove_if_there(&dir.join(marker::NAME))?;
        sync_directory(dir)?;
        debug_assert!(!Arc::ptr_eq(&old, &new));
        debug_assert!(!new.installed.load(Ordering::SeqCst), "it answers already");
        // From here on the old store does not ask after its file, nor record its state.
        let was_installed = old.installed.swap(false, Ordering::SeqCst);
        if let Err(error) = fs::rename(building.data_file(), data_file(dir)) {
            old.installed.store(was_installed, Ordering::SeqCst);
            return Err(error);
        }
        // LMDB makes another lock file where there is none, so this one need not succeed.
        let _ = fs::rename(building.0.join("lock.mdb"), dir.join("lock.mdb"));
        sync_directory(dir)?;
        needed.iter().for_each(|&id| new.names.pin_id(id));
        self.graph.0.store.store(Arc::clone(&new));
        new.installed.store(true, Ordering::SeqCst);
        new.mark();
        // Names that only the old pairs needed. Those of a store that cannot be read stay.
        let unneeded = old.stored_names().unwrap_or_default();
        needed.sort_unstable();
        for id in unneeded.into_iter().filter(|id| needed.binary_search(id).is_err()) {
            new.names.unpin(id);
        }
        drop(held);
        Ok(())
    }
}

impl Store {
    fn stored_names(&self) -> heed::Result<Vec<Id>> {
        let txn = self.env.read_txn()?;
        let entries = self.tables.names.iter(&txn)?;
        let ids = entries.map(|entry| {
            let bits = entry?.0.try_into().map_err(|_| heed::MdbError::Corrupted)?;
            Ok(Id::from_bits(u64::from_be_bytes(bits)))
        });
        ids.collect()
    }
}

fn remove_if_there(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
