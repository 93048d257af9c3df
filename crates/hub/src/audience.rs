//! The audience of an event: every connection that is logged in as the subject or as one of its
//! stored subscribers, each exactly once, grouped by worker.
//!
//! It is gathered step by step, so that a celebrity's audience does not keep others waiting. A step
//! reads a slice of the subscribers, walks a slice of an id's connections, or sorts a part of what
//! was found. One sort does three things. It groups the connections by worker, puts those of a
//! worker in memory order, and brings a connection that was found under two ids side by side. Past
//! 4,096 connections it is done bucket by bucket ([`Buckets`]).
//!
//! A connection that is logged in from the first step to the last is in the audience. One that was
//! gone before the first step is not.
//!
//! Cost for a typical audience of 16: one look into the store, 16 into the directory, one
//! allocation, one sort of 16 numbers. For one of four at most nothing is allocated.

mod buckets;
#[cfg(test)]
mod tests;

use std::iter;

use buckets::Buckets;
use smallvec::SmallVec;

use crate::conn_ref::ConnRef;
use crate::directory::Directory;
use crate::followers::{Followers, FollowersError, SLICE_MAX};
use crate::id::Id;

/// Room for a typical audience.
const TYPICAL: usize = 32;

/// Connections for which nothing is allocated: one, as most have to whom nobody listens, and some.
const FEW: usize = 4;

/// The most connections that a group has, and that a step walks of ids with many: 0.04 ms, the
/// median of `cargo bench -p hub`.
const GROUP_MAX: usize = 4096;

/// The most ids with many connections that a step looks into.
const CROWDS_PER_STEP: usize = 1024;

/// An audience being gathered, then handed out group by group.
#[derive(Debug, Default)]
pub struct Audience {
    /// What was found; once more than a group has, only what the buckets have not taken in yet.
    found: SmallVec<[ConnRef; FEW]>,
    buckets: Buckets,
    /// The ids that are themselves still to be looked up.
    subjects: SmallVec<[Id; 1]>,
    /// Whether their subscribers are, too.
    followed: bool,
    /// The subject whose subscribers are being read, and the last one that was.
    unread: Option<(Id, Option<Id>)>,
    /// Ids that have many connections, and the last one that was found of the last id.
    large: Vec<Id>,
    walked: Option<ConnRef>,
}

/// Connections of one worker.
pub type Group = SmallVec<[ConnRef; 2]>;

/// What an audience needs of one worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The worker's number.
    pub worker: usize,
    /// Groups that [`Audience::take_group`] has for it.
    pub groups: usize,
    /// Connections in all of them.
    pub targets: usize,
}

impl Audience {
    /// The `subjects`, and if they are `followed` every stored subscriber of them.
    pub fn of(subjects: impl IntoIterator<Item = Id>, followed: bool) -> Audience {
        let subjects = subjects.into_iter().collect();
        Audience { subjects, followed, ..Audience::default() }
    }

    /// Does the next step. `true` when there is another one; once it is `false` the audience is
    /// whole and grouped.
    pub fn gather(
        &mut self,
        directory: &Directory,
        followers: &dyn Followers,
    ) -> Result<bool, FollowersError> {
        if !self.large.is_empty() {
            self.walk_sets(directory);
        } else if !self.subjects.is_empty() || self.unread.is_some() {
            self.read_slice(directory, followers)?;
        } else {
            return Ok(self.buckets.sort_on());
        }
        if self.found.len() > GROUP_MAX || !self.buckets.is_empty() {
            self.buckets.take_in(&mut self.found);
        }
        let is_more = !self.subjects.is_empty() || self.unread.is_some();
        if is_more || !self.large.is_empty() || !self.buckets.is_empty() {
            return Ok(true);
        }
        self.found.sort_unstable();
        self.found.dedup();
        Ok(false)
    }

    /// Looks up the next subject, or its next subscribers, but those that have many connections.
    fn read_slice(
        &mut self,
        directory: &Directory,
        followers: &dyn Followers,
    ) -> Result<(), FollowersError> {
        let found = &mut self.found;
        let mut members: SmallVec<[Id; TYPICAL]> = SmallVec::new();
        while self.unread.is_none()
            && members.len() < TYPICAL
            && let Some(subject) = self.subjects.pop()
        {
            members.push(subject);
            self.unread = self.followed.then_some((subject, None));
        }
        if let Some((subject, after)) = self.unread {
            let last = followers.slice(subject, after, &mut |id| members.push(id))?;
            debug_assert!(members.len() <= SLICE_MAX + 1, "a step would take as long as it likes");
            debug_assert!(last.is_none() || last > after, "the walk would never end");
            self.unread = last.map(|last| (subject, Some(last)));
        }
        if members.len() > FEW {
            found.reserve(members.len());
        }
        directory.visit(&members, &mut self.large, |conn| found.push(conn));
        Ok(())
    }

    /// Finds the next connections of ids that have many.
    fn walk_sets(&mut self, directory: &Directory) {
        let found = &mut self.found;
        let most = found.len() + GROUP_MAX;
        for _ in 0..CROWDS_PER_STEP {
            let Some(&id) = self.large.last() else { return };
            let rest = most - found.len();
            if rest == 0 {
                return;
            }
            let before = self.walked;
            self.walked = directory.walk(id, before, rest, |conn| found.push(conn));
            debug_assert!(self.walked.is_none() || self.walked > before, "it would never end");
            debug_assert!(found.len() <= most);
            if self.walked.is_none() {
                self.large.pop();
            }
        }
    }

    /// How much each worker's groups need, in the order of the workers, once all is gathered.
    pub fn needs(&self) -> impl Iterator<Item = Need> {
        debug_assert!(self.is_whole());
        debug_assert!(
            self.found.is_empty() || self.buckets.is_empty(),
            "a worker's connections stand in one of the two"
        );
        let few = self.found.chunk_by(|one, next| one.worker() == next.worker());
        let few = few.filter_map(|conns| Some((conns.first()?.worker(), conns.len())));
        let mut sizes = few.chain(self.buckets.sizes()).peekable();
        iter::from_fn(move || {
            let (worker, mut targets) = sizes.next()?;
            let mut groups = targets.div_ceil(GROUP_MAX);
            while let Some((_, more)) = sizes.next_if(|(other, _)| *other == worker) {
                targets += more;
                groups += more.div_ceil(GROUP_MAX);
            }
            Some(Need { worker, groups, targets })
        })
    }

    /// Takes one worker and connections of it, at most 4,096, sorted by slot, off the audience;
    /// `None` when all groups are taken. A worker has one group, or several one after the other if
    /// it has many connections. Of many they are not copied: a million are taken while others wait.
    pub fn take_group(&mut self) -> Option<(usize, Group)> {
        debug_assert!(self.is_whole());
        let Some(worker) = self.found.last().map(|last| last.worker()) else {
            let (worker, conns) = self.buckets.last()?;
            let start = last_start(conns);
            return Some((worker, self.buckets.take_last(start).into()));
        };
        let start = self.group_start(worker);
        let group = Group::from_slice(&self.found[start..]);
        self.found.truncate(start);
        Some((worker, group))
    }

    /// Whether all is gathered.
    fn is_whole(&self) -> bool {
        self.subjects.is_empty() && self.unread.is_none() && self.large.is_empty()
    }

    fn group_start(&self, worker: usize) -> usize {
        debug_assert!(self.found.is_sorted(), "a worker's connections stand together");
        self.found.partition_point(|conn| conn.worker() < worker)
    }
}

/// Where the last group of a bucket begins. A bucket is larger than a group only if slots got new
/// connections while it was filled.
fn last_start(conns: &[ConnRef]) -> usize {
    conns.len().saturating_sub(1) / GROUP_MAX * GROUP_MAX
}
