//! What a server does for its clients and its senders, and what those do.

use super::host::{Host, Posted, Posting};
use super::plan::Send;
use super::world::{Event, World};
use crate::limits::LEASE_MS;
use crate::{Action, CoreSubject, Order, Outcome, Place, Ticket};

/// A place that is ahead is waited for so long.
const FUTURE_MS: u64 = 5_000;

/// What a ticket is for that is for no send: a logout, or from here on the revocation of a number.
const LOGOUT: usize = (1 << 40) - 1;
const REVOCATIONS: usize = 1 << 40;

impl World {
    pub(super) fn send_core(&mut self, host: usize, to: CoreSubject, bytes: &[u8]) {
        let is = |one: &Host, incarnation| {
            one.node.as_ref().is_some_and(|node| node.status().incarnation == Some(incarnation))
        };
        for other in 0..self.hosts.len() {
            let hears = match to {
                CoreSubject::All | CoreSubject::Ask => true,
                CoreSubject::Count(member) | CoreSubject::Need(member) => {
                    is(&self.hosts[other], member)
                }
            };
            if hears {
                self.core(host, other, bytes);
            }
        }
    }

    pub(super) fn serve(&mut self, host: usize, action: Action) {
        let process = self.hosts[host].process;
        match action {
            Action::EpochBegan(epoch) => {
                let one = &mut self.hosts[host];
                one.greatest = one.greatest.max(one.last_posted);
                (one.epoch, one.last_posted, one.follower) = (epoch.number, epoch.base, None);
                one.was_at = 0;
                one.follower_run += 1;
                one.history.clear();
                one.posting.clear();
                one.window = 0;
                self.learn_revocations(host);
                self.gap(host);
            }
            Action::Gap { after } => {
                let one = &mut self.hosts[host];
                one.history.retain(|posted| posted.number > after);
                one.last_posted = one.last_posted.max(after);
                self.figures.trimmed += 1;
                self.learn_revocations(host);
                self.gap(host);
            }
            Action::Deliver(deliver) => {
                self.hosts[host].window += 1;
                assert!(self.hosts[host].window <= crate::limits::WINDOW);
                self.queue_posting(host, process, Posting::Event(deliver));
            }
            Action::Obey { sequence, order } => {
                assert_eq!(self.hosts[host].window, 0, "an order is a barrier");
                self.queue_posting(host, process, Posting::Order { sequence, order });
            }
            Action::Answer { ticket, outcome } => self.answer(host, ticket, outcome),
            Action::Joined { .. } => {
                self.learn_revocations(host);
                self.hosts[host].open = true;
            }
            Action::Left => self.figures.left += 1,
            Action::End(reason) => {
                *self.figures.ends.entry(format!("{reason:?}")).or_default() += 1;
                assert!(self.hosts[host].tickets.is_empty(), "who ends has answered all");
                self.crash(host);
            }
            other => panic!("{other:?} is done elsewhere"),
        }
    }

    fn queue_posting(&mut self, host: usize, process: u64, posting: Posting) {
        let wait = self.random.u64(0..3);
        let one = &mut self.hosts[host];
        one.post_ms = one.post_ms.max(self.now + wait);
        one.posting.push_back((one.epoch, posting));
        let at_ms = one.post_ms;
        self.at(at_ms, Event::Post { host, process });
    }

    /// Posts what is next, in the order of the log.
    pub(super) fn post(&mut self, host: usize) {
        let Some((epoch, posting)) = self.hosts[host].posting.pop_front() else { return };
        let (sequence, index, count) = match posting {
            Posting::Order { sequence, order } => {
                if let Order::Revoke(which) = order {
                    self.hosts[host].revoked.insert(which.parse().unwrap());
                }
                (sequence, 0, 1)
            }
            Posting::Event(deliver) => {
                self.hosts[host].window -= 1;
                let send: usize = deliver.event.line.parse().unwrap();
                let subject: usize = deliver.event.subject.parse().unwrap();
                let number = deliver.number;
                let one = &mut self.hosts[host];
                assert!(one.last_posted < number, "what is posted grows in number");
                one.last_posted = number;
                one.give(deliver.sequence, number, send);
                one.history.push(Posted { number, subject, send });
                let (one, process) = (&self.hosts[host], self.hosts[host].process);
                let mut count = 0;
                let here = |at, waits: Option<u64>| at == Some((host, process)) && waits.is_none();
                for client in &mut self.clients {
                    if here(client.at, client.waits_until_ms) && one.hears(client.id, subject) {
                        client.hear(epoch, number, send);
                        count += 1;
                    }
                }
                let posted = self.posted.entry((epoch, number)).or_default();
                let nonce = one.nonce;
                assert!(
                    posted.iter().all(|&(other, _)| other != nonce),
                    "{number} is posted twice"
                );
                posted.push((nonce, count));
                (deliver.sequence, deliver.index, count)
            }
        };
        self.drive(host, |node, now| node.posted(now, epoch, sequence, index, count));
    }

    /// All streams of a host are told a gap.
    fn gap(&mut self, host: usize) {
        let one = &self.hosts[host];
        for client in &mut self.clients {
            if client.at == Some((host, one.process)) {
                client.waits_until_ms = None;
                client.begin(one.epoch, one.last_posted);
                self.figures.gaps += 1;
            }
        }
    }

    fn answer(&mut self, host: usize, ticket: Ticket, outcome: Outcome) {
        let one = &mut self.hosts[host];
        let (send, since_ms) = one.tickets.remove(&ticket).expect("a ticket is answered once");
        let waited_ms = self.now - since_ms;
        let late = waited_ms > crate::limits::SEND_DEADLINE_MS + crate::limits::COUNT_DEADLINE_MS;
        assert!(!late || one.was_paused, "send {send} was answered after {waited_ms} ms");
        match outcome {
            Outcome::Sent { at_least: false, .. } => self.figures.exact += 1,
            Outcome::Sent { .. } => self.figures.at_least += 1,
            Outcome::NotSent => self.figures.not_sent += 1,
            Outcome::MayBeSent => self.figures.maybe += 1,
        }
        if send >= REVOCATIONS {
            return self.answer_revocation(host, send - REVOCATIONS, outcome);
        }
        if send != LOGOUT {
            self.sends[send].outcome = Some(outcome);
        }
    }

    pub(super) fn crash(&mut self, host: usize) {
        self.hosts[host].crash();
        let wait = self.random.u64(100..4_000);
        self.after(wait, Event::Start { host });
    }

    /// What is kept where all nodes read it is read.
    fn learn_revocations(&mut self, host: usize) {
        self.hosts[host].revoked = (0..self.revoked_ms.len()).collect();
    }

    /// Whoever has asked is told when all have obeyed, or can go by what they know no more.
    fn answer_revocation(&mut self, host: usize, which: usize, outcome: Outcome) {
        let Outcome::Sent { at_least, .. } = outcome else { return };
        let left_ms = self.hosts[host].node.as_ref().map_or(self.now, |node| node.status().left_ms);
        let since_ms = if at_least { self.now } else { left_ms };
        self.revoked_ms[which] = Some(self.now.max(since_ms + LEASE_MS));
        self.figures.revoked_at_once += u64::from(since_ms + LEASE_MS <= self.now);
        self.figures.revoked_late += u64::from(since_ms + LEASE_MS > self.now);
    }

    /// Whether a host has a proof, if it ever had one.
    fn is_proved(&self, host: usize) -> Option<bool> {
        let proved_ms = self.hosts[host].node.as_ref()?.status().proved_ms?;
        Some(proved_ms + LEASE_MS > self.now)
    }

    /// Who may let anybody in lets nobody in whose token is revoked.
    pub(super) fn check_revocations_at(&self, host: usize) {
        if self.revoked_ms.is_empty() || self.is_proved(host) != Some(true) {
            return;
        }
        // Both in order: a look-up for each would take half the time of a run.
        let mut known = self.hosts[host].revoked.iter().peekable();
        for (which, revoked_ms) in self.revoked_ms.iter().enumerate() {
            let obeyed = known.next_if(|known| **known == which).is_some();
            let counts = revoked_ms.is_some_and(|revoked_ms| revoked_ms <= self.now);
            assert!(obeyed || !counts, "host {host} does not know of revocation {which}");
        }
    }

    /// At all hosts, however long nothing has come to one.
    pub(super) fn check_revocations(&mut self) {
        for host in 0..self.hosts.len() {
            self.check_revocations_at(host);
            self.figures.unproved += u64::from(self.is_proved(host) == Some(false));
        }
    }

    /// Somebody asks for an order.
    pub(super) fn order(&mut self, host: usize, revoke: bool) {
        let (mut taken, now) = (None, self.now);
        let which = self.revoked_ms.len();
        let order = if revoke {
            // It is kept first.
            self.revoked_ms.push(None);
            Order::Revoke(which.to_string())
        } else {
            Order::Logout("1".to_owned())
        };
        self.drive(host, |node, now| taken = node.submit_order(now, order).ok());
        let send = if revoke { REVOCATIONS + which } else { LOGOUT };
        if let Some(ticket) = taken {
            self.hosts[host].tickets.insert(ticket, (send, now));
        }
    }

    pub(super) fn send(&mut self, host: usize) {
        let subject = self.random.usize(0..self.plan.clients.div_ceil(2));
        let (index, now) = (self.sends.len(), self.now);
        let sender = (host, self.hosts[host].process);
        let mut taken = None;
        let event = crate::Event {
            subject: subject.to_string(),
            also: (0..index % 3).map(|id| id.to_string()).collect(),
            line: index.to_string(),
            has_sender: index % 5 == 0,
            is_of_key: index % 7 == 0,
            except: (0..[2, 1, 0, 0, 0, 0, 0][index % 7]).map(|at| index as u64 + at).collect(),
            ..crate::Event::default()
        };
        self.drive(host, |node, now| {
            taken = node.submit(now, event).ok();
        });
        let Some(ticket) = taken else { return };
        self.hosts[host].tickets.insert(ticket, (index, now));
        let step = self.step;
        self.sends.push(Send { sender, step, at_ms: now, outcome: None });
        self.figures.sends += 1;
    }

    /// A client comes, or comes back.
    pub(super) fn connect(&mut self, client: usize) {
        let open = |one: &Host| one.open && one.node.is_some() && one.paused_until_ms <= self.now;
        let hosts: Vec<usize> = (0..self.hosts.len()).filter(|&i| open(&self.hosts[i])).collect();
        let Some(&host) = self.random.choice(&hosts) else { return };
        let one = &self.hosts[host];
        let Some(node) = &one.node else { return };
        let client = &mut self.clients[client];
        client.at = Some((host, one.process));
        client.waits_until_ms = None;
        let place = match client.segments.last() {
            Some(segment) if segment.epoch == one.epoch => node.place(segment.place()),
            _ => Place::Before,
        };
        self.figures.resumes += 1;
        match place {
            Place::Before => client.begin(one.epoch, one.last_posted),
            Place::Known => World::resume(one, client),
            Place::Future => client.waits_until_ms = Some(self.now + FUTURE_MS),
        }
    }

    /// Whoever is nowhere comes back.
    pub(super) fn reconnect(&mut self) {
        for client in 0..self.clients.len() {
            let at = self.clients[client].at;
            if at.is_none_or(|(host, process)| self.hosts[host].process != process) {
                self.connect(client);
            }
        }
    }

    fn resume(one: &Host, client: &mut super::client::Client) {
        let place = client.segments.last().map_or(0, |segment| segment.place());
        for posted in one.history.iter().filter(|posted| posted.number > place) {
            if one.hears(client.id, posted.subject) {
                client.hear(one.epoch, posted.number, posted.send);
            }
        }
        client.waits_until_ms = None;
    }

    /// Clients whose place is reached, or does not come.
    pub(super) fn let_wait_go_on(&mut self, host: usize) {
        let one = &self.hosts[host];
        let Some(node) = &one.node else { return };
        for client in &mut self.clients {
            let here = client.at == Some((host, one.process));
            let Some(until_ms) = client.waits_until_ms.filter(|_| here) else { continue };
            let place = client.segments.last().map_or(0, |segment| segment.place());
            match node.place(place) {
                Place::Known => World::resume(one, client),
                Place::Future if self.now < until_ms => {}
                Place::Future | Place::Before => {
                    client.waits_until_ms = None;
                    client.begin(one.epoch, one.last_posted);
                }
            }
        }
    }
}
