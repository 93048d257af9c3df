//! Opening a data directory: the lock, the file, its format, the key of the names.
//!
//! A directory belongs to one process at a time. `lock` is held with flock(2), which the kernel
//! releases however the process ends; `data.mdb` and `lock.mdb` are LMDB's.
//!
//! The file grows by itself: the map is a reservation of address space, by default 1 TiB, and costs
//! nothing until pages are written. So it is never resized, and readers need no lock against that.

use std::ffi::c_int;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process;
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
        check_length(&env, lock.was_killed).map_err(fail)?;
        let (tables, names, subscriptions) = open_tables(&env).map_err(fail)?;
        let (names, subscriptions) = (Arc::new(names), AtomicU64::new(subscriptions));
        Ok(Store { env, tables, names, subscriptions, writing: Mutex::new(()), _lock: lock })
    }
}

/// Holds the directory for this process. Its file has our process id in it until we are done.
struct DirectoryLock {
    file: File,
    /// The last holder did not get to the end.
    was_killed: bool,
}

impl DirectoryLock {
    fn take(dir: &Path) -> Result<DirectoryLock, OpenReason> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(dir.join("lock")).map_err(OpenReason::Directory)?;
        let locked = file.try_lock();
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(OpenReason::Directory)?;
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenReason::InUse { pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(OpenReason::Directory(error)),
        }
        let lock = DirectoryLock { file, was_killed: !text.is_empty() };
        lock.write(&format!("{}\n", process::id())).map_err(OpenReason::Directory)?;
        Ok(lock)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If either fails, nobody is the worse for it: the kernel unlocks when the process ends.
        let _ = self.write("");
        // Closing alone would not do: a process that is being started at this moment has the
        // descriptor too, until its exec.
        let _ = self.file.unlock();
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

/// Refuses a file that was cut short: reading it would end in SIGBUS.
///
/// A commit leaves the file shorter than its pages say when it gave back the last ones that it
/// took; [`level`] follows it. Only if the last user was killed between the two, it is short by
/// some pages that nobody needs.
fn check_length(env: &Env<WithTls>, was_killed: bool) -> Result<(), OpenReason> {
    let (found, expected) = lengths(env)?;
    let missing = expected.saturating_sub(found);
    if missing > 0 && (!was_killed || missing > expected / 4) {
        let text = format!("it has {found} bytes and should have at least {expected}");
        return Err(OpenReason::Damaged(text));
    }
    Ok(level(env)?)
}

/// Makes the file as long as its pages say.
pub(super) fn level(env: &Env<WithTls>) -> heed::Result<()> {
    let (found, expected) = lengths(env)?;
    if found < expected {
        env.try_clone_inner_file()?.set_len(expected)?;
    }
    Ok(())
}

/// How long the file is, and how long its pages say it is.
fn lengths(env: &Env<WithTls>) -> heed::Result<(u64, u64)> {
    let pages = env.info().last_page_number as u64 + 1;
    Ok((env.real_disk_size()?, pages * u64::from(env.unnamed_database_stat().page_size)))
}

/// Opens what is there, or makes it.
fn open_tables(env: &Env<WithTls>) -> Result<Opened, OpenReason> {
    if env.unnamed_database_stat().entries == 0 {
        create_tables(env)?;
        sync_directory(env.path()).map_err(OpenReason::Directory)?;
    }
    let tables = find_tables(env)?;
    let (names, subscriptions) = restore(env, tables)?;
    Ok((tables, names, subscriptions))
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
