//! What stands in the window of the log applier.

use auth::tokens::RevocationLine;
use engine::{GapStep, Outgoing, Router, Sending, Step};
use graph::Graph;
use hub::{Epoch, EventId, Followers, FollowersError, Tag};

use super::LogPlace;
use crate::cluster::log_update::LogUpdate;

/// What is at the head of the window, or behind it.
#[expect(clippy::large_enum_variant, reason = "almost all are sends, a window of them at most")]
pub(super) enum Item<'r> {
    Sending(LoggedSend<'r>),
    LostRecords(LostRecords),
    Revoked(Revoked),
    Past(PastEvent<'r>),
    Keep(Tag, u64),
}

/// What is posted to its audience.
pub(super) struct LoggedSend<'r> {
    pub(super) place: LogPlace,
    /// The number of the event, where it is one.
    pub(super) number: Option<u64>,
    pub(super) sending: Sending<'r>,
    /// Where it is an update of topics.
    pub(super) update: Option<Box<LogUpdate<'r>>>,
}

/// An event of before this node was a member, and so old.
pub(super) struct PastEvent<'r> {
    pub(super) place: LogPlace,
    /// There until it is remembered.
    pub(super) outgoing: Option<Box<Outgoing>>,
    /// Where it is an update of topics.
    pub(super) update: Option<Box<LogUpdate<'r>>>,
    pub(super) id: EventId,
    pub(super) age_ms: u64,
}

/// What the log on disk is to be told before anything else is posted.
#[derive(Clone, Copy)]
pub(super) enum ToKept {
    Begin(Tag, u64),
    Lost(Tag, u64),
}

/// Streams that are to end: once all mailboxes have room.
pub(super) struct Revoked {
    pub(super) place: LogPlace,
    pub(super) line: RevocationLine<'static>,
}

#[derive(Clone, Copy)]
pub(super) enum LostRecords {
    Gap(u64),
    Epoch(Epoch),
}

impl LoggedSend<'_> {
    /// Does the next piece of work.
    pub(super) fn step(&mut self, graph: &Graph) -> Result<Step, FollowersError> {
        self.sending.step(followers(self.update.as_deref(), graph))
    }

    /// Looks up the next slice of the audience.
    pub(super) fn gather(&mut self, graph: &Graph) -> Result<bool, FollowersError> {
        self.sending.gather(followers(self.update.as_deref(), graph))
    }

    /// It is posted.
    pub(super) fn posted(&mut self) {
        if let (Some(update), Some(number)) = (self.update.take(), self.number) {
            update.posted(number);
        }
    }
}

/// Who hears it: of an update by what clients listen to, of all else by the stored graph.
fn followers<'f>(update: Option<&'f LogUpdate<'_>>, graph: &'f Graph) -> &'f dyn Followers {
    match update {
        Some(update) => update.followers(),
        None => graph,
    }
}

impl PastEvent<'_> {
    /// It is remembered.
    pub(super) fn remembered(&mut self) {
        if let Some(update) = self.update.take() {
            update.posted(self.id.number());
        }
    }
}

impl LostRecords {
    pub(super) fn step(self, router: &Router) -> GapStep {
        match self {
            LostRecords::Gap(number) => router.lose_up_to(number),
            LostRecords::Epoch(epoch) => router.begin_epoch(epoch),
        }
    }
}
