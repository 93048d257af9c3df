//! What the stored graph looks like, by one walk through both directions in one snapshot.
//!
//! Cost: a second for 15 million subscriptions; memory for the longest list only.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::atomic::Ordering;

use heed::RoTxn;
use hub::Id;

use super::Graph;
use super::block::{Block, unpack};
use super::degrees::Degrees;
use super::error::ReadError;
use super::open::Store;

/// Numbers of the whole graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Ids that follow or are followed.
    pub users: u64,
    /// How many pairs are stored.
    pub subscriptions: u64,
    /// Pairs of users who follow one another, counted once.
    pub mutual: u64,
    /// By the number of different users somebody is connected with, whoever follows whom. That is
    /// the degree in the undirected graph, as igraph counts it, whether the graph was loaded one
    /// way or both ways.
    pub degrees: Degrees,
    /// Bytes of the store's file.
    pub disk_bytes: u64,
}

impl Graph {
    /// Walks the whole graph. `progress` hears now and then how many of the subscriptions it has
    /// seen, in either direction, and of how many.
    pub fn stats(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Stats, ReadError> {
        let stats = self.store().read(|store, txn| walk(store, txn, progress))?;
        Ok(Stats { disk_bytes: self.disk_bytes()?, ..stats })
    }
}

fn walk(store: &Store, txn: &RoTxn<'_>, progress: &mut dyn FnMut(u64, u64)) -> heed::Result<Stats> {
    let mut followers = store.tables.followers.blocks(txn)?.peekable();
    let mut following = store.tables.following.blocks(txn)?.peekable();
    let (mut counts, mut subscriptions, mut mutual) = (BTreeMap::<u64, u64>::new(), 0, 0);
    let (mut users, mut inward, mut outward) = (0u64, Vec::new(), Vec::new());
    let total = 2 * store.subscriptions.load(Ordering::Relaxed);
    let mut seen = 0;
    while let Some(user) = lower(subject(&mut followers)?, subject(&mut following)?) {
        list_of(user, &mut followers, &mut inward)?;
        list_of(user, &mut following, &mut outward)?;
        let both = common(&inward, &outward);
        *counts.entry((inward.len() + outward.len()) as u64 - both).or_default() += 1;
        subscriptions += inward.len() as u64;
        // Each side of such a pair finds the other; oneself is found once.
        mutual += both - u64::from(outward.binary_search(&user).is_ok());
        seen += (inward.len() + outward.len()) as u64;
        if users.is_multiple_of(1 << 14) {
            progress(seen, total);
        }
        users += 1;
    }
    progress(total, total);
    let degrees = Degrees { counts: counts.into_iter().collect() };
    Ok(Stats { users, subscriptions, mutual: mutual / 2, degrees, disk_bytes: 0 })
}

type Entry<'txn> = heed::Result<(Id, Block<'txn>)>;

fn lower(a: Option<Id>, b: Option<Id>) -> Option<Id> {
    a.into_iter().chain(b).min()
}

/// Whose list comes next.
fn subject<'txn>(
    blocks: &mut Peekable<impl Iterator<Item = Entry<'txn>>>,
) -> heed::Result<Option<Id>> {
    match blocks.next_if(Result::is_err) {
        Some(Err(error)) => Err(error),
        _ => Ok(blocks.peek().and_then(|entry| entry.as_ref().ok()).map(|(subject, _)| *subject)),
    }
}

/// Takes the blocks of `user` off, and their ids into `list`.
fn list_of<'txn>(
    user: Id,
    blocks: &mut Peekable<impl Iterator<Item = Entry<'txn>>>,
    list: &mut Vec<Id>,
) -> heed::Result<()> {
    list.clear();
    while subject(blocks)? == Some(user)
        && let Some(Ok((_, block))) = blocks.next()
    {
        list.extend(block.ids.iter().map(|&bytes| unpack(bytes)));
    }
    Ok(())
}

/// How many ids stand in both of two ascending lists.
fn common(a: &[Id], b: &[Id]) -> u64 {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short.iter().filter(|&id| long.binary_search(id).is_ok()).count() as u64
}
