//! Sends of what is kept, over a event_store that has room or not, and a disk that is slow or
//! fails.

#![expect(clippy::disallowed_types, reason = "no worker comes here")]

use std::sync::Mutex;

use hub::WhenDurable;
use hub::{
    Archive, ArchiveError, EventStore, KeptListener, KeptUpdatesOf, KeptUpdatesPage, Page, PageOf,
};

use super::*;

/// Keeps what begins with `k`.
#[derive(Default)]
struct Kept {
    /// Why there is no room, if there is none.
    full: Mutex<Option<NoRoomToKeep>>,
    always: bool,
    numbers: Mutex<Vec<u64>>,
    waiting: Mutex<Vec<(u64, WhenDurable)>>,
}

struct Room<'a>(&'a Kept);

impl Archive<Frame> for Kept {
    fn keeps(&self, id: &str) -> bool {
        id.starts_with('k')
    }

    fn page(&self, _: &str, _: PageOf) -> Result<Page<Frame>, ArchiveError> {
        Err(ArchiveError("nobody reads here".to_owned()))
    }

    fn keeps_all(&self, _: &dyn KeptListener) -> bool {
        false
    }

    fn heard(
        &self,
        _: &[Arc<dyn KeptListener>],
        _: KeptUpdatesOf,
    ) -> Result<KeptUpdatesPage<Frame>, ArchiveError> {
        Err(ArchiveError("nobody reads here".to_owned()))
    }

    fn number_of(&self, _: &str) -> Result<Option<u64>, ArchiveError> {
        Ok(None)
    }
}

impl EventStore<Frame> for Kept {
    fn reserve(
        &self,
        draft: &Draft,
    ) -> Result<Option<Box<dyn KeepRoom<Frame> + '_>>, NoRoomToKeep> {
        let is_kept = self.keeps(&draft.about()) || draft.also().any(|id| self.keeps(&id));
        match *self.full.lock().unwrap() {
            Some(why) if is_kept => Err(why),
            _ => Ok(is_kept.then(|| Box::new(Room(self)) as Box<dyn KeepRoom<Frame> + '_>)),
        }
    }

    fn is_always_durable(&self) -> bool {
        self.always
    }

    fn when_durable(&self, number: u64, done: WhenDurable) {
        self.waiting.lock().unwrap().push((number, done));
    }
}

impl KeepRoom<Frame> for Room<'_> {
    fn append(self: Box<Self>, event: &Event, _: u64) {
        self.0.numbers.lock().unwrap().push(event.number());
    }
}

fn keeping(kept: Kept) -> (Router, Arc<Kept>) {
    kept_by(router(HistoryLimits::default()), kept)
}

fn kept_by(router: Router, kept: Kept) -> (Router, Arc<Kept>) {
    let kept = Arc::new(kept);
    let event_store: Arc<FrameStore> = kept.clone();
    (router.with_event_store(Some(event_store)), kept)
}

#[test]
fn event_of_a_kept_subject_is_written_down_with_its_number() {
    let (router, kept) = keeping(Kept::default());
    let mut posted = Vec::new();
    for about in ["k1", "x", "k2"] {
        let mut sending = router.send(event(about, "1"));
        assert_eq!(post(&mut sending, &hub::Nobody).ready(), Some(0), "it waits for no disk");
        posted.push(sending.event().unwrap().number());
    }
    let mut alone = router.send(event("k1", "1").for_subjects_alone());
    post(&mut alone, &hub::Nobody);
    assert_eq!(*kept.numbers.lock().unwrap(), [posted[0], posted[2]]);
    assert!(kept.waiting.lock().unwrap().is_empty());
    assert!(router.keeps(&event("k", "1").draft) && !router.keeps(&event("x", "1").draft));
}

#[test]
fn send_without_room_is_not_posted_and_others_go_on() {
    let (router, kept) = keeping(Kept::default());
    let mut sending = router.send(event("k1", "1"));
    *kept.full.lock().unwrap() = Some(NoRoomToKeep::Queue);
    assert!(waits(&mut sending, &hub::Nobody));
    *kept.full.lock().unwrap() = Some(NoRoomToKeep::Disk);
    let before = router.event_ids().last();
    let refused = loop {
        match sending.step(&hub::Nobody).unwrap() {
            Step::More => {}
            step => break step,
        }
    };
    assert!(matches!(refused, Step::NotKept), "{refused:?}");
    assert_eq!(router.event_ids().last(), before, "it has no number");
    post(&mut router.send(event("x", "1")), &hub::Nobody);
    assert!(kept.numbers.lock().unwrap().is_empty());
    *kept.full.lock().unwrap() = None;
    post(&mut sending, &hub::Nobody);
    assert_eq!(kept.numbers.lock().unwrap().len(), 1);
}

#[test]
fn receipt_of_a_durable_event_waits_for_the_disk_and_says_if_that_fails() {
    for (always, durable) in [(false, true), (true, false)] {
        let (router, kept) = keeping(Kept { always, ..Kept::default() });
        for is_durable in [true, false] {
            let mut sending = router.send(Outgoing { durable, ..event("k1", "1") });
            let receipt = post(&mut sending, &hub::Nobody);
            assert_eq!(receipt.ready(), None, "it is not on disk");
            let number = sending.event().unwrap().number();
            let (waits_for, done) = kept.waiting.lock().unwrap().pop().unwrap();
            assert_eq!(waits_for, number);
            done(is_durable);
            assert_eq!((receipt.ready(), receipt.is_unsure()), (Some(0), !is_durable));
        }
        let mut unkept = router.send(Outgoing { durable, ..event("x", "1") });
        assert_eq!(post(&mut unkept, &hub::Nobody).ready(), Some(0));
    }
}

/// What the cluster's log has is posted on every node, whatever a node's disk says.
#[test]
fn event_with_a_number_of_the_cluster_is_posted_without_room_on_disk() {
    let (router, kept) = kept_by(of_cluster(), Kept::default());
    let id = |above| router.event_ids().id(router.event_ids().last() + above);
    let mut sending = router.send_numbered(event("k1", "1"), id(1));
    *kept.full.lock().unwrap() = Some(NoRoomToKeep::Queue);
    assert!(waits(&mut sending, &hub::Nobody));
    *kept.full.lock().unwrap() = Some(NoRoomToKeep::Disk);
    post(&mut sending, &hub::Nobody);
    assert!(sending.is_not_kept());
    let remembered = router.remember(event("k1", "1"), id(1), 5);
    assert!(matches!(remembered, Remembered::NotKept), "{remembered:?}");
    *kept.full.lock().unwrap() = Some(NoRoomToKeep::Queue);
    let place = id(1);
    let Remembered::Wait(same) = router.remember(event("k1", "1"), place, 5) else { panic!() };
    *kept.full.lock().unwrap() = None;
    assert!(matches!(router.remember(*same, place, 5), Remembered::Yes));
    let durable = Outgoing { durable: true, ..event("k1", "1") };
    let mut sending = router.send_numbered(durable, id(1));
    assert_eq!(post(&mut sending, &hub::Nobody).ready(), Some(0), "the log's order does not wait");
    assert_eq!(*kept.numbers.lock().unwrap(), [place.number(), place.number() + 1]);
}
