//! Tells connections who is in the rooms that they watch, and who comes and goes there.
//!
//! [`hub::Roster`] says what is to be told; here is what drives it: one task, which looks twenty
//! times a second what has changed, and at once when a worker asks for a list. It tells one thing
//! after the other, so that each list and what is told behind it fit each other
//! ([`engine::Watches`]).
//!
//! It is of this server alone: in a cluster each node has its own members. After an upgrade all who
//! watch are told whole lists.
//!
//! Cost while nothing changes: a load, twenty times a second. A change that nobody watches costs
//! two look-ups.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use engine::{Late, LateTask, TellStep, Telling, Watch, Watches};
use hub::{Id, Info, Manner, MemberChange, MemberList, News, Roster, leave_out};
use proto::members;
use tokio::task::yield_now;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::barrier::Barrier;
use crate::presence_channels;

/// How often it is looked what has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Graces that end in one go.
const OVER_SLICE: usize = 2048;

/// Lists that are answered in one go.
const ANSWERS_SLICE: usize = 64;

/// How often it is tried again where a mailbox is full: it rings nobody when it has room again.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// Tells for as long as the runtime lives, or until another server goes on, which is known at the
/// `barrier`. Who has gone is told to have left after `grace`.
pub async fn run(watches: Watches, barrier: Arc<Barrier>, grace: Duration) {
    let roster = Roster::new(Arc::clone(watches.members()), grace.as_millis() as u64);
    let mut teller = RoomTeller {
        watches: &watches,
        roster,
        begun: Instant::now(),
        news: Vec::new(),
        late: Late::default(),
        list: None,
    };
    let tell = async {
        let (mut looks, mut tries) = (every(LOOK), every(TRY_AGAIN));
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = poll_fn(|context| watches.questions().poll_any(context)) => {}
                _ = tries.tick(), if !teller.late.is_empty() => {
                    teller.catch_up().await;
                    continue;
                }
            }
            teller.look().await;
            teller.answer_some().await;
        }
    };
    tokio::select! {
        () = tell => {}
        () = barrier.moved() => {}
    }
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The list of the room `of`, as it is told everywhere.
pub fn list_text(of: &str, list: &MemberList) -> String {
    let texts = list
        .members
        .as_ref()
        .map(|members| members.iter().map(|(id, info)| (&**id, info.as_deref().map(Info::json))));
    members::list(of, list.count, texts)
}

struct RoomTeller<'w> {
    watches: &'w Watches,
    roster: Roster,
    begun: Instant,
    news: Vec<News>,
    /// What workers are to be told whose mailboxes have no room.
    late: Late,
    /// The last list that was made since the last look, unless something has changed: crowds ask
    /// for the same.
    list: Option<(Id, Arc<str>)>,
}

impl RoomTeller<'_> {
    /// Looks what has changed, and tells it.
    async fn look(&mut self) {
        // Who has left is in no list any more, also where nobody was to be told.
        self.list = None;
        let now_ms = self.now_ms();
        if self.roster.is_any_noted() {
            for stripe in 0..Roster::STRIPES {
                self.roster.look(stripe, now_ms, &mut self.news);
                self.tell_news().await;
            }
        }
        while self.roster.end_graces(now_ms, OVER_SLICE, &mut self.news) {
            self.tell_news().await;
            yield_now().await;
        }
        self.tell_news().await;
    }

    async fn tell_news(&mut self) {
        if self.news.is_empty() {
            return;
        }
        self.list = None;
        let mut news = std::mem::take(&mut self.news);
        leave_out(&mut news);
        for news in news.drain(..) {
            // Where nobody watches any more nobody is to be told.
            if let Some(of) = self.watches.name(news.room) {
                let text = match news.manner {
                    Manner::List => self.list_of(news.room, &of),
                    Manner::Whole | Manner::Count => text(&of, &news),
                };
                self.tell(news.room, text).await;
            }
        }
        self.news = news;
    }

    async fn tell(&mut self, room: Id, text: Arc<str>) {
        let telling = self.watches.tell(room, text);
        self.tell_all(telling).await;
    }

    async fn tell_all(&mut self, mut telling: Telling<'_>) {
        while telling.step(&mut self.late) == TellStep::More {
            yield_now().await;
        }
    }

    /// Makes up for a slice of what each worker was not told, as far as its mailbox has room now.
    async fn catch_up(&mut self) {
        self.list = None;
        for worker in self.late.workers() {
            for _ in 0..ANSWERS_SLICE {
                if !self.watches.has_room(worker) {
                    break;
                }
                match self.late.take(worker) {
                    Some(LateTask::Tell(room)) => self.tell_late(worker, room).await,
                    Some(LateTask::Answer(watch)) => self.answer(watch).await,
                    None => break,
                }
            }
            yield_now().await;
        }
    }

    /// All that was told of the room is in its list: nothing is told in between.
    async fn tell_late(&mut self, worker: usize, room: Id) {
        debug_assert!(self.news.is_empty(), "a list holds more than was told");
        if let Some(of) = self.watches.name(room) {
            let list = self.list_of(room, &of);
            let telling = self.watches.tell_late(worker, room, list);
            self.tell_all(telling).await;
        }
    }

    /// Answers a slice of those who ask for a list: what changes is told in between.
    async fn answer_some(&mut self) {
        for _ in 0..ANSWERS_SLICE {
            let Some(watch) = self.watches.questions().take_and_count() else { return };
            self.answer(watch).await;
        }
        yield_now().await;
    }

    async fn answer(&mut self, watch: Watch) {
        // A list is not made for who has asked anew since, or has gone.
        let list = if watch.is_waiting() { self.list_for(watch.room()).await } else { None };
        match list {
            Some(list) if !self.watches.answer(&watch, &list) => self.late.keep(watch),
            _ => self.watches.questions().done(1, 0),
        }
    }

    /// The list of a room, behind all that is told before.
    async fn list_for(&mut self, room: Id) -> Option<Arc<str>> {
        // Who asks was logged in before: it finds itself in the list.
        if self.roster.look_at(room, self.now_ms(), &mut self.news) {
            self.list = None;
            self.tell_news().await;
        }
        let known = self.list.as_ref().filter(|(of, _)| *of == room);
        if let Some((_, list)) = known {
            return Some(Arc::clone(list));
        }
        let list = self.list_of(room, &self.watches.name(room)?);
        self.list = Some((room, Arc::clone(&list)));
        Some(list)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn list_of(&self, room: Id, of: &str) -> Arc<str> {
        let list = self.roster.list(room);
        presence_channels::whole(of, &list).unwrap_or_else(|| list_text(of, &list)).into()
    }
}

/// What is told of a change in the room `of`.
fn text(of: &str, news: &News) -> Arc<str> {
    let News { sub, change, count, manner, .. } = news;
    if let Some(text) = presence_channels::changed(of, news) {
        debug_assert_eq!(*manner, Manner::Whole, "a channel has a bound");
        return text.into();
    }
    let text = match (manner, change) {
        (Manner::Whole, MemberChange::Joined(info)) => {
            members::joined(of, sub, info.as_ref().map(|info| info.json()))
        }
        (Manner::Whole, MemberChange::Left) => members::left(of, sub),
        (Manner::Count | Manner::List, change) => {
            members::counted(of, matches!(change, MemberChange::Joined(_)), *count)
        }
    };
    text.into()
}
