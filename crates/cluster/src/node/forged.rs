//! What no node says: numbers at their ends, places that are nowhere, versions that never come. A
//! node may go on without what was forged, hold the log for another one or end; it must not panic,
//! nor keep more and more.

use super::Node;
use crate::change::{Change, Part};
use crate::limits::{EARLY_COUNTS_MAX, MEMBERS_MAX, RECORD_EVENTS_MAX};
use crate::message::{Beat, Counted, Message, MessageBody, View};
use crate::record::{Body, Event, Head, Join, LeaveReason, Once, Order, Record};
use crate::roster::Member;
use crate::{Action, Config, Epoch, GraphPlace, Known, Published};

/// Numbers at their ends, and around those that mean something here.
fn number(random: &mut fastrand::Rng, near: u64) -> u64 {
    match random.u8(..6) {
        0 => random.u64(..4),
        1 => near.wrapping_add(random.u64(..3)).wrapping_sub(1),
        2 => u64::MAX - random.u64(..3),
        3 => (1 << 63) - 1 + random.u64(..3),
        4 => (1 << 54) - 1 + random.u64(..3),
        _ => random.u64(..),
    }
}

fn member(random: &mut fastrand::Rng, near: u64) -> Member {
    Member {
        incarnation: number(random, near),
        name: (*random.choice(&["a", "b", "c"]).unwrap()).to_owned(),
        address: String::new(),
        nonce: number(random, 100),
        last_batch: number(random, 1),
    }
}

fn said(random: &mut fastrand::Rng, near: u64) -> MessageBody {
    match random.u8(..6) {
        0 | 1 => MessageBody::Beat(Beat {
            incarnation: number(random, 1),
            nonce: number(random, 100),
            applied: number(random, near),
            read: number(random, near),
            chain: random.bool().then(|| number(random, 0)),
            streams: number(random, 0),
        }),
        2 => {
            let counted = |random: &mut fastrand::Rng| Counted {
                sequence: number(random, near),
                counts: vec![u32::MAX; random.usize(..RECORD_EVENTS_MAX)],
            };
            let records = (0..random.usize(..3)).map(|_| counted(random)).collect();
            MessageBody::Counts { from: number(random, 1), records }
        }
        3 => {
            MessageBody::Need { from: number(random, 1), sequences: vec![number(random, near); 3] }
        }
        4 => MessageBody::Ask { nonce: number(random, 100) },
        _ => {
            let mut members = vec![member(random, near), member(random, near)];
            members.sort_by_key(|member| member.incarnation);
            MessageBody::View(View { at: number(random, near), chain: number(random, 0), members })
        }
    }
}

fn record(random: &mut fastrand::Rng, near: u64) -> Vec<u8> {
    let head = Head {
        incarnation: number(random, 1),
        batch: number(random, 1),
        after: number(random, near).min(if random.u8(..8) > 0 { near } else { u64::MAX }),
        chain: number(random, 0),
    };
    let body = match random.u8(..7) {
        0 => Body::Events(vec![Event {
            subject: "7".to_owned(),
            also: (0..random.u8(..3)).map(|id| id.to_string()).collect(),
            line: "x".repeat(random.usize(..100)),
            flags: random.u8(..128),
            term: None,
            once: random.bool().then(|| Once { key: random.u128(..4), body: random.u128(..) }),
            has_sender: random.bool(),
            is_of_key: random.bool(),
            except: (0..random.usize(..3)).map(|_| random.u64(..)).collect(),
        }]),
        1 | 2 => {
            let change = Change {
                version: number(random, near),
                hash: number(random, 0),
                added: vec![("1".to_owned(), "2".to_owned())],
                removed: Vec::new(),
            };
            let parts = random.u16(1..);
            Body::Graph(Part { part: random.u16(..parts), parts, change })
        }
        3 => Body::Join(Join {
            name: (*random.choice(&["a", "b", "c"]).unwrap()).to_owned(),
            address: String::new(),
            formats: (random.u8(..), random.u8(..)),
            founding: random.bool().then(|| number(random, near)),
        }),
        4 => Body::Leave { incarnation: number(random, 1), reason: LeaveReason::Silent },
        5 => Body::Order(Order::Logout("7".to_owned())),
        _ => Body::Order(Order::Revoke("no line".to_owned())),
    };
    Record { head, body }.encode()
}

/// A node with a log that takes what it publishes, and what foreign nodes put in between.
struct Driven {
    node: Node,
    epoch: Epoch,
    now: u64,
    last: u64,
    ended: bool,
    version: u64,
}

impl Driven {
    fn new(base: u64, first: u64, proves: bool) -> Driven {
        let (name, address) = ("a".to_owned(), String::new());
        let epoch = Epoch { number: 1, base };
        let known = Known::Read { epoch: 1, sequence: u64::MAX };
        let config = Config { name, address, nonce: 100, proves };
        let node = Node::new(0, config, epoch, GraphPlace::default(), known);
        let last = first - 1;
        let mut driven = Driven { node, epoch, now: 0, last, ended: false, version: 0 };
        driven.node.following(0, 1, first, last);
        driven.act();
        driven
    }

    fn reads(&mut self, bytes: &[u8]) {
        self.last += 1;
        self.node.record(self.now, self.epoch.number, self.last, bytes);
    }

    fn act(&mut self) {
        // What is asked for here asks for more: each thing is done once.
        for _ in 0..64 {
            let Some(action) = self.node.next_action() else { return };
            let (now, number) = (self.now, self.epoch.number);
            match action {
                Action::Publish { epoch, id, record } if epoch == number => {
                    self.reads(&record);
                    let at = Published::At(self.last);
                    self.node.published(now, number, &id, at);
                }
                Action::Core { bytes, .. } => self.node.core_message(now, &bytes),
                Action::Deliver(to) => self.node.posted(now, number, to.sequence, to.index, 1),
                Action::Obey { sequence, .. } => self.node.posted(now, number, sequence, 0, 1),
                Action::Apply(change) => {
                    self.version = change.version;
                    self.node.graph(now, GraphPlace { version: self.version, hash: 0 });
                }
                Action::CheckVersion { ask } => self.node.latest_version(now, ask, self.version),
                Action::ProposeEpoch { epoch, above, .. } if epoch == number + 1 => {
                    self.epoch = Epoch { number: epoch, base: above.saturating_add(1) };
                    self.last = 0;
                    self.node.epoch(now, self.epoch);
                    self.node.following(now, epoch, 1, 0);
                }
                Action::End(_) => self.ended = true,
                _ => {}
            }
        }
    }
}

#[test]
fn forged_records_and_messages_make_no_node_panic_or_keep_without_bound() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let first = if random.bool() { 1 } else { random.u64(1..1000) };
        let base = *random.choice(&[0, 1 << 60, u64::MAX - 5000]).unwrap();
        let mut driven = Driven::new(base, first, random.bool());
        for _ in 0..300 {
            let (now, near, number) = (driven.now, driven.last, driven.epoch.number);
            match random.u8(..8) {
                0..4 => {
                    let bytes = Message { epoch: number, said: said(random, near) }.encode();
                    driven.node.core_message(now, &bytes);
                }
                4 | 5 => driven.reads(&record(random, near)),
                6 => {
                    let (subject, line) = ("7".to_owned(), "line".to_owned());
                    let event = Event { subject, line, ..Event::default() };
                    let _ = driven.node.submit(now, event);
                }
                _ => driven.now += random.u64(..2_000),
            }
            driven.node.tick(driven.now);
            driven.act();
            if driven.ended {
                break;
            }
            assert!(driven.node.sums.early() <= EARLY_COUNTS_MAX);
            assert!(driven.node.roster.members().len() <= MEMBERS_MAX);
        }
    }
}
