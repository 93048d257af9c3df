//! The audience of an event: every connection that is logged in as the subject or as one of its
//! stored subscribers, each exactly once, grouped by worker.
//!
//! It is gathered slice by slice, so that a celebrity's audience does not keep others waiting. One
//! sort at the end does three things: it groups the connections by worker, puts those of a worker
//! in memory order, and brings a connection that was found under two ids side by side.
//!
//! Cost for a typical audience of 16: one look into the store, 16 into the directory, one
//! allocation, one sort of 16 numbers.

use smallvec::SmallVec;

use crate::directory::{ConnRef, Directory};
use crate::followers::{Followers, FollowersError};
use crate::id::Id;

/// Room for a typical audience.
const TYPICAL: usize = 32;

/// An audience being gathered, then handed out group by group.
#[derive(Debug, Default)]
pub struct Audience {
    found: Vec<ConnRef>,
    /// The id that is itself still to be looked up.
    member: Option<Id>,
    /// The subject whose subscribers are still to be read, and the last one that was.
    unread: Option<(Id, Option<Id>)>,
}

impl Audience {
    /// The subject and every stored subscriber of it.
    pub fn of_subject(subject: Id) -> Audience {
        Audience { member: Some(subject), unread: Some((subject, None)), found: Vec::new() }
    }

    /// The connections of `id` alone.
    pub fn of_id(id: Id) -> Audience {
        Audience { member: Some(id), ..Audience::default() }
    }

    /// Looks up the next slice. `true` when there is another one; once it is `false` the audience
    /// is whole and grouped.
    pub fn gather(
        &mut self,
        directory: &Directory,
        followers: &dyn Followers,
    ) -> Result<bool, FollowersError> {
        let found = &mut self.found;
        found.reserve(TYPICAL);
        let mut members: SmallVec<[Id; TYPICAL]> = SmallVec::new();
        members.extend(self.member.take());
        if let Some((subject, after)) = self.unread {
            let last = followers.slice(subject, after, &mut |id| members.push(id))?;
            self.unread = last.map(|last| (subject, Some(last)));
        }
        directory.visit(&members, |conn| found.push(conn));
        if self.unread.is_some() {
            return Ok(true);
        }
        self.found.sort_unstable();
        self.found.dedup();
        Ok(false)
    }

    /// One worker and its connections, sorted by slot; `None` when all groups are taken.
    pub fn group(&self) -> Option<(usize, &[ConnRef])> {
        let worker = self.found.last()?.worker();
        Some((worker, &self.found[self.group_start(worker)..]))
    }

    /// Takes the group that [`Audience::group`] shows off the audience.
    pub fn next_group(&mut self) {
        if let Some(last) = self.found.last() {
            let start = self.group_start(last.worker());
            self.found.truncate(start);
        }
    }

    fn group_start(&self, worker: usize) -> usize {
        self.found.partition_point(|conn| conn.worker() < worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Subscribers in slices of three.
    struct Few(BTreeMap<Id, BTreeSet<Id>>);

    impl Followers for Few {
        fn slice(
            &self,
            subject: Id,
            after: Option<Id>,
            visit: &mut dyn FnMut(Id),
        ) -> Result<Option<Id>, FollowersError> {
            let all = self.0.get(&subject).into_iter().flatten().copied();
            let mut rest = all.filter(|id| after.is_none_or(|after| *id > after));
            let slice: Vec<Id> = rest.by_ref().take(3).collect();
            slice.iter().copied().for_each(visit);
            Ok(rest.next().and(slice.last().copied()))
        }

        fn slice_of_following(
            &self,
            _: Id,
            _: Option<Id>,
            _: &mut dyn FnMut(Id),
        ) -> Result<Option<Id>, FollowersError> {
            unreachable!("an audience asks for followers only")
        }
    }

    fn id(number: usize) -> Id {
        Id::integer(number as u64).unwrap()
    }

    fn groups(mut audience: Audience) -> Vec<(usize, Vec<ConnRef>)> {
        let mut groups = Vec::new();
        while let Some((worker, conns)) = audience.group() {
            groups.push((worker, conns.to_vec()));
            audience.next_group();
        }
        groups
    }

    /// Some thousand small worlds: connections under several ids, ids with several connections,
    /// subscriptions to oneself; against sets.
    #[test]
    fn audience_is_what_plain_sets_say() {
        let mut state = 7_u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % bound
        };
        for _ in 0..3_000 {
            let (directory, mut online, mut graph) =
                (Directory::default(), Vec::new(), Few(BTreeMap::new()));
            for slot in 0..below(30) {
                let conn = ConnRef::new(below(4), slot, below(9) as u32);
                let ids: BTreeSet<Id> = (0..1 + below(3)).map(|_| id(below(10))).collect();
                ids.iter().for_each(|&id| directory.login(id, conn));
                online.push((conn, ids));
            }
            for _ in 0..below(60) {
                graph.0.entry(id(below(10))).or_default().insert(id(below(10)));
            }
            let subject = id(below(10));
            let mut members = graph.0.get(&subject).cloned().unwrap_or_default();
            members.insert(subject);
            let hears = |(_, ids): &&(ConnRef, BTreeSet<Id>)| !ids.is_disjoint(&members);
            let expected: BTreeSet<ConnRef> =
                online.iter().filter(hears).map(|(conn, _)| *conn).collect();

            let mut audience = Audience::of_subject(subject);
            while audience.gather(&directory, &graph).unwrap() {}
            let groups = groups(audience);
            let mut found: Vec<ConnRef> =
                groups.iter().rev().flat_map(|(_, conns)| conns.clone()).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
            found.dedup_by_key(|conn| conn.worker());
            assert_eq!(found.len(), groups.len(), "one group a worker");
            assert!(
                groups
                    .iter()
                    .all(|(worker, conns)| conns.iter().all(|conn| conn.worker() == *worker))
            );
        }
    }
}
