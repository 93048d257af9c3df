//! The control plane of rooms, as the real one does it.

use std::sync::Arc;

use hub::{
    Manner, MemberChange, MemberList, MemberUpdate, Roster, ToldRooms, ToldSince, leave_out,
};
use proto::members;

use super::super::channel_texts;
use super::super::one::One;
use super::GRACE_MS;
use crate::said::ToldText;
use crate::watch::{Late, LateTask, TellStep, Telling, Watch, Watches};

/// The control plane, as the real one does it.
pub(in super::super) struct Plane {
    pub(in super::super) watches: Watches,
    pub(in super::super) roster: Roster,
    pub(super) late: Late,
    told: ToldRooms,
    /// Channels have no place: other nodes were first.
    pub(in super::super) is_full: bool,
}

impl Plane {
    pub(in super::super) fn of(one: &One) -> Plane {
        let watches = one.server.watches.clone().unwrap();
        let roster = Roster::new(Arc::clone(watches.members()), GRACE_MS);
        let told = ToldRooms::new(Arc::clone(watches.names()));
        Plane { watches, roster, late: Late::default(), told, is_full: false }
    }

    /// Keeps nothing of rooms that polls have asked for.
    pub(super) fn forget(&mut self) {
        self.told.forget(u64::MAX, &mut self.roster, |_| false);
    }

    fn list(&self, of: &str, room: hub::Id) -> Arc<str> {
        list_text(of, &self.roster.list(room))
    }

    /// Looks what has changed at this moment, and answers nobody: whether each has come, or left.
    pub(in super::super) fn looked(&mut self, one: &One) -> Vec<bool> {
        let (now_ms, mut updates) = (one.server.clock.now_ms(), Vec::new());
        (0..Roster::STRIPES).for_each(|stripe| _ = self.roster.look(stripe, now_ms, &mut updates));
        updates.iter().map(|update| matches!(update.change, MemberChange::Joined(_))).collect()
    }

    /// Tells what has changed, and answers who asks. In between the shard has its turns, or not.
    pub(in super::super) fn work(&mut self, one: &mut One, mut between: impl FnMut(&mut One)) {
        let (now_ms, mut updates) = (one.server.clock.now_ms(), Vec::new());
        if self.roster.is_any_noted() {
            (0..Roster::STRIPES)
                .for_each(|stripe| _ = self.roster.look(stripe, now_ms, &mut updates));
        }
        while self.roster.end_graces(now_ms, 2, &mut updates) {}
        leave_out(&mut updates);
        for update in updates {
            let MemberUpdate { room, sub, change, manner, .. } = &update;
            let room = *room;
            assert_eq!(*manner, Manner::Whole, "so few are always listed");
            // Nobody keeps the name where nobody watches any more: a poll was answered meanwhile.
            let Some(of) = self.watches.name(room) else { continue };
            let text = channel_texts::change(&of, sub, change).unwrap_or_else(|| match change {
                MemberChange::Joined(info) => {
                    members::joined(&of, sub, info.as_ref().map(hub::Info::json))
                }
                MemberChange::Left => members::left(&of, sub),
            });
            let text = text.into();
            let place = self.told.changed(&update, &text);
            tell(self.watches.tell(room, ToldText { text, place }), &mut self.late);
            between(one);
        }
        for worker in self.late.workers() {
            while self.watches.has_room(worker)
                && let Some(task) = self.late.take(worker)
            {
                match task {
                    LateTask::Tell(room) => self.tell_late(worker, room),
                    LateTask::Answer(watch) => self.answer(watch),
                }
            }
        }
        while let Some(watch) = self.watches.questions().take_and_count() {
            self.answer(watch);
            between(one);
        }
    }

    fn tell_late(&mut self, worker: usize, room: hub::Id) {
        let text = self.list(&self.watches.name(room).unwrap(), room);
        let list = ToldText { text, place: self.told.place(room) };
        tell(self.watches.tell_late(worker, room, list), &mut self.late);
    }

    fn answer(&mut self, watch: Watch) {
        let of = self.watches.name(watch.room()).filter(|_| watch.is_waiting());
        let told = of.map(|of| match watch.is_poll() {
            true => self.told_since(&of, &watch),
            false => self.list(&of, watch.room()).into(),
        });
        let is_full = self.is_full && watch.seat().is_some();
        let answer = |list: &ToldText| match is_full {
            true => self.watches.refuse(&watch),
            false => self.watches.answer(&watch, list),
        };
        match told {
            Some(list) if !answer(&list) => self.late.keep(watch),
            _ => self.watches.questions().done(1, 0),
        }
    }

    fn told_since(&mut self, of: &str, watch: &Watch) -> ToldText {
        let (room, list) = (watch.room(), self.roster.list(watch.room()));
        let text = list_text(of, &list);
        // Its rooms are forgotten when a test says so.
        let asked = self.told.ask((room, of), watch.after(), 0, &mut self.roster, || Some(list));
        match asked.unwrap() {
            ToldSince::Changes(text, place) => ToldText { text, place: Some(place) },
            ToldSince::List(place) => ToldText { text, place: Some(place) },
        }
    }
}

fn tell(mut telling: Telling<'_>, late: &mut Late) {
    while telling.step(late) != TellStep::Done {}
}

fn list_text(of: &str, list: &MemberList) -> Arc<str> {
    if let Some(text) = channel_texts::list(of, list) {
        return text.into();
    }
    let texts = list.members.as_ref().map(|members| {
        members.iter().map(|(id, info)| (&**id, info.as_ref().map(hub::Info::json)))
    });
    members::list(of, list.count, texts).into()
}

/// All that is noted is told, and all graces end.
pub(in super::super) fn settle(one: &mut One, plane: &mut Plane) {
    for _ in 0..3 {
        plane.work(one, |_| {});
        while one.turn_after(GRACE_MS) {}
    }
}
