//! Here is what of a resume the archive is asked for, and where. What the memory lacks of kept
//! subjects is asked for one by one. Patterns listen to a part of all that is kept, and a place may
//! be one that the memory does not know.
//!
//! Keys follow others by tables of the memory, which has forgotten some. So a key is asked for by
//! itself, and the archive knows what a client hears that is logged in under it. Of a pattern it
//! does not, and goes through all ([`Scan`](super::scanned::Scan)).

use std::sync::Arc;

use hub::{Above, Followers, Id, KeptListener, Lack};

use super::Resuming;
use super::archived::{ArchiveAnswer, ArchiveQuestion, Lacking};
use crate::EventArchive;
use crate::limits::ARCHIVE_SUBJECTS_MAX;

/// What a reader hears of what is kept.
#[derive(Default)]
pub(super) enum Reader {
    /// An id: what is sent about it and about whom it follows, subject by subject.
    #[default]
    Id,
    /// A key: what the archive has under it, as far as the listener hears that.
    Key(Option<Arc<dyn KeptListener>>),
    /// A pattern. Whether all is kept that it may hear.
    Pattern { is_whole: bool },
}

impl<'r> Resuming<'r> {
    pub(super) fn archive(&self) -> Option<&'r Arc<EventArchive>> {
        self.router.archive()
    }

    /// Whether the archive must be read before the next step.
    pub(super) fn must_read(&self) -> bool {
        self.resume.named.is_some()
            || self.last_of.is_some()
            || !self.lacks.is_empty()
            || self.scan.is_due(self.up_to)
    }

    /// Looks which patterns the client listens to, once it is known from where on.
    pub(super) fn begin_scan(&mut self, followers: &dyn Followers) {
        if self.scan.is_begun || self.resume.named.is_some() {
            return;
        }
        self.scan.is_begun = true;
        if self.archive().is_none() || self.router.topics().is_none() {
            return;
        }
        let mut listeners = Vec::new();
        for id in self.resume.ids.iter().copied().filter(|id| id.is_key()) {
            let listener = followers.kept_listener(id).filter(|listener| listener.is_of_many());
            if let Some(listener) = listener {
                self.scan.want(followers.unknown_up_to(id));
                listeners.push(listener);
            }
        }
        self.scan.begin(listeners, self.above_of_all().number);
    }

    /// What is to be found of all that the client's keys hear.
    pub(super) fn above_of_all(&self) -> Above {
        let after = self.resume.after;
        let past = self.resume.past.as_deref();
        self.told(past.map_or(Above::from(after), |past| past.of_all(after)))
    }

    /// What `id` hears of what is kept.
    pub(super) fn reader_of(&self, followers: &dyn Followers, id: Id) -> Reader {
        let Some(archive) = self.archive().filter(|_| id.is_key()) else { return Reader::Id };
        match followers.kept_listener(id) {
            Some(listener) if listener.is_of_many() => {
                Reader::Pattern { is_whole: archive.keeps_all(&*listener) }
            }
            listener => Reader::Key(listener),
        }
    }

    /// Whether all is found already that the reader hears, up to where this window ends.
    pub(super) fn is_found(&self) -> bool {
        matches!(self.listens, Reader::Pattern { is_whole: true }) && self.scan.has_done(self.up_to)
    }

    /// It is not known whom the id that is read has followed up to this number.
    pub(super) fn note_unknown(&mut self, up_to: u64) {
        let Above { number, claimed } = self.above;
        if up_to <= number {
            return;
        }
        let is_kept = match self.listens {
            Reader::Id => false,
            Reader::Pattern { is_whole } => {
                self.scan.want(up_to);
                is_whole
            }
            Reader::Key(_) => {
                let is_kept = self.kept_text(self.reader).is_some();
                if is_kept {
                    self.lack(Lack { subject: self.reader, up_to });
                }
                is_kept
            }
        };
        if !is_kept && claimed < up_to {
            self.covered = false;
            self.gap_up_to = self.gap_up_to.max(up_to);
        }
    }

    /// Notes what is to be read of a subject, which is asked for once.
    fn lack(&mut self, lack: Lack) {
        match self.lacks.iter_mut().find(|known| known.subject == lack.subject) {
            Some(known) => known.up_to = known.up_to.max(lack.up_to),
            None => self.lacks.push(lack),
        }
    }

    /// The text of `id`, if the archive keeps what is sent about it.
    pub(super) fn kept_text(&self, id: Id) -> Option<String> {
        let archive = self.archive()?;
        self.router.names().text(id).filter(|text| archive.keeps(text))
    }

    /// Whether the memory has all that there was about so many of the subjects, where it says
    /// whether it is `covered`. Kept ones of which it may lack some are noted, to be read.
    pub(super) fn covers(&mut self, covered: bool, subjects: usize) -> bool {
        let Above { number, claimed } = self.above;
        if covered && (self.archive().is_none() || number == claimed) {
            return covered;
        }
        let mut lacks = Vec::new();
        self.history.lacking(&self.subjects[..subjects], number, &mut lacks);
        let mut covered = true;
        for lack in lacks {
            let is_kept = match self.listens {
                Reader::Id => {
                    let is_kept = self.kept_text(lack.subject).is_some();
                    self.lacks.extend(is_kept.then_some(lack));
                    is_kept
                }
                Reader::Key(_) => {
                    let is_kept = self.kept_text(self.reader).is_some();
                    if is_kept {
                        self.lack(Lack { subject: self.reader, up_to: lack.up_to });
                    }
                    is_kept
                }
                // Of a pattern itself nothing is sent.
                Reader::Pattern { is_whole } => {
                    let is_own = lack.subject == self.reader;
                    let is_kept = is_whole || !is_own && self.kept_text(lack.subject).is_some();
                    if is_kept || is_own {
                        self.scan.want(lack.up_to);
                    }
                    is_kept
                }
            };
            if !is_kept && lack.up_to > claimed {
                covered = false;
                self.gap_up_to = self.gap_up_to.max(lack.up_to);
            }
        }
        covered
    }

    /// Whether it goes through all that is kept, for patterns, beside what else it reads.
    pub fn has_patterns(&self) -> bool {
        self.scan.has_patterns()
    }

    /// What the archive is to be asked, once a step has said so.
    pub fn question(&mut self) -> Option<ArchiveQuestion> {
        let archive = self.archive()?.clone();
        if let Some(named) = &self.resume.named {
            return Some(ArchiveQuestion::of_place(archive, topics::own_id(named).into()));
        }
        if let Some(last_of) = self.last_of.take() {
            return Some(ArchiveQuestion::of_last(archive, last_of));
        }
        let (up_to, bytes_max) = (self.up_to, self.resume.bytes_max);
        if self.lacks.is_empty() {
            let is_claimed = self.resume.is_first && self.resume.past.is_none();
            let above = self.above_of_all();
            let scanned = self.scan.question(above, up_to, is_claimed, bytes_max)?;
            return Some(ArchiveQuestion::of_scanned(archive, scanned));
        }
        let kept = self.lacks.len().saturating_sub(ARCHIVE_SUBJECTS_MAX);
        let lacks = self.lacks.split_off(kept);
        let lacking = |lack: &Lack| {
            let text = self.kept_text(lack.subject)?;
            let listener = match &self.listens {
                Reader::Key(listener) => listener.clone(),
                Reader::Id | Reader::Pattern { .. } => None,
            };
            Some(Lacking { subject: lack.subject, text, up_to: lack.up_to, listener })
        };
        // One that has no text any more is followed by nobody, and its client is gone.
        let lacking: Vec<Lacking> = lacks.iter().filter_map(lacking).collect();
        Some(ArchiveQuestion::of_missed(archive, lacking, self.above, up_to, bytes_max))
    }

    /// Goes on with what the archive has answered.
    pub fn tell(&mut self, answer: ArchiveAnswer) {
        self.covered &= answer.covered;
        self.gap_up_to = self.gap_up_to.max(answer.gap_up_to);
        self.up_to = self.up_to.min(answer.up_to);
        self.floors.extend(answer.floor);
        self.lacks.extend(answer.rest);
        self.last_of = answer.last_of;
        self.events.extend(answer.events);
        answer.scanned.into_iter().for_each(|done| self.scan.tell(done));
        if let Some(number) = answer.place {
            self.resume.named = None;
            match number {
                Some(number) => self.resume.after = number,
                None => self.give_up(),
            }
        }
        // They are nobody else's, so no more of them are kept than it takes.
        self.put_in_order();
        self.cut_to_bytes();
    }
}
