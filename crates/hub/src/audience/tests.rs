//! Audiences against plain sets, with others coming and going while they are gathered.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Subscribers in slices of three.
#[derive(Default)]
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

/// Numbers below what is asked for, the same at each run.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    move |bound| random.usize(..bound)
}

/// Takes all groups off a gathered audience, and holds them against what it said of itself.
fn taken(mut audience: Audience) -> Vec<ConnRef> {
    let needs: Vec<Need> = audience.needs().collect();
    assert!(needs.is_sorted_by(|one, next| one.worker < next.worker));
    let mut left: BTreeMap<usize, Need> =
        needs.into_iter().map(|room| (room.worker, room)).collect();
    let mut found: Vec<ConnRef> = Vec::new();
    while let Some((worker, conns)) = audience.take_group() {
        assert!((1..=GROUP_MAX).contains(&conns.len()));
        assert!(conns.is_sorted_by(|one, next| one < next));
        assert!(conns.iter().all(|conn| conn.worker() == worker));
        let room = left.get_mut(&worker).unwrap();
        (room.groups, room.targets) = (room.groups - 1, room.targets - conns.len());
        found.extend(conns.iter().rev());
    }
    assert!(left.values().all(|room| room.groups == 0 && room.targets == 0));
    found.reverse();
    assert!(found.is_sorted_by(|one, next| one < next), "each exactly once");
    found
}

fn gathered(subject: Id, directory: &Directory, graph: &Few) -> Vec<ConnRef> {
    let mut audience = Audience::of([subject], true);
    while audience.gather(directory, graph).unwrap() {}
    taken(audience)
}

/// Some thousand small worlds: connections under several ids, ids with several connections,
/// subscriptions to oneself; against sets.
#[test]
fn audience_is_what_plain_sets_say() {
    let mut below = numbers(7);
    for _ in 0..500 {
        let (directory, mut online, mut graph) =
            (Directory::default(), Vec::new(), Few(BTreeMap::new()));
        for slot in 0..below(60) {
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
        assert_eq!(gathered(subject, &directory, &graph), Vec::from_iter(expected));
    }
}

/// Several connections under the subject and its followers that overlap, over several slices and
/// buckets.
#[test]
fn large_audience_is_grouped_by_4096_and_has_nobody_twice() {
    let (directory, mut graph) = (Directory::default(), Few::default());
    graph.0.insert(id(0), (1..=7).map(id).collect());
    let mut expected = BTreeSet::new();
    let mut below = numbers(1);
    for n in 0..20_000 {
        let conn = ConnRef::new(n % 3, n / 3 * 2, 1);
        let ids: BTreeSet<usize> = (0..3).map(|_| below(8)).collect();
        ids.iter().for_each(|&n| directory.login(id(n), conn));
        expected.insert(conn);
    }
    assert_eq!(directory.connections(id(0)), gathered_alone(&directory, 0).len());
    assert_eq!(gathered(id(0), &directory, &graph), Vec::from_iter(expected));
}

fn gathered_alone(directory: &Directory, number: usize) -> Vec<ConnRef> {
    let mut audience = Audience::of([id(number)], false);
    while audience.gather(directory, &crate::Nobody).unwrap() {}
    taken(audience)
}

/// Each of a bucket's connections under fifteen ids: doubles are taken out before they pile up.
#[test]
fn doubles_do_not_pile_up_while_an_audience_is_gathered() {
    let (directory, mut graph) = (Directory::default(), Few::default());
    graph.0.insert(id(0), (1..=14).map(id).collect());
    for slot in 0..GROUP_MAX {
        (0..15).for_each(|n| directory.login(id(n), ConnRef::new(2, slot, 3)));
    }
    let mut audience = Audience::of([id(0)], true);
    while audience.gather(&directory, &graph).unwrap() {
        assert!(audience.buckets.sizes().all(|(_, conns)| conns <= 3 * GROUP_MAX));
    }
    assert_eq!(taken(audience).len(), GROUP_MAX);
}

/// Slots that get new connections while the audience is gathered: one bucket, several groups.
#[test]
fn bucket_of_more_than_a_group_comes_in_several() {
    let mut audience = Audience::default();
    let all: Vec<ConnRef> = (0..3 * GROUP_MAX)
        .map(|n| ConnRef::new(1, n % GROUP_MAX, (n / GROUP_MAX) as u32))
        .collect();
    audience.found = all.iter().copied().collect();
    audience.buckets.take_in(&mut audience.found);
    while audience.gather(&Directory::default(), &crate::Nobody).unwrap() {}
    let needs: Vec<Need> = audience.needs().collect();
    assert_eq!(needs, [Need { worker: 1, groups: 3, targets: 3 * GROUP_MAX }]);
    assert_eq!(taken(audience), Vec::from_iter(BTreeSet::from_iter(all)));
}

/// Log-ins and log-outs between the steps, against sets.
#[test]
fn who_stays_while_an_audience_is_gathered_is_in_it_once_and_who_left_before_is_not() {
    let mut below = numbers(3);
    for _ in 0..8 {
        let (directory, mut graph) = (Directory::default(), Few::default());
        graph.0.insert(id(0), (1..=5).map(id).collect());
        let mut online: BTreeSet<(ConnRef, usize)> = BTreeSet::new();
        let change = |below: &mut dyn FnMut(usize) -> usize, online: &mut BTreeSet<_>| {
            let pair = (ConnRef::new(below(3), below(5_000), below(2) as u32), below(6));
            if online.remove(&pair) {
                directory.logout(id(pair.1), pair.0);
            } else {
                online.insert(pair);
                directory.login(id(pair.1), pair.0);
            }
            pair
        };
        for _ in 0..60_000 {
            change(&mut below, &mut online);
        }
        let (mut stayed, mut seen_at_all) = (online.clone(), online.clone());
        let mut audience = Audience::of([id(0)], true);
        while audience.gather(&directory, &graph).unwrap() {
            for _ in 0..below(200) {
                let pair = change(&mut below, &mut online);
                stayed.remove(&pair);
                seen_at_all.insert(pair);
            }
        }
        let conns = |pairs: BTreeSet<(ConnRef, usize)>| -> BTreeSet<ConnRef> {
            pairs.into_iter().map(|(conn, _)| conn).collect()
        };
        let found = BTreeSet::from_iter(taken(audience));
        assert!(found.is_superset(&conns(stayed)), "somebody who stayed is missing");
        assert!(found.is_subset(&conns(seen_at_all)), "somebody who left before is there");
    }
}
