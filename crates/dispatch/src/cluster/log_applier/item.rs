//! What stands in the window of the log applier.

use std::collections::VecDeque;

use auth::tokens::RevocationLine;
use cluster::Once;
use engine::{GapStep, Outgoing, Router, Sending, Step};
use graph::Graph;
use hub::{Epoch, EventId, Followers, FollowersError, Tag};

use super::LogPlace;
use crate::cluster::log_update::LogUpdate;
use crate::idempotency::IdempotencyKeys;

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
    /// By what it is known where it is posted once, and its id as it is written.
    pub(super) once: Option<(Once, [u8; 16])>,
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

/// Another epoch begins, and nothing of the one before is posted any more. Of what was taken note
/// of when it was taken, nothing is left half done:
///
/// - Nobody learns of a revoked token a second time, so its streams end all the same.
/// - An event that is not posted here is not known here: its repeat is.
pub(super) fn begin_epoch(window: &mut VecDeque<Item<'_>>, keys: &IdempotencyKeys, epoch: Epoch) {
    for item in window.iter() {
        if let Item::Sending(LoggedSend { once: Some((once, id)), .. }) = item {
            keys.forget_brought(*once, *id);
        }
    }
    window.retain(|item| matches!(item, Item::Revoked(_)));
    window.push_back(Item::LostRecords(LostRecords::Epoch(epoch)));
}

#[cfg(test)]
mod tests {
    use auth::tokens::Revocation;

    use super::*;

    #[test]
    fn streams_of_revoked_tokens_end_though_the_log_is_another_one() {
        let keys = IdempotencyKeys::new().unwrap();
        let place = LogPlace { epoch: 1, sequence: 7, index: 0 };
        let wish = Revocation::Token { jti: "x".to_owned(), expires: None };
        let line = RevocationLine::of(&wish, 0, 60);
        let mut window = VecDeque::from([
            Item::LostRecords(LostRecords::Gap(5)),
            Item::Revoked(Revoked { place, line: line.clone() }),
        ]);
        let epoch = Epoch { tag: Tag::of(1 << 40), base: 100, until: 200 };
        begin_epoch(&mut window, &keys, epoch);
        let Some(Item::Revoked(first)) = window.pop_front() else { panic!("it is forgotten") };
        assert_eq!((first.place, first.line), (place, line));
        let second = window.pop_front();
        let is_begun = |begun: Epoch| begun.base == epoch.base;
        assert!(
            matches!(second, Some(Item::LostRecords(LostRecords::Epoch(it))) if is_begun(it)),
            "the epoch begins behind it"
        );
        assert!(window.is_empty(), "what is of the epoch before is posted no more");
    }
}
