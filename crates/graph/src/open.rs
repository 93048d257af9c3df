//! Opening a data directory: the lock, the file, what is in it, the key of the names.
//!
//! `data.mdb` and `lock.mdb` are LMDB's, [`super::lock`] and [`super::marker`] say whose the
//! directory is and what it held. The file is looked at from end to end before LMDB opens it.
//!
//! The file grows by itself: the map is a reservation of address space, by default 1 TiB, and costs
//! nothing until pages are written. So it is never resized, and readers need no lock against that.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use heed::types::{Bytes, Str};
use heed::{CommitOrAbort, Database, Env, EnvFlags, RoTxn, WithTls};
use hub::{Id, Names};
use sys::mapped::Guard;

use super::block::BlockCodec;
use super::error::{OpenError, OpenReason};
use super::follower::Follower;
use super::key::KeyCodec;
use super::lists::Lists;
use super::lock::DirectoryLock;
use super::map::{data_file, map, refuse_links, sync_directory};
use super::marker::{Marker, Recorded};
use super::pages::Findings;
use super::replica_mark::Mark;
use super::replica_state::ReplicaState;
use super::sum::{State, Table};
use super::verify::{
    Content, FORMAT, FORMAT_REPLICA, META, META_FORMAT, META_NAMES_KEY, META_STATE, Verify,
};

/// Address space to reserve.
const MAP_BYTES_DEFAULT: usize = 1 << 40;

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
    /// Given back before the file is unmapped: fields drop in order.
    pub(super) guard: Guard,
    pub(super) env: Env<WithTls>,
    /// Of `lock.mdb`, which is looked at and written to until it is unmapped.
    pub(super) lock_guard: Option<Guard>,
    pub(super) tables: Tables,
    pub(super) names: Arc<Names>,
    /// Stored pairs, as of the last commit. A statistic of its own: relaxed is enough.
    pub(super) subscriptions: AtomicU64,
    /// The state as of the last commit. Held by the one who writes, from the begin of a transaction
    /// until its outcome is known.
    pub(super) committed: Mutex<State>,
    /// What was found damaged while the store was open, first of all.
    pub(super) damage: OnceLock<String>,
    /// Whether it concerns more than single lists. Statistic-like flags: relaxed is enough, since
    /// the thread that met the damage sees its own store.
    pub(super) unreadable: AtomicBool,
    pub(super) dir: PathBuf,
    /// Our own descriptor of the file, to ask after it.
    pub(super) file: File,
    /// How long the file was after the last commit; it never becomes shorter.
    pub(super) file_bytes: AtomicU64,
    /// Why nothing is read from it, in a replica that must be rebuilt.
    pub(super) awaits: Option<String>,
    /// Whether it is the store of `dir`: not while it is built, nor once another one has its place.
    pub(super) installed: AtomicBool,
    /// What only a replica needs.
    pub(super) follower: Follower,
    /// Released after the file is unmapped. A replica's stores have it together.
    pub(super) lock: Arc<DirectoryLock>,
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

impl Tables {
    /// The lists of one direction.
    pub(super) fn lists(&self, table: Table) -> Lists {
        if table == Table::Following { self.following } else { self.followers }
    }
}

impl Store {
    pub(super) fn open(dir: &Path, options: &GraphOptions) -> Result<Store, OpenError> {
        let fail = |reason| OpenError { dir: dir.to_owned(), reason };
        fs::create_dir_all(dir).map_err(|error| fail(OpenReason::Directory(error)))?;
        let lock = Arc::new(DirectoryLock::take(dir).map_err(fail)?);
        Store::open_own_record(dir, options, lock).map_err(fail)
    }

    fn open_own_record(
        dir: &Path,
        options: &GraphOptions,
        lock: Arc<DirectoryLock>,
    ) -> Result<Store, OpenReason> {
        let found = look(dir)?;
        if found.is_some_and(|state| state.replica.is_some()) || Mark::is_in(dir) {
            return Err(OpenReason::IsReplica);
        }
        let env = map(dir, options.map_bytes, EnvFlags::empty())?;
        let state = match found {
            Some(state) => state,
            None => create_tables(&env, &random_key()?, None)?,
        };
        let store = Store::new(dir, dir, env, state, None, lock)?;
        store.installed.store(true, Ordering::Relaxed);
        store.mark();
        Ok(store)
    }

    /// Opens the replica in `dir`, in which `state` was found.
    pub(super) fn open_replica(
        dir: &Path,
        options: &GraphOptions,
        state: State,
        lock: Arc<DirectoryLock>,
    ) -> Result<Store, OpenReason> {
        let env = map(dir, options.map_bytes, EnvFlags::NO_SYNC)?;
        let store = Store::new(dir, dir, env, state, None, lock)?;
        store.installed.store(true, Ordering::Relaxed);
        store.mark();
        Ok(store)
    }

    /// Makes an empty replica in `building`, which is to be that of `dir` one day. It knows people
    /// by `names`, when there are some already.
    pub(super) fn build_replica(
        building: &Path,
        dir: &Path,
        options: &GraphOptions,
        names: Option<Arc<Names>>,
        lock: Arc<DirectoryLock>,
    ) -> Result<Store, OpenReason> {
        let names = match names {
            Some(names) => names,
            None => Arc::new(Names::new(random_key()?)),
        };
        let env = map(building, options.map_bytes, EnvFlags::NO_SYNC)?;
        let state = create_tables(&env, &names.key(), Some(ReplicaState::default()))?;
        Store::new(building, dir, env, state, Some(names), lock)
    }

    /// The store whose file is in `place`, and is or will be that of `dir`.
    pub(super) fn new(
        place: &Path,
        dir: &Path,
        env: Env<WithTls>,
        state: State,
        names: Option<Arc<Names>>,
        lock: Arc<DirectoryLock>,
    ) -> Result<Store, OpenReason> {
        let tables = find_tables(&env)?;
        let (guard, lock_guard) = (guard(&env, tables)?, lock_guard(place)?);
        let names = match names {
            Some(names) => names,
            None => {
                let txn = env.read_txn()?;
                Arc::new(restore_names(&txn, tables)?)
            }
        };
        let file = File::open(data_file(place)).map_err(OpenReason::Directory)?;
        let store = Store {
            guard,
            env,
            lock_guard,
            tables,
            names,
            subscriptions: AtomicU64::new(state.subscriptions),
            committed: Mutex::new(state),
            damage: OnceLock::new(),
            unreadable: AtomicBool::new(false),
            dir: dir.to_owned(),
            file,
            file_bytes: AtomicU64::new(0),
            awaits: None,
            installed: AtomicBool::new(false),
            follower: Follower::default(),
            lock,
        };
        store.level();
        Ok(store)
    }

    /// Records the state as of the last commit beside the file.
    pub(super) fn mark(&self) {
        let state = *self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        // A disk without room for it keeps the one that was there: that only says less.
        let _ = self.marker(state).write(&self.dir);
    }

    /// What stands for `state`.
    pub(super) fn marker(&self, state: State) -> Marker {
        let State { transaction, subscriptions, .. } = state;
        Marker { transaction, subscriptions, digest: state.digest(&self.names.key()) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The directory may be somebody else's by now.
        if self.installed.load(Ordering::Relaxed)
            && self.lock.is_held()
            && self.lock.check().is_ok()
            && self.damage.get().is_none()
        {
            self.mark();
        }
    }
}

/// What the directory holds; `None` when that is nothing yet, and never was anything.
pub(super) fn look(dir: &Path) -> Result<Option<State>, OpenReason> {
    refuse_links(dir)?;
    let recorded = Recorded::read(dir)?;
    let path = data_file(dir);
    let bytes = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(OpenReason::Directory(error)),
    };
    let mut content = Some(Content::New);
    let mut findings = Findings::first_only();
    if bytes > 0 {
        let progress = &mut |_, _| {};
        content = Verify { findings: &mut findings, pairs: false, progress }.file(&path)?;
    }
    match content {
        None => Err(OpenReason::Damaged(findings.first.concat())),
        Some(Content::New) => recorded.admits(None).map(|()| None),
        Some(Content::Store(state, marker)) => recorded.admits(Some(marker)).map(|()| Some(state)),
    }
}

/// All of them and `meta`'s entries in one transaction: a directory has a whole store or none.
fn create_tables(
    env: &Env<WithTls>,
    key: &[u8; 16],
    replica: Option<ReplicaState>,
) -> Result<State, OpenReason> {
    let txn = env.write_txn()?;
    let state = State { transaction: txn.id() as u64, replica, ..State::default() };
    let format = if replica.is_some() { FORMAT_REPLICA } else { FORMAT };
    let _: CommitOrAbort<(), ()> = env.create_databases_and_commit(txn, |opener, txn| {
        for table in [Table::Followers, Table::Following] {
            opener.create_database::<KeyCodec, BlockCodec>(txn, Some(table.name()))?;
        }
        opener.create_database::<Bytes, Str>(txn, Some(Table::Names.name()))?;
        let meta = opener.create_database::<Str, Bytes>(txn, Some(META))?;
        meta.put(txn, META_FORMAT, &format.to_le_bytes())?;
        meta.put(txn, META_NAMES_KEY, key)?;
        meta.put(txn, META_STATE, &state.to_bytes(key))?;
        Ok::<_, heed::Error>(CommitOrAbort::Commit(()))
    })?;
    sync_directory(env.path()).map_err(OpenReason::Directory)?;
    Ok(state)
}

/// For the hash of the names of a new store.
fn random_key() -> Result<[u8; 16], OpenReason> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| OpenReason::Lmdb(error.to_string()))?;
    Ok(key)
}

pub(super) fn find_tables(env: &Env<WithTls>) -> Result<Tables, OpenReason> {
    let txn = env.read_txn()?;
    let opened = env.open_databases_and_commit(txn, |opener, txn| {
        let missing = |name| OpenReason::Damaged(format!("the table {name} is missing"));
        let lists = |table: Table| {
            let blocks = opener.open_database::<KeyCodec, BlockCodec>(txn, Some(table.name()))?;
            blocks.ok_or_else(|| missing(table.name()))
        };
        let (followers, following) = (lists(Table::Followers)?, lists(Table::Following)?);
        let names = opener.open_database::<Bytes, Str>(txn, Some(Table::Names.name()))?;
        let names = names.ok_or_else(|| missing(Table::Names.name()))?;
        let meta = opener.open_database::<Str, Bytes>(txn, Some(META))?;
        let meta = meta.ok_or_else(|| missing(META))?;
        let tables = (followers, following, names, meta);
        Ok::<_, OpenReason>(CommitOrAbort::<_, ()>::Commit(tables))
    })?;
    let (followers, following, names, meta) = opened.commit().expect("it always commits");
    Ok(Tables {
        followers: Lists { blocks: followers, table: Table::Followers },
        following: Lists { blocks: following, table: Table::Following },
        names,
        meta,
    })
}

/// Guards LMDB's map, which it does not tell: it is where its values are.
fn guard(env: &Env<WithTls>, tables: Tables) -> Result<Guard, OpenReason> {
    let txn = env.read_txn()?;
    let value = tables.meta.get(&txn, META_FORMAT)?.unwrap_or_default();
    Guard::around(value.as_ptr() as usize).map_err(OpenReason::Proc)
}

/// Guards LMDB's map of its lock file, if there is one that the system tells of.
fn lock_guard(place: &Path) -> Result<Option<Guard>, OpenReason> {
    let Ok(path) = place.join("lock.mdb").canonicalize() else { return Ok(None) };
    Guard::of_file(&path).map_err(OpenReason::Proc)
}

/// The stored names, under the key that made their ids.
pub(super) fn restore_names(txn: &RoTxn<'_>, tables: Tables) -> Result<Names, OpenReason> {
    let key = tables.meta.get(txn, META_NAMES_KEY)?.and_then(|bytes| bytes.try_into().ok());
    let missing = || OpenReason::Damaged(format!("it has no {META_NAMES_KEY}"));
    let names = Names::new(key.ok_or_else(missing)?);
    for entry in stored_names(txn, tables)? {
        let (id, name) = entry?;
        names.restore(id, name);
    }
    Ok(names)
}

/// The stored names, ascending by the bits of their ids.
pub(super) fn stored_names<'txn>(
    txn: &'txn RoTxn<'_>,
    tables: Tables,
) -> Result<impl Iterator<Item = Result<(Id, &'txn str), OpenReason>>, OpenReason> {
    let entries = tables.names.iter(txn)?;
    Ok(entries.map(|entry| {
        let (id, name) = entry?;
        let bits = id.try_into().map_err(|_| OpenReason::Damaged("a name's id".into()))?;
        Ok((Id::from_bits(u64::from_be_bytes(bits)), name))
    }))
}
