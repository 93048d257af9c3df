//! Whether a file is the store that it was: all pages sound, all entries as they were written.
//!
//! Reads the whole file once, before LMDB does (see [`super::pages`]). It decides nothing about
//! what is found: opening stops at the first finding, `check` lists them.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::block::{Sealed, unpack};
use super::error::OpenReason;
use super::key::{Key, subject_of};
use super::marker::Marker;
use super::pages::{Enough, Findings, Head, Order, PageFile, Tree, TreeWalk, Value};
use super::sum::{self, State, Sums, Table};

/// The layout that this program reads and writes, of a store that is its own record. Whoever gives
/// it another number opens stores of the ones before too, from 2 on: a stored one of each is tried.
// See [`super::block`] and the keys of `meta`.
pub const FORMAT: u32 = 2;

/// The layout of a replica, whose state says more. A number of its own keeps older programs from
/// taking a replica for a store that is its own record.
pub(super) const FORMAT_REPLICA: u32 = 3;

/// The table of what is said about the whole, and its keys; the format is little-endian.
pub(super) const META: &str = "meta";
pub(super) const META_FORMAT: &str = "format";
pub(super) const META_NAMES_KEY: &str = "names_key";
pub(super) const META_STATE: &str = "state";

/// Entries between two calls of `progress`.
const PROGRESS_STEP: u64 = 1 << 13;

/// A sound file's content.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// It has no tables yet.
    New,
    Store(State, Marker),
}

/// How to look, and who hears of it.
pub(super) struct Verify<'v> {
    pub(super) findings: &'v mut Findings,
    /// Compare both directions pair by pair as well: that finds faults of programs, too.
    pub(super) pairs: bool,
    /// Hears how many ids of how many were seen.
    pub(super) progress: &'v mut dyn FnMut(u64, u64),
}

/// A table's walk has seen so much.
#[derive(Default)]
struct Seen {
    ids: u64,
    entries: u64,
    /// The sum over all pairs, which is the same for both directions.
    pairs: u64,
}

type TreeTable = HashMap<Vec<u8>, Tree>;
type Entries = HashMap<Vec<u8>, Vec<u8>>;

impl Verify<'_> {
    /// Looks at the file at `path`. `None` when it is damaged, which the findings tell.
    pub(super) fn file(&mut self, path: &Path) -> Result<Option<Content>, OpenReason> {
        let file = File::open(path).map_err(OpenReason::Directory)?;
        let (head, mut file) = match Head::read(file) {
            Ok(Ok(found)) => found,
            Ok(Err(wrong)) => return Ok(self.damaged(wrong)),
            Err(error) => return Ok(self.damaged(format!("it cannot be read: {error}"))),
        };
        let before = self.findings.count;
        let Ok(tables) = self.tables(&head, &mut file) else { return Ok(None) };
        if head.is_empty() {
            return Ok(Some(Content::New));
        }
        let Some(&meta) = tables.get(META.as_bytes()) else {
            let sound = self.findings.count == before;
            return if sound { Err(OpenReason::Foreign) } else { Ok(None) };
        };
        let Ok(meta) = self.meta(meta, &mut file) else { return Ok(None) };
        let sound = self.findings.count == before;
        check_format(&meta, sound)?;
        let is_replica = format(&meta) == Some(FORMAT_REPLICA);
        let Ok(state) = self.state(&head, &meta) else { return Ok(None) };
        let done = self.content(&head, &tables, state.unwrap_or_default(), &mut file);
        if done.is_err() || self.findings.count > before {
            return Ok(None);
        }
        if state.is_some_and(|state| state.replica.is_some() != is_replica) {
            return Ok(self.damaged("meta: its format is not that of its state".into()));
        }
        Ok(state.map(|state| {
            let State { transaction, subscriptions, .. } = state;
            let digest = state.digest(names_key(&meta));
            Content::Store(state, Marker { transaction, subscriptions, digest })
        }))
    }

    fn damaged(&mut self, wrong: String) -> Option<Content> {
        // Whether that is enough does not matter: there is nothing more to look at.
        let _ = self.findings.note(wrong);
        None
    }

    /// The tables of the file.
    fn tables(&mut self, head: &Head, file: &mut PageFile) -> Result<TreeTable, Enough> {
        let mut tables = TreeTable::new();
        let walk = TreeWalk { tree: head.main, name: "the list of tables", flags: 0 };
        walk.check(file, Order::Bytes, self.findings, &mut |key, value| {
            let Value::Table(root) = value else { return Err("an entry is no table".into()) };
            let name = String::from_utf8_lossy(key);
            let tree =
                Tree::of_table(root).ok_or_else(|| format!("{name}: its root is damaged"))?;
            tables.insert(key.to_vec(), tree);
            Ok(())
        })?;
        Ok(tables)
    }

    fn meta(&mut self, tree: Tree, file: &mut PageFile) -> Result<Entries, Enough> {
        let mut entries = Entries::new();
        let walk = TreeWalk { tree, name: META, flags: 0 };
        walk.check(file, Order::Bytes, self.findings, &mut |key, value| {
            let Value::Bytes(bytes) = value else { return Err("an entry is a table".into()) };
            entries.insert(key.to_vec(), bytes.to_vec());
            Ok(())
        })?;
        Ok(entries)
    }

    /// What the newest commit said.
    fn state(&mut self, head: &Head, meta: &Entries) -> Result<Option<State>, Enough> {
        let bytes = meta.get(META_STATE.as_bytes()).map_or(&[][..], Vec::as_slice);
        let state = State::from_bytes(bytes, names_key(meta));
        let newest = head.transaction;
        match state {
            None => self.findings.note("meta: its state does not match its checksum")?,
            Some(State { transaction, .. }) if transaction != newest => {
                let text = format!("the head is of transaction {newest}, meta of {transaction}");
                self.findings.note(text)?;
            }
            Some(_) => {}
        }
        Ok(state)
    }

    /// The three large tables and the free pages.
    fn content(
        &mut self,
        head: &Head,
        tables: &TreeTable,
        state: State,
        file: &mut PageFile,
    ) -> Result<(), Enough> {
        let (mut sums, mut done, mut pairs) = (Sums::default(), 0, Vec::new());
        let before = self.findings.count;
        for table in Table::ALL {
            let name = table.name();
            let Some(&tree) = tables.get(name.as_bytes()) else {
                self.findings.note(format!("the table {name} is missing"))?;
                continue;
            };
            let seen = self.table(table, tree, file, &mut sums, (done, 2 * state.subscriptions))?;
            done += seen.ids;
            if table == Table::Names || self.findings.count > before {
                continue;
            }
            if sums.of(table) != state.sums.of(table) || seen.ids != state.subscriptions {
                self.findings
                    .note(format!("{name}: the lists are not those of the last commit"))?;
            }
            pairs.push(seen.pairs);
        }
        if self.findings.count == before && sums != state.sums {
            self.findings.note("names: they are not those of the last commit")?;
        }
        if self.findings.count == before && pairs.windows(2).any(|both| both[0] != both[1]) {
            self.findings.note("followers and following do not have the same pairs")?;
        }
        let known = Table::ALL.map(Table::name).into_iter().chain([META]);
        if tables.len() != known.count() {
            self.findings.note("there are tables that are not ours")?;
        }
        head.check_free_pages(file, self.findings)
    }

    /// Walks one table, of whose ids `done` of `total` have been seen before.
    fn table(
        &mut self,
        table: Table,
        tree: Tree,
        file: &mut PageFile,
        sums: &mut Sums,
        (done, total): (u64, u64),
    ) -> Result<Seen, Enough> {
        let mut seen = Seen::default();
        let with_pairs = self.pairs;
        let progress = &mut self.progress;
        let mut entry = |key: &[u8], value: &[u8]| {
            if seen.entries.is_multiple_of(PROGRESS_STEP) {
                progress(done + seen.ids, total);
            }
            seen.entries += 1;
            if table == Table::Names {
                sums.add(table, sum::of_name(key, value));
                return Ok(());
            }
            let key: &Key = key.try_into().map_err(|_| "a list has a key of another length")?;
            let block = Sealed(value)
                .open(table, key)
                .map_err(|error| format!("{error}: a list of {}", subject_of(key).to_bits()))?;
            sums.add(table, block.hash);
            seen.ids += block.ids.len() as u64;
            if with_pairs {
                let subject = subject_of(key).to_bits();
                let members = block.ids.iter().map(|&id| unpack(id).to_bits());
                for member in members {
                    seen.pairs = seen.pairs.wrapping_add(pair_hash(table, subject, member));
                }
            }
            Ok(())
        };
        let walk = TreeWalk { tree, name: table.name(), flags: 0 };
        walk.check(file, Order::Bytes, self.findings, &mut |key, value| match value {
            Value::Bytes(bytes) => entry(key, bytes),
            Value::Table(_) => Err("an entry is a table".into()),
        })?;
        Ok(seen)
    }
}

/// The hash of a pair, whichever direction it was found in.
fn pair_hash(table: Table, subject: u64, member: u64) -> u64 {
    let [subscriber, subscribee] =
        if table == Table::Followers { [member, subject] } else { [subject, member] };
    xxh3_64(&(u128::from(subscriber) << 64 | u128::from(subscribee)).to_le_bytes())
}

fn names_key(meta: &Entries) -> &[u8] {
    meta.get(META_NAMES_KEY.as_bytes()).map_or(&[], Vec::as_slice)
}

/// Whether this program reads the format of the store; `sound` when nothing was found so far.
fn check_format(meta: &Entries, sound: bool) -> Result<(), OpenReason> {
    match format(meta) {
        Some(FORMAT | FORMAT_REPLICA) => Ok(()),
        Some(found) if sound => Err(OpenReason::OtherFormat { found, known: FORMAT }),
        None if sound => Err(OpenReason::Foreign),
        _ => Ok(()),
    }
}

fn format(meta: &Entries) -> Option<u32> {
    let bytes = meta.get(META_FORMAT.as_bytes())?;
    bytes.as_slice().try_into().ok().map(u32::from_le_bytes)
}
