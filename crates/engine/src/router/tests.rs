//! Many sends under way at one time, against sets.

mod channels;
mod keeping;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hub::{ConnRef, Epoch, Followers, FollowersError, Id, Since, Tag};
use proto::Frame;

use super::*;
use crate::mailbox::Targets;
use crate::sim::Random;

const WORKERS: usize = 3;

/// Who follows whom, in slices of three.
struct Graph(BTreeMap<Id, BTreeSet<Id>>);

impl Followers for Graph {
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
        Ok(None)
    }
}

fn router(history: HistoryLimits) -> Router {
    let mailboxes = (0..WORKERS).map(|_| Arc::new(Mailbox::new().unwrap())).collect();
    Router::new(
        Arc::new(Names::new([1; 16])),
        Arc::new(Directory::default()),
        mailboxes,
        Arc::new(Replies::new().unwrap()),
        Arc::new(EventIds::new(Epoch::begin(Tag::of(0), 0, 0))),
        history,
        Clock::System,
    )
}

fn event(about: &str, data: &str) -> Outgoing {
    Outgoing::new(about, data).unwrap()
}

fn text(id: &str) -> IdText<'_> {
    IdText::parse(id).unwrap()
}

/// A crowd of which each connection has an id of its own, and subjects with few and many followers.
fn scene(router: &Router) -> (Graph, Vec<ConnRef>) {
    let mut graph = Graph(BTreeMap::new());
    let conns: Vec<ConnRef> = (0..60).map(|n| ConnRef::new(n % WORKERS, n / WORKERS, 1)).collect();
    for (number, &conn) in (0..).zip(&conns) {
        let id = Id::integer(1_000 + number).unwrap();
        router.directory.login(id, conn);
        for subject in 1..8 {
            if number % subject == 0 {
                graph.0.entry(Id::integer(subject).unwrap()).or_default().insert(id);
            }
        }
    }
    (graph, conns)
}

/// Whatever the order in which senders take their steps, with audiences of 9 to 60 that take up to
/// 20 of them, and mailboxes that fill up in the middle of a send.
#[test]
fn connection_hears_growing_numbers_from_many_senders() {
    for history in [HistoryLimits::default(), HistoryLimits::OFF] {
        let mut random = Random::of_test();
        let router = router(history);
        let (graph, conns) = scene(&router);
        let mut sendings: Vec<(u64, Sending<'_>)> = Vec::new();
        let mut heard: HashMap<ConnRef, Vec<(u64, u64)>> = HashMap::new();
        let (mut posted, mut full) = (BTreeMap::new(), 0);
        for step in 0..200_000 {
            if sendings.len() < 20 && step < 100_000 {
                let subject = 1 + random.below(7) as u64;
                let about = subject.to_string();
                sendings.push((subject, router.send(event(&about, "1"))));
            }
            if sendings.is_empty() {
                break;
            }
            let index = random.below(sendings.len());
            match sendings[index].1.step(&graph).unwrap() {
                Step::More => {}
                Step::MailboxFull => full += 1,
                Step::Stale | Step::NotKept => unreachable!("numbers are given out"),
                Step::Posted(_) => {
                    let (subject, sending) = sendings.swap_remove(index);
                    posted.insert(sending.event().unwrap().number(), subject);
                }
            }
            // Rarely, so that boxes are full most of the time, and at the end often.
            if random.one_in(10_000) || step >= 100_000 {
                take_mail(&router, random.below(WORKERS), &mut heard);
            }
        }
        (0..WORKERS).for_each(|worker| take_mail(&router, worker, &mut heard));
        assert!(sendings.is_empty() && full > 100 && posted.len() > 2_000);
        for (number, conn) in (0_u64..).zip(conns) {
            let due = posted.iter().filter(|(_, subject)| number.is_multiple_of(**subject));
            let due: Vec<(u64, u64)> = due.map(|(&number, &subject)| (number, subject)).collect();
            let differ = heard[&conn].iter().zip(&due).position(|(heard, due)| heard != due);
            assert_eq!(differ, None, "all, in the order of their numbers");
            assert_eq!(heard[&conn].len(), due.len());
        }
    }
}

fn take_mail(router: &Router, worker: usize, heard: &mut HashMap<ConnRef, Vec<(u64, u64)>>) {
    while let Some(Mail::Deliver { event, targets, .. }) = router.mailboxes[worker].take() {
        let about = event.json().split('"').nth(7).unwrap().parse().unwrap();
        for target in targets {
            heard.entry(target).or_default().push((event.number(), about));
        }
    }
}

fn send(router: &Router, about: &str, data: &str) -> Arc<Event> {
    let mut sending = router.send(event(about, data));
    assert!(matches!(sending.step(&hub::Nobody), Ok(Step::Posted(_))));
    sending.event().unwrap().clone()
}

#[test]
fn event_for_a_name_that_nobody_has_is_remembered_under_it() {
    let router = router(HistoryLimits::default());
    let sent = send(&router, "bob", "1");
    let bob = router.names.acquire(text("bob"));
    let history = router.history().unwrap();
    let mut events = Vec::new();
    let since = history.since(&[bob], 0, history.now(), hub::Slice::ALL, &mut events);
    assert_eq!(since, Since::Read { covered: true, subjects: 1, up_to: u64::MAX });
    assert!(Arc::ptr_eq(&events[0], &sent), "the event in flight itself");
}

/// Fills the mailbox of `worker`.
fn fill(router: &Router, worker: usize) {
    let (stub, _) = Receipt::for_task(&router.replies);
    let disconnect = || Mail::Close {
        reason: DisconnectReason::LoggedOut,
        targets: Targets::new(),
        stub: stub.another(),
    };
    while let Some(mut room) = router.mailboxes[worker].reserve(1, 0) {
        room.post(disconnect());
    }
}

/// A follower of "rj" on each of two workers, the mailbox of the second of which is full.
fn half_full(router: &Router) -> Graph {
    let mut graph = Graph(BTreeMap::new());
    let rj = router.names.acquire(text("rj"));
    for worker in 0..2 {
        let id = Id::integer(worker as u64).unwrap();
        router.directory.login(id, ConnRef::new(worker, 0, 0));
        graph.0.entry(rj).or_default().insert(id);
    }
    fill(router, 1);
    graph
}

/// Steps a send until it is not only gathering. Whether it waits for room then.
fn waits(sending: &mut Sending<'_>, followers: &dyn Followers) -> bool {
    loop {
        match sending.step(followers).unwrap() {
            Step::More => {}
            Step::MailboxFull => return true,
            Step::Posted(_) | Step::Stale | Step::NotKept => return false,
        }
    }
}

/// Steps a send until it is posted.
fn post(sending: &mut Sending<'_>, followers: &dyn Followers) -> Receipt {
    loop {
        match sending.step(followers).unwrap() {
            Step::More => {}
            Step::Posted(receipt) => return receipt,
            Step::MailboxFull | Step::Stale | Step::NotKept => panic!("there is room"),
        }
    }
}

#[test]
fn send_that_meets_a_full_mailbox_is_posted_to_nobody_and_has_no_number() {
    let router = router(HistoryLimits::default());
    let graph = half_full(&router);
    let before = router.event_ids.last();
    let mut stuck = router.send(event("rj", "1"));
    assert!(waits(&mut stuck, &graph) && waits(&mut stuck, &graph));
    assert!(stuck.event().is_none() && router.mailboxes[0].take().is_none());
    assert_eq!(router.event_ids.last(), before);
    drop(stuck);
    assert_eq!(router.history().unwrap().stats().events, 0, "it has never been");
}

#[test]
fn full_mailbox_holds_up_nobody_who_does_not_need_it() {
    let router = router(HistoryLimits::default());
    let graph = half_full(&router);
    let mut stuck = router.send(event("rj", "1"));
    assert!(waits(&mut stuck, &graph));
    let other = send(&router, "0", "2");
    assert!(matches!(router.mailboxes[0].take(), Some(Mail::Deliver { event, .. })
        if event.number() == other.number()));
    while router.mailboxes[1].take().is_some() {}
    post(&mut stuck, &graph);
    assert!(stuck.event().unwrap().number() > other.number());
    for worker in 0..2 {
        assert!(matches!(router.mailboxes[worker].take(), Some(Mail::Deliver { .. })));
    }
}

/// A client that comes back while a send about what it hears waits is answered at once. It was not
/// there when that send looked its audience up, and hears the event all the same.
#[test]
fn resume_does_not_wait_for_a_send_that_waits_and_hears_it_later() {
    let router = router(HistoryLimits::default());
    let mut graph = half_full(&router);
    let mut stuck = router.send(event("rj", "1"));
    assert!(waits(&mut stuck, &graph));
    let (late, conn) = (Id::integer(9).unwrap(), ConnRef::new(2, 5, 0));
    router.directory.login(late, conn);
    let rj = router.names.lookup(text("rj")).unwrap();
    graph.0.entry(rj).or_default().insert(late);
    let mut events = Vec::new();
    let history = router.history().unwrap();
    let since = history.since(&[rj], 0, history.now(), hub::Slice::ALL, &mut events);
    assert_eq!(
        (since, events.len()),
        (Since::Read { covered: true, subjects: 1, up_to: u64::MAX }, 0)
    );
    while router.mailboxes[1].take().is_some() {}
    post(&mut stuck, &graph);
    assert!(matches!(router.mailboxes[2].take(), Some(Mail::Deliver { targets, .. })
        if targets[..] == [conn]));
}

#[test]
fn send_that_is_given_up_leaves_no_name() {
    let router = router(HistoryLimits::default());
    router.directory.login(Id::integer(7).unwrap(), ConnRef::new(0, 0, 0));
    let bob = router.names.acquire(text("bob"));
    router.directory.login(bob, ConnRef::new(0, 1, 0));
    fill(&router, 0);
    let mut stuck = router.send(event("bob", "1"));
    assert!(waits(&mut stuck, &hub::Nobody));
    router.names.release(bob);
    drop(stuck);
    assert!(router.names.is_empty(), "it was never sent");
}

#[test]
fn event_for_one_id_reaches_its_connections_alone_and_is_not_remembered() {
    let router = router(HistoryLimits::default());
    let rj = Id::integer(1).unwrap();
    router.directory.login(rj, ConnRef::new(0, 1, 0));
    let mut sending = router.send(event("1", "\"x\"").for_subjects_alone());
    // Whose followers are not even asked for.
    assert!(matches!(sending.step(&Everybody), Ok(Step::Posted(_))));
    let mut heard = HashMap::new();
    take_mail(&router, 0, &mut heard);
    assert_eq!(heard.len(), 1);
    let history = router.history().unwrap();
    let mut events = Vec::new();
    history.since(&[rj], 0, history.now(), hub::Slice::ALL, &mut events);
    assert!(events.is_empty());
}

/// Followers who must not be asked for.
struct Everybody;

impl Followers for Everybody {
    fn slice(
        &self,
        _: Id,
        _: Option<Id>,
        _: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        panic!("an event for one id has no followers")
    }

    fn slice_of_following(
        &self,
        _: Id,
        _: Option<Id>,
        _: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        panic!("an event for one id has no followers")
    }
}

#[test]
fn event_that_was_a_term_keeps_it() {
    let router = router(HistoryLimits::default());
    let term = Frame::bare(&[b"term"]);
    let mut sending = router.send(Outgoing { term: Some(term), ..event("1", "1") });
    assert!(matches!(sending.step(&hub::Nobody), Ok(Step::Posted(_))));
    let event = sending.event().unwrap();
    let kept = event.frame(TERM_SLOT, |_| unreachable!("it has one from the start"));
    assert_eq!(kept.body(), b"term");
}

fn of_cluster() -> Router {
    let mailboxes = (0..WORKERS).map(|_| Arc::new(Mailbox::new().unwrap())).collect();
    Router::new(
        Arc::new(Names::new([1; 16])),
        Arc::new(Directory::default()),
        mailboxes,
        Arc::new(Replies::new().unwrap()),
        Arc::new(EventIds::of_cluster(Epoch::begin(Tag::of(0), 0, 0))),
        HistoryLimits::default(),
        Clock::System,
    )
}

#[test]
fn sends_that_are_gathered_ahead_keep_nobody_waiting_and_are_gathered_anew_for_who_comes() {
    let router = of_cluster();
    let number = |above| router.event_ids.id(router.event_ids.last() + above);
    let begin = |above| router.send_numbered(event("7", "1"), number(above));
    let (mut first, mut second) = (begin(3), begin(4));
    assert!(second.gather(&hub::Nobody).unwrap() && first.gather(&hub::Nobody).unwrap());
    let (history, subject) = (router.history().unwrap(), Id::integer(7).unwrap());
    let look = || {
        let slice = hub::Slice::ALL;
        history.since(&[subject], 0, history.now(), slice, &mut Vec::new())
    };
    let conn = ConnRef::new(1, 1, 1);
    router.directory.login(subject, conn);
    assert!(matches!(look(), Since::Read { covered: true, .. }), "nobody waits for them");
    for sending in [&mut first, &mut second] {
        assert!(matches!(sending.post(), Step::More), "it lacks who has come");
        assert_eq!(look(), Since::Pending, "from now on it is waited for");
        assert!(sending.gather(&hub::Nobody).unwrap());
        assert!(matches!(sending.post(), Step::Posted(_)));
        let Some(Mail::Deliver { event, targets, .. }) = router.mailboxes[1].take() else {
            panic!("no mail")
        };
        assert_eq!((event.number(), &*targets), (router.event_ids.last(), &[conn][..]));
    }
}

#[test]
fn number_that_does_not_grow_or_is_of_another_epoch_is_never_posted() {
    let router = of_cluster();
    let base = router.event_ids.last();
    let begin = |id| router.send_numbered(event("7", "1"), id);
    let stale = |id| matches!(begin(id).step(&hub::Nobody), Ok(Step::Stale));
    let id = |above| router.event_ids.id(base + above);
    assert!(matches!(begin(id(5)).step(&hub::Nobody), Ok(Step::Posted(_))));
    assert!(stale(id(5)) && stale(id(4)));
    let old = id(6);
    let low = Epoch { tag: Tag::of(1 << 63), base: base + 4, until: u64::MAX };
    assert_eq!(router.begin_epoch(low), GapStep::Behind);
    assert_eq!(router.begin_epoch(Epoch { base: base + 5, ..low }), GapStep::Told);
    assert!(stale(old) && stale(id(5)));
    assert!(matches!(begin(id(6)).step(&hub::Nobody), Ok(Step::Posted(_))));
    assert!(matches!(router.remember(event("7", "1"), id(6), 0), Remembered::Stale));
    // A gap needs room in each mailbox, and changes nothing without.
    fill(&router, 1);
    let gaps = router.event_ids.begin_stream();
    assert_eq!(router.gap_to_all(), GapStep::Wait);
    assert_eq!(router.lose_up_to(base + 99), GapStep::Wait);
    assert_eq!(router.event_ids.begin_stream(), gaps);
}
