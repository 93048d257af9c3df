//! Opening a data directory: the lock, the file, its format, the key of the names.
//!
//! A directory belongs to one process at a time. `lock` is held with flock(2), which the kernel
//! releases however the process ends; `data.mdb` and `lock.mdb` are LMDB's.
//!
//! The file grows by itself: the map is a reservation of address space, by default 1 TiB, and costs
//! nothing until pages are written. So it is never resized, and readers need no lock against that.

use std::ffi::c_int;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use heed::types::{Bytes, Str};
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RoTxn, WithTls};
use hub::{Id, Names};

use super::block::{BlockCodec, KeyCodec};
use super::error::{OpenError, OpenReason};
use super::lists::Lists;

/// The layout that this program reads and writes; see [`super::block`] and the keys of `meta`.
const FORMAT: u32 = 1;

/// Keys of `meta`: numbers are little-endian.
pub(super) const META_FORMAT: &str = "format";
const META_NAMES_KEY: &str = "names_key";
pub(super) const META_SUBSCRIPTIONS: &str = "subscriptions";

/// Address space to reserve, and the least that is worth to start with.
const MAP_BYTES_DEFAULT: usize = 1 << 40;
const MAP_BYTES_MIN: usize = 1 << 20;

/// Threads that may read at once. A slot is 64 bytes of `lock.mdb`.
const READERS_MAX: u32 = 4096;

const ENOMEM: c_int = 12;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct GraphOptions {
    /// Address space to reserve, in bytes: the most that the store can ever grow to while it is
    /// open. Where the system grants less, half of it is tried, and so on.
    pub map_bytes: usize,
}

impl Default for GraphOptions {
    fn default() -> GraphOptions {
        GraphOptions { map_bytes: MAP_BYTES_DEFAULT }
    }
}

/// An open store. All threads share it; LMDB admits one writing transaction at a time.
pub(super) struct Store {
    pub(super) env: Env<WithTls>,
    pub(super) tables: Tables,
    pub(super) names: Arc<Names>,
    /// Stored pairs, as of the last commit. A statistic of its own: relaxed is enough.
    pub(super) subscriptions: AtomicU64,
    /// Held by the one who writes, from the begin of a transaction until its outcome is known.
    pub(super) writing: Mutex<()>,
    /// Released after the file is unmapped: fields drop in order.
    _lock: DirectoryLock,
}

/// The tables of the file.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    /// Subscribee to subscribers.
    pub(super) followers: Lists,
    /// Subscriber to subscribees.
    pub(super) following: Lists,
    /// Id of a name (big-endian) to its text.
    pub(super) names: Database<'static, Bytes, Str>,
    pub(super) meta: Database<'static, Str, Bytes>,
}

/// The tables, the names, and how many pairs there are.
type Opened = (Tables, Names, u64);

impl Store {
    pub(super) fn open(dir: &Path, options: &GraphOptions) -> Result<Store, OpenError> {
        let fail = |reason| OpenError { dir: dir.to_owned(), reason };
        fs::create_dir_all(dir).map_err(|error| fail(OpenReason::Directory(error)))?;
        let lock = DirectoryLock::take(dir).map_err(fail)?;
        let env = map(dir, options.map_bytes).map_err(fail)?;
        let short = lengthen(&env).map_err(fail)?;
        let opened = open_tables(&env, short.is_some());
        if let (Err(_), Some(bytes)) = (&opened, short) {
            // It stays recognisable as damaged. If this fails, it is recognised when read.
            let _ = env.try_clone_inner_file().map(|file| file.set_len(bytes));
        }
        let (tables, names, subscriptions) = opened.map_err(fail)?;
        let (names, subscriptions) = (Arc::new(names), AtomicU64::new(subscriptions));
        Ok(Store { env, tables, names, subscriptions, writing: Mutex::new(()), _lock: lock })
    }
}

/// Holds the directory for this process.
struct DirectoryLock(File);

impl DirectoryLock {
    /// Takes the lock and writes our process id into its file, for the one who finds it taken.
    fn take(dir: &Path) -> Result<DirectoryLock, OpenReason> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(dir.join("lock")).map_err(OpenReason::Directory)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = file.read_to_string(&mut text);
                return Err(OpenReason::InUse { pid: read.ok().and(text.trim().parse().ok()) });
            }
            Err(TryLockError::Error(error)) => return Err(OpenReason::Directory(error)),
        }
        file.set_len(0).map_err(OpenReason::Directory)?;
        writeln!(file, "{}", std::process::id()).map_err(OpenReason::Directory)?;
        Ok(DirectoryLock(file))
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started at this moment has the descriptor
        // too, until its exec. If this fails, that is all that is lost.
        let _ = self.0.unlock();
    }
}

/// Maps the file, halving the reservation as long as the system has no room for it.
fn map(dir: &Path, bytes: usize) -> Result<Env<WithTls>, OpenReason> {
    let mut options = EnvOpenOptions::new();
    options.max_dbs(4).max_readers(READERS_MAX);
    let mut bytes = bytes.max(MAP_BYTES_MIN);
    loop {
        options.map_size(bytes);
        #[expect(unsafe_code, reason = "a mapped file is unsafe as such; this is the one place")]
        // SAFETY: the file must not change under the map but through LMDB. We hold the directory's
        // lock, so no other Encke has it open, and LMDB's own lock file guards against others.
        let opened = unsafe { options.open(dir) };
        match opened {
            Err(heed::Error::Io(error)) if error.raw_os_error() == Some(ENOMEM) => {
                if bytes / 2 < MAP_BYTES_MIN {
                    return Err(OpenReason::AddressSpace(bytes));
                }
                bytes /= 2;
            }
            Err(error) => return Err(error.into()),
            Ok(env) => return Ok(env),
        }
    }
}

/// Makes the file as long as its pages say; returns how long it was if it was shorter.
///
/// A page past the end of a mapped file is a SIGBUS, a page of zeros is an error. The file may be
/// short by pages that were taken and given back in one transaction, so this alone is no damage.
fn lengthen(env: &Env<WithTls>) -> Result<Option<u64>, OpenReason> {
    let pages = env.info().last_page_number as u64 + 1;
    let expected = pages * u64::from(env.unnamed_database_stat().page_size);
    let found = env.real_disk_size()?;
    if found >= expected {
        return Ok(None);
    }
    env.try_clone_inner_file()?.set_len(expected).map_err(OpenReason::Directory)?;
    Ok(Some(found))
}

/// Opens what is there, or makes it; reads all of it when `doubtful`.
fn open_tables(env: &Env<WithTls>, doubtful: bool) -> Result<Opened, OpenReason> {
    if env.unnamed_database_stat().entries == 0 {
        create_tables(env)?;
        sync_directory(env.path()).map_err(OpenReason::Directory)?;
    }
    let tables = find_tables(env)?;
    if doubtful {
        visit_all(env, tables)?;
    }
    let (names, subscriptions) = restore(env, tables)?;
    Ok((tables, names, subscriptions))
}

/// Reads every page that the tables reach, to find out whether pages were lost.
fn visit_all(env: &Env<WithTls>, tables: Tables) -> Result<(), OpenReason> {
    let txn = env.read_txn()?;
    for lists in [tables.followers, tables.following] {
        for block in lists.blocks(&txn)? {
            block?;
        }
    }
    Ok(())
}

/// All of them and `meta`'s entries in one transaction: a directory has a whole store or none.
fn create_tables(env: &Env<WithTls>) -> Result<(), OpenReason> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| OpenReason::Lmdb(error.to_string()))?;
    let txn = env.write_txn()?;
    let _: CommitOrAbort<(), ()> = env.create_databases_and_commit(txn, |opener, txn| {
        opener.create_database::<KeyCodec, BlockCodec>(txn, Some("followers"))?;
        opener.create_database::<KeyCodec, BlockCodec>(txn, Some("following"))?;
        opener.create_database::<Bytes, Str>(txn, Some("names"))?;
        let meta = opener.create_database::<Str, Bytes>(txn, Some("meta"))?;
        meta.put(txn, META_FORMAT, &FORMAT.to_le_bytes())?;
        meta.put(txn, META_NAMES_KEY, &key)?;
        meta.put(txn, META_SUBSCRIPTIONS, &0u64.to_le_bytes())?;
        Ok::<_, heed::Error>(CommitOrAbort::Commit(()))
    })?;
    Ok(())
}

fn find_tables(env: &Env<WithTls>) -> Result<Tables, OpenReason> {
    let txn = env.read_txn()?;
    let opened = env.open_databases_and_commit(txn, |opener, txn| {
        let meta = opener.open_database::<Str, Bytes>(txn, Some("meta"))?;
        let meta = meta.ok_or(OpenReason::Foreign)?;
        let format = meta.get(txn, META_FORMAT)?.and_then(|bytes| bytes.try_into().ok());
        match format.map(u32::from_le_bytes) {
            Some(FORMAT) => {}
            Some(found) => return Err(OpenReason::OtherFormat { found, known: FORMAT }),
            None => return Err(OpenReason::Foreign),
        }
        let lists = |name| opener.open_database::<KeyCodec, BlockCodec>(txn, Some(name));
        let missing = |name| OpenReason::Damaged(format!("the table {name} is missing"));
        let followers = lists("followers")?.ok_or_else(|| missing("followers"))?;
        let following = lists("following")?.ok_or_else(|| missing("following"))?;
        let names = opener.open_database::<Bytes, Str>(txn, Some("names"))?;
        let names = names.ok_or_else(|| missing("names"))?;
        Ok(CommitOrAbort::<_, ()>::Commit((followers, following, names, meta)))
    })?;
    let (followers, following, names, meta) = opened.commit().expect("it always commits");
    Ok(Tables { followers: Lists(followers), following: Lists(following), names, meta })
}

/// The stored names, under the key that made their ids, and the count of pairs.
fn restore(env: &Env<WithTls>, tables: Tables) -> Result<(Names, u64), OpenReason> {
    let txn = env.read_txn()?;
    let names = Names::new(meta_bytes(tables, &txn, META_NAMES_KEY)?);
    for entry in tables.names.iter(&txn)? {
        let (id, name) = entry?;
        let bits = id.try_into().map_err(|_| OpenReason::Damaged("a name's id".into()))?;
        names.restore(Id::from_bits(u64::from_be_bytes(bits)), name);
    }
    let subscriptions = u64::from_le_bytes(meta_bytes(tables, &txn, META_SUBSCRIPTIONS)?);
    Ok((names, subscriptions))
}

fn meta_bytes<const N: usize>(
    tables: Tables,
    txn: &RoTxn<'_>,
    key: &str,
) -> Result<[u8; N], OpenReason> {
    let found = tables.meta.get(txn, key)?.and_then(|bytes| bytes.try_into().ok());
    found.ok_or_else(|| OpenReason::Damaged(format!("it has no {key}")))
}

/// After a file was made: else a power failure could lose the file's name, whatever is in it.
fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
