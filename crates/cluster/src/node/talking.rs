//! What the others say outside of the log, and what is said to them.

use super::Node;
use crate::action::{Action, CoreSubject};
use crate::counts::Saying;
use crate::message::{Beat, Message, MessageBody, View};
use crate::wire::Malformed;

impl Node {
    /// A message outside of the log, from whichever subject. One that is none is ignored, and so is
    /// one of another epoch.
    pub fn core_message(&mut self, now_ms: u64, bytes: &[u8]) {
        let Message { epoch, said } = match Message::decode(bytes) {
            Ok(message) => message,
            Err(Malformed::Newer) => return self.actions.push_back(Action::NewerMessage),
            Err(_) => return,
        };
        if epoch != self.epoch.number || self.ended || !self.followed || self.broken.is_some() {
            return;
        }
        match said {
            MessageBody::Beat(beat) => self.take_beat(now_ms, &beat),
            MessageBody::Counts { from, records } => {
                let mut told = Vec::new();
                for counted in &records {
                    self.sums.add(self.epoch, from, counted, &mut told);
                }
                self.tell(told);
            }
            MessageBody::Need { from, sequences } => {
                let said = self.counts.need(from, &sequences);
                self.say_counts(said);
            }
            MessageBody::Ask { .. } => {
                let known = self.incarnation.is_some() && self.roster.is_known();
                if let Some(chain) = self.chain.at(self.read).filter(|_| known) {
                    let members = self.roster.members().to_vec();
                    debug_assert!(
                        members.last().is_some_and(|last| last.incarnation <= self.read),
                        "we are one ourselves, and nobody joins later than what was read"
                    );
                    let view = View { at: self.read, chain, members };
                    self.say(CoreSubject::All, MessageBody::View(view));
                }
            }
            MessageBody::View(view) => {
                self.top = self.top.max(view.at);
                if !self.roster.is_known() {
                    self.joining.told(now_ms, view, self.read);
                    self.meet_view(now_ms);
                }
            }
        }
        self.step(now_ms);
    }

    fn take_beat(&mut self, now_ms: u64, beat: &Beat) {
        if beat.nonce == self.config.nonce {
            return self.liveness.echo(now_ms);
        }
        self.top = self.top.max(beat.read);
        self.liveness.beat(now_ms, beat, self.read);
        if let Some(chain) = beat.chain {
            self.compare(now_ms, beat.read, chain);
        }
    }

    pub(super) fn say(&mut self, to: CoreSubject, said: MessageBody) {
        let bytes = Message { epoch: self.epoch.number, said }.encode();
        self.actions.push_back(Action::Core { to, bytes });
    }

    pub(super) fn say_counts(&mut self, said: Vec<Saying>) {
        for (origin, from, records) in said {
            self.say(CoreSubject::Count(origin), MessageBody::Counts { from, records });
        }
    }

    pub(super) fn say_beat(&mut self) {
        let beat = Beat {
            incarnation: self.incarnation.unwrap_or(0),
            nonce: self.config.nonce,
            applied: self.pipeline.applied(),
            read: self.read,
            chain: self.chain.at(self.read).filter(|_| self.roster.is_known()),
            streams: self.streams,
        };
        self.say(CoreSubject::All, MessageBody::Beat(beat));
    }
}
