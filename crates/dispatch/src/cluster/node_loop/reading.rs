//! The log is opened, and read from where clients, the graph and what is kept on disk need it.

use nats::{Extent, Followed, LogError};
use sys::clock;

use super::{NodeLoop, PROPOSE_AGAIN};
use crate::cluster::following::Following;
use crate::cluster::log_applier::Work;
use crate::cluster::status::Membership;
use crate::cluster::tasks::{self, Happened};

impl NodeLoop {
    pub(super) fn read(&mut self) {
        let now = clock::monotonic_ms();
        while self.wants_records() {
            let Some(following) = &mut self.following else { return };
            let epoch = following.log.epoch();
            match following.take() {
                None => return,
                Some(Followed::Record(record)) => {
                    if self.status.membership == Membership::Joining {
                        self.times.push_back((record.sequence, record.time_ns));
                    }
                    self.node.record(now, epoch, record.sequence, &record.bytes);
                }
                Some(Followed::Trimmed { first, .. }) => {
                    // The head is what is known to be there.
                    self.node.following(now, epoch, first, first.saturating_sub(1));
                }
                Some(Followed::Behind { last }) => self.node.following(now, epoch, last + 1, last),
                // It is read again from the record that was read last, and compared.
                Some(Followed::Changed { .. }) => {
                    self.wanted = Some((epoch, Some(self.node.read_up_to())))
                }
                Some(Followed::Gone) => self.node.stream_gone(now, epoch),
            }
            self.open();
        }
    }

    pub(super) fn happened(&mut self, happened: Happened) {
        let now = clock::monotonic_ms();
        match happened {
            Happened::Published { epoch, id, outcome, is_gone } => {
                self.node.published(now, epoch, &id, outcome);
                if is_gone {
                    self.node.stream_gone(now, epoch);
                }
            }
            Happened::Opened { log, extent, recent } => {
                self.opening.take_if(|epoch| *epoch == log.epoch());
                let Some((epoch, from)) = self.wanted.take_if(|(epoch, _)| *epoch == log.epoch())
                else {
                    return;
                };
                let begin = match from {
                    Some(from) => from.max(extent.first),
                    None => match self.first_to_read(extent, recent) {
                        Some(first) => first,
                        // Numbers must not come twice.
                        None => return self.node.stream_gone(now, epoch),
                    },
                };
                self.following = Some(Following::begin(log, begin));
                self.node.following(now, epoch, begin, extent.last);
            }
            Happened::NotOpened { epoch, error } => {
                self.opening.take_if(|opening| *opening == epoch);
                // It is not made anew: its numbers would come twice.
                if matches!(error, LogError::Sealed(_) | LogError::Absent(_)) {
                    return self.node.stream_gone(now, epoch);
                }
                if !error.is_passing() {
                    tracing::error!(%error, epoch, "the cluster's log cannot be used");
                }
                self.open();
            }
            Happened::Learnt(time) => self.admitting.learnt(time),
            Happened::Proposed => {
                if self.put_back {
                    self.propose_anew(PROPOSE_AGAIN);
                }
            }
        }
    }

    /// The first record that a node reads at its start, by what clients, the graph and what is kept
    /// on disk need; `None` where more is kept than the log has.
    fn first_to_read(&mut self, extent: Extent, recent: u64) -> Option<u64> {
        let (epoch, tag) = (self.agreed.epoch(), self.agreed.tag());
        let kept = self.kept_log.as_ref().map(|kept| kept.read_up_to(tag));
        let kept_at = match kept.flatten() {
            Some(number) if number > epoch.behind(extent.last) => {
                self.router.event_ids().skip_to(number);
                return None;
            }
            Some(number) => epoch.sequence_of(number).unwrap_or(u64::MAX),
            None => u64::MAX,
        };
        let begin = recent.min(self.graph_at).min(kept_at).max(extent.first);
        let before = match begin {
            0 | 1 => epoch.base,
            _ => epoch.number_of(begin, 0).saturating_sub(1),
        };
        if begin > 1 {
            self.work.push_back(Work::Forget(before));
        }
        if kept.is_some() {
            self.work.push_back(Work::Keep(tag, before));
        }
        Some(begin)
    }

    /// Opens what the node wants to read, if it is not being opened: the node may ask again while
    /// that takes long.
    pub(super) fn open(&mut self) {
        if let Some((epoch, _)) = self.wanted {
            self.following = None;
            if self.opening.replace(epoch) == Some(epoch) {
                return;
            }
            let nats = self.nats.clone();
            tasks::open(&mut self.tasks, nats, epoch, self.reads_back);
        }
    }
}
