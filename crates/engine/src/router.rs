//! The router: finds the audience of an event and hands it to the workers.
//!
//! It runs on the sender's thread. A send is a small state machine, [`Sending`], because two things
//! may make it pause. An audience of many thousands is walked slice by slice, and a worker's
//! mailbox may be full. What to do in a pause (yield, sleep, give up) is the caller's to say.
//!
//! A send is posted to all of its audience or to nobody. Once the audience is gathered, room is
//! reserved in each mailbox that it needs. Where one is full, the send gives all room back, waits
//! without a number, and holds up nobody. With room everywhere it takes its turn ([`Posting`]). The
//! event gets its number, is recorded in the [history](History) and posted to all mailboxes,
//! without a wait. Only then has the next one its turn. So every connection hears growing numbers,
//! "I have heard all up to this number" is exact, and what has a number was posted.
//!
//! In a cluster numbers come from its log ([`Router::send_numbered`]), and a node that has read
//! them posts in their order. A send is in two parts, so that audiences need not be looked up one
//! after the other. Many may [gather](Sending::gather) at a time, in any order, and each is
//! [posted](Sending::post) when it is the next one. Who comes back in between is not kept waiting
//! and misses nothing: the audience is gathered anew then.
//!
//! A typical audience of 16 costs one look into the store, 16 into the directory, and one sort of
//! 16 numbers. Then come one mail per worker that has a listener, and a record in the history.

mod given;
mod sending;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hub::{Audience, Changes, ConnRef, Directory, DisconnectReason, EventId, EventIds, KEY_MARK};
use hub::{Draft, HistoryLimits, HistoryRules, Id, IdText, KeepRoom, Names, NoRoomToKeep};
use proto::Frame;
use smallvec::SmallVec;
use sync::posting::Posting;
use sync::replies::Replies;
use topics::Topics;

pub use self::given::{GapStep, Remembered};
pub use self::sending::Sending;
use self::sending::{Drafted, Reservations, ToAll};
use crate::clock::Clock;
use crate::mailbox::{Mail, Mailbox};
use crate::pusher_apps::PusherApps;
use crate::receipt::Receipt;
use crate::{Event, EventArchive, FrameStore, History, Outgoing, TERM_SLOT};

/// Room on disk for an event, if it is kept there.
type RoomToKeep<'r> = Option<Box<dyn KeepRoom<Frame> + 'r>>;

/// Finds audiences and posts mail. Shared by all senders.
pub struct Router {
    names: Arc<Names>,
    directory: Arc<Directory>,
    mailboxes: Arc<[Arc<Mailbox>]>,
    replies: Arc<Replies>,
    event_ids: Arc<EventIds>,
    /// `None` when nothing is remembered.
    history: Option<Arc<History>>,
    /// `None` when nothing is kept on disk.
    archive: Option<Arc<EventArchive>>,
    event_store: Option<Arc<FrameStore>>,
    /// `None` where no app of the Pusher protocol is served.
    pusher: Option<Arc<PusherApps>>,
    /// `None` where the Mercure protocol is not served.
    topics: Option<Arc<Topics>>,
    posting: Posting,
    clock: Clock,
}

/// What a step of a send came to.
#[derive(Debug)]
pub enum Step {
    /// The audience is large and a slice was walked, or another send is being posted: others may
    /// have their turn before the next step.
    More,
    /// A mailbox that this send needs is full: try again when its worker has had time to work.
    /// Nothing is posted, and the event has no number.
    MailboxFull,
    /// All mail is posted. The receipt tells how many connections it reached.
    Posted(Receipt),
    /// Of a [numbered](Router::send_numbered) send alone: its number is not above all that were
    /// posted, or its epoch is over. It is never posted, and not to be stepped again.
    Stale,
    /// One of its subjects is kept, and the disk is full or fails. Nothing is posted, and the event
    /// has no number.
    NotKept,
}

impl Router {
    pub(crate) fn new(
        names: Arc<Names>,
        directory: Arc<Directory>,
        mailboxes: Arc<[Arc<Mailbox>]>,
        replies: Arc<Replies>,
        event_ids: Arc<EventIds>,
        history: HistoryLimits,
        clock: Clock,
    ) -> Router {
        let history = history.is_on().then(|| Arc::new(History::new(names.clone(), history)));
        let posting = Posting::default();
        Router {
            names,
            directory,
            mailboxes,
            replies,
            event_ids,
            history,
            archive: None,
            event_store: None,
            pusher: None,
            topics: None,
            posting,
            clock,
        }
    }

    /// This router, of which some events are kept on disk. Nothing has been sent yet.
    pub(crate) fn with_event_store(self, event_store: Option<Arc<FrameStore>>) -> Router {
        let archive = event_store.clone().map(|event_store| event_store as Arc<EventArchive>);
        Router { archive, event_store, ..self }
    }

    /// This router, which remembers last events of channels of these apps.
    pub(crate) fn with_pusher(self, pusher: Option<Arc<PusherApps>>) -> Router {
        if let Some(apps) = &pusher {
            apps.cached().set_history(self.history.clone());
            apps.set_event_ids(&self.event_ids);
        }
        Router { pusher, ..self }
    }

    /// This router, beside these tables of topics.
    pub(crate) fn with_topics(self, topics: Option<Arc<Topics>>) -> Router {
        Router { topics, ..self }
    }

    /// Who listens to what by the Mercure protocol; `None` where that is not served.
    pub fn topics(&self) -> Option<&Arc<Topics>> {
        self.topics.as_ref()
    }

    /// The last event of the channel with this key, and for how many seconds it is kept, where the
    /// channel caches it.
    pub fn cached_event(&self, key: IdText<'_>) -> Option<(Arc<Event>, u64)> {
        let (apps, key) = (self.pusher.as_ref()?, self.names.lookup(key)?);
        let left_ms = apps.cached().left_ms(key, self.clock.monotonic_ms())?;
        Some((apps.cached().last(key)?, left_ms.div_ceil(1000)))
    }

    /// Whether there may be such events.
    pub fn caches_events(&self) -> bool {
        self.pusher.is_some()
    }

    /// Forgets a slice of those whose time is over. Whether there are more.
    pub fn forget_cached(&self) -> bool {
        let now_ms = self.clock.monotonic_ms();
        self.pusher.as_ref().is_some_and(|apps| apps.cached().forget_old(&self.names, now_ms))
    }

    /// From now on what is kept is read from `archive`.
    #[cfg(test)]
    pub(crate) fn set_archive(&mut self, archive: Arc<EventArchive>) {
        self.archive = Some(archive);
    }

    /// This router, which remembers by `rules` beside the `limits` that it was given, and of what
    /// is kept on disk no more than that keeps. Nothing has been sent yet.
    pub(crate) fn with_rules(self, limits: HistoryLimits, rules: &HistoryRules) -> Router {
        let history = limits.is_on().then(|| {
            let history = History::with_rules(self.names.clone(), limits, rules.clone());
            Arc::new(match self.archive.clone() {
                Some(archive) => {
                    history.with_kept(archive.bounds(), move |id| archive.rule_place(id))
                }
                None => history,
            })
        });
        Router { history: history.or(self.history), ..self }
    }

    /// Begins to hand an event to its audience.
    pub fn send(&self, outgoing: Outgoing) -> Sending<'_> {
        self.begin(outgoing, None)
    }

    fn begin(&self, outgoing: Outgoing, id: Option<EventId>) -> Sending<'_> {
        let remembered = self.history.as_ref().filter(|_| is_for_history(&outgoing));
        let (mut begun, mut known) = (None, SmallVec::<[Id; 1]>::new());
        outgoing.draft.subjects(|subjects| match remembered {
            Some(history) => {
                let begun = begun.insert(history.begin(subjects));
                known.extend_from_slice(begun.subjects());
            }
            None => known.extend(subjects.iter().filter_map(|&about| self.names.lookup(about))),
        });
        let mut sending = Sending::new(self, self.audience(&outgoing, &known));
        sending.draft = Some(Drafted { outgoing, begun, id });
        sending
    }

    /// The audience of an event about `subjects`. Beside theirs it has the subscribers of channels
    /// that are shared with them.
    fn audience(&self, outgoing: &Outgoing, subjects: &[Id]) -> Audience {
        let shared =
            self.pusher.as_ref().map(|apps| apps.shared_keys(&self.names, &outgoing.draft));
        let shared = shared.unwrap_or_default();
        Audience::of(subjects.iter().copied().chain(shared), outgoing.followed)
    }

    /// Begins to end all connections of `id`.
    pub fn logout(&self, id: IdText<'_>) -> Sending<'_> {
        let mut sending = Sending::new(self, Audience::of(self.names.lookup(id), false));
        sending.said = Some(ToAll::Disconnect(DisconnectReason::LoggedOut));
        sending
    }

    /// Begins to tell all connections of `id` something that is no event.
    pub fn tell(&self, id: IdText<'_>, text: Arc<str>) -> Sending<'_> {
        let mut sending = Sending::new(self, Audience::of(self.names.lookup(id), false));
        sending.said = Some(ToAll::Text(text));
        sending
    }

    /// How many connections are logged in under `id`.
    pub fn connections(&self, id: IdText<'_>) -> usize {
        self.names.lookup(id).map_or(0, |id| self.directory.connections(id))
    }

    /// How many connections are logged in under `id`.
    pub fn connections_of(&self, id: Id) -> u64 {
        self.directory.connections(id) as u64
    }

    /// How many connections the app with this id has.
    pub fn app_connections(&self, app: &str) -> u64 {
        let served = self.pusher.as_ref().and_then(|apps| apps.by_id(app));
        served.map_or(0, |served| served.usage.connections().into())
    }

    /// Shows the next connections of `id` behind `after`, `most` at most, to `visit`, which only
    /// notes them. The last one, if there are more.
    pub fn walk(
        &self,
        id: Id,
        after: Option<ConnRef>,
        most: usize,
        visit: impl FnMut(ConnRef),
    ) -> Option<ConnRef> {
        self.directory.walk(id, after, most, visit)
    }

    /// A number that no event has, above all that were posted. `None` while another is being
    /// posted.
    pub fn mark(&self) -> Option<EventId> {
        let _turn = self.posting.take()?;
        let id = self.number(None)?;
        self.event_ids.set_posted(id.number());
        Some(id)
    }

    /// Which ids come and go, for the one who wants to hear of it.
    pub fn changes(&self) -> &Changes {
        self.directory.changes().expect("the engine's directory notes them")
    }

    /// Whether anybody is logged in under `id`.
    pub fn is_online(&self, id: Id) -> bool {
        self.directory.connections(id) > 0
    }

    /// How many ids are online.
    pub fn ids_online(&self) -> usize {
        self.directory.ids_online()
    }

    /// The dictionary of names.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Who numbers events.
    pub fn event_ids(&self) -> &Arc<EventIds> {
        &self.event_ids
    }

    /// What was sent of late; `None` when nothing is remembered.
    pub fn history(&self) -> Option<&History> {
        self.history.as_deref()
    }

    /// What is kept on disk; `None` when nothing is.
    pub fn archive(&self) -> Option<&Arc<EventArchive>> {
        self.archive.as_ref()
    }

    /// Whether an event is kept on disk, for one of its subjects at least.
    pub fn keeps(&self, draft: &Draft) -> bool {
        self.archive.as_ref().is_some_and(|archive| {
            archive.keeps(&draft.about()) || draft.also().any(|id| archive.keeps(&id))
        })
    }

    /// Whether each event that is kept is answered when it is on disk.
    pub fn is_always_durable(&self) -> bool {
        self.event_store.as_ref().is_some_and(|event_store| event_store.is_always_durable())
    }

    /// Posts what a client of `worker` has missed, when no send is between its number and its last
    /// mail; gives it back otherwise.
    pub(crate) fn post_catch_up(&self, worker: usize, mut mail: Mail) -> Result<(), Mail> {
        let Some(_turn) = self.posting.take() else { return Err(mail) };
        let Some(mut room) = self.mailboxes[worker].reserve(1, mail.weight()) else {
            return Err(mail);
        };
        if let Mail::CatchUp(catch_up) = &mut mail
            && catch_up.whole
        {
            catch_up.up_to = self.event_ids.last();
        }
        room.post(mail);
        Ok(())
    }

    /// Room for all mail to this audience; `None` where a mailbox is full.
    fn reserve(&self, audience: &Audience) -> Option<Reservations<'_>> {
        let reserve = |need: hub::Need| {
            Some((need.worker, self.mailboxes[need.worker].reserve(need.groups, need.targets)?))
        };
        audience.needs().map(reserve).collect()
    }

    /// The next number, or the one that was `given`; `None` when that is stale. The caller has its
    /// turn to post.
    fn number(&self, given: Option<EventId>) -> Option<EventId> {
        match given {
            Some(id) => self.event_ids.take(id).then_some(id),
            None => {
                assert!(!self.event_ids.are_given(), "in a cluster the log gives all numbers");
                Some(self.event_ids.next(self.clock.unix_ms()))
            }
        }
    }

    /// Room on disk for what is kept there; `None` of all else.
    fn reserve_to_keep(&self, drafted: Option<&Drafted>) -> Result<RoomToKeep<'_>, NoRoomToKeep> {
        drafted.map_or(Ok(None), |drafted| self.reserve_for(&drafted.outgoing))
    }

    fn reserve_for(&self, outgoing: &Outgoing) -> Result<RoomToKeep<'_>, NoRoomToKeep> {
        match &self.event_store {
            // What is for nobody but its subjects is not kept on disk, such as events of channels.
            Some(event_store) if outgoing.followed => event_store.reserve(&outgoing.draft),
            _ => Ok(None),
        }
    }

    /// The event `id`, which is remembered, and kept where there is `room`.
    fn remembered(&self, drafted: Drafted, id: EventId, room: RoomToKeep<'_>) -> Arc<Event> {
        let is_cached = drafted.outgoing.remembered && !drafted.outgoing.followed;
        let event = made(drafted.outgoing, id);
        if let Some(apps) = self.pusher.as_ref().filter(|_| is_cached) {
            apps.cached().record(&self.names, &event, self.clock.monotonic_ms());
        }
        if let Some(room) = room {
            room.append(&event, self.clock.unix_ms());
        }
        if let (Some(history), Some(begun)) = (&self.history, drafted.begun) {
            history.record(begun, event.clone(), self.clock.monotonic_ms());
        }
        event
    }
}

/// Whether those who come back are told it: what is for followers, and what is of a key.
fn is_for_history(outgoing: &Outgoing) -> bool {
    outgoing.remembered && outgoing.followed || is_of_key(&outgoing.draft)
}

fn is_of_key(draft: &Draft) -> bool {
    draft.about().starts_with(KEY_MARK)
}

/// The event `id`, that perhaps has its Erlang term already.
fn made(outgoing: Outgoing, id: EventId) -> Arc<Event> {
    let is_remembered = is_for_history(&outgoing);
    let Outgoing { draft, term, except, .. } = outgoing;
    let event: Event = draft.numbered(id);
    let event = if is_remembered { event } else { event.forgotten() };
    let event = event.leaving_out(except);
    if let Some(term) = term {
        event.frame(TERM_SLOT, |_| term);
    }
    Arc::new(event)
}
