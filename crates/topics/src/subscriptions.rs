//! Who is subscribed: whether anybody may hear of it, and what workers note of subscribers that
//! come and go while somebody may.
//!
//! The hub publishes a private update at each begin and end of a subscription, and answers who is
//! subscribed. Servers that have no use for it do not pay for it: both are done only while somebody
//! may hear of them. That is from when a client listens to such paths and its token grants some, or
//! the list is asked for, until some time after that. Who was there before is found in the
//! directory.
//!
//! Nothing falls in between: whoever wants it says so before it looks into the directory, and a
//! worker looks whether it is wanted behind each log-in and log-out. Both take a lock of the
//! directory in between, so one of them sees the other.
//!
//! Cost: a load for each subscriber that comes or goes. While somebody may hear of it, the texts of
//! its selectors. A token's payload is kept as long as its subscriber is there.

mod nodes;
mod paths;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hub::{ConnRef, ConnectionId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use self::nodes::ToldChange;
pub use self::paths::asks_for_paths;
pub(crate) use self::paths::may_hear;
use crate::held_selector::HeldSelector;

/// Notes that wait at most: more subscribers than come or go in a twentieth of a second.
const NOTES_MAX: usize = 65_536;

/// Bytes of them and their texts, at most.
const NOTE_BYTES_MAX: usize = 16 << 20;

/// What a selector's text takes beside itself: where it stands, and what an allocator adds.
const TEXT_BYTES: usize = 48;

/// A subscriber, by a number that nobody outside can tell its connection by.
pub type SubscriberNumber = u128;

/// A subscriber has come, or gone.
#[derive(Clone, Debug)]
pub struct SubscriberNote {
    /// What it is called outside.
    pub who: SubscriberNumber,
    /// The id of its connection if it has come, `None` if it has gone.
    pub came: Option<ConnectionId>,
    /// What it listens to. Of one that has gone while it began to be wanted it is not known.
    pub selectors: Option<Vec<HeldSelector>>,
    /// What its token tells of it, as JSON.
    pub payload: Option<Arc<str>>,
}

impl SubscriberNote {
    /// What it takes while it waits. The payload of one that has gone is kept by nothing else.
    fn bytes(&self) -> usize {
        let texts = self.selectors.iter().flatten().map(|held| TEXT_BYTES + held.text.len());
        let payload = self.payload.as_ref().map_or(0, |payload| payload.len());
        size_of::<SubscriberNote>() + texts.sum::<usize>() + payload
    }
}

/// What workers share of it with those who publish and list it.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Set and looked at as the module says: what orders the two is a lock of the directory.
    is_wanted: AtomicBool,
    noted: Mutex<Noted>,
    payloads: Mutex<HashMap<ConnRef, Arc<str>>>,
    /// What those are called that had their names in another process, as long as names are known.
    numbers: Mutex<HashMap<ConnRef, SubscriberNumber>>,
    random: RandomState,
}

/// What the process that goes on is to know of it, beside the notes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriptionsRest {
    is_wanted: bool,
    since: u64,
    begun: u64,
    periods: u64,
    is_v1: bool,
}

#[derive(Debug, Default)]
struct Noted {
    /// Clients that may hear of it.
    listeners: usize,
    /// Whether somebody at this node wants it, or did so of late.
    is_here: bool,
    /// Whether some node of the cluster wants it.
    is_elsewhere: bool,
    is_node: bool,
    /// Whether somebody wants it in the form of 1.0, or did so since it is wanted.
    is_v1: bool,
    /// Whether the nodes of the cluster tell changes in that form.
    is_v1_told: bool,
    /// What the log has brought and nobody has taken.
    told: Vec<ToldChange>,
    /// Whether somebody has come, gone or asked since the last look.
    is_fresh: bool,
    fresh_ms: u64,
    /// The number from which on all changes are told.
    since: u64,
    /// The newest number before anything was posted.
    begun: u64,
    /// How often it began to be wanted.
    periods: u64,
    notes: Vec<SubscriberNote>,
    bytes: usize,
    has_lost: bool,
}

impl Noted {
    fn want(&mut self, is_wanted: &AtomicBool, newest: impl FnOnce() -> u64) {
        (self.is_fresh, self.is_here) = (true, true);
        self.begin(is_wanted, newest);
    }

    /// It is wanted in the form of 1.0. What was posted before that up to `newest` was without it.
    fn want_v1(&mut self, is_wanted: &AtomicBool, newest: u64) {
        let is_told = std::mem::replace(&mut self.is_v1, true) || self.is_v1_told;
        if !is_told && is_wanted.load(Ordering::SeqCst) && newest != self.begun {
            self.since = self.since.max(newest + 1);
        }
        self.want(is_wanted, || newest);
    }

    pub(super) fn begin(&mut self, is_wanted: &AtomicBool, newest: impl FnOnce() -> u64) {
        if is_wanted.swap(true, Ordering::SeqCst) {
            return;
        }
        self.periods += 1;
        self.since = match newest() {
            newest if newest == self.begun => 0,
            newest if self.periods == 1 && !self.is_node => newest,
            // One who has heard of it before may have the newest place, and has missed what came
            // since then.
            newest => newest + 1,
        };
    }
}

impl Subscriptions {
    /// Whether changes are to be noted.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// Nothing is posted yet, and what will be is above this number.
    pub(crate) fn begin_at(&self, number: u64) {
        self.noted.lock().begun = number;
    }

    /// A client listens that may hear of it. What is posted up to `newest` may have been without
    /// it.
    pub fn listen(&self, newest: impl FnOnce() -> u64) {
        let mut noted = self.noted.lock();
        noted.listeners += 1;
        noted.want(&self.is_wanted, newest);
    }

    /// As [`Subscriptions::listen`], in the form of 1.0.
    pub fn listen_v1(&self, newest: impl FnOnce() -> u64) {
        let mut noted = self.noted.lock();
        noted.listeners += 1;
        noted.want_v1(&self.is_wanted, newest());
    }

    /// As [`Subscriptions::ask`], in the form of 1.0.
    pub fn ask_v1(&self, newest: impl FnOnce() -> u64) {
        self.noted.lock().want_v1(&self.is_wanted, newest());
    }

    /// Whether changes are told in the form of 1.0, too.
    pub fn is_v1_wanted(&self) -> bool {
        self.noted.lock().is_v1
    }

    /// Such a client has come from another process.
    pub fn listen_again(&self) {
        self.noted.lock().listeners += 1;
    }

    /// Such a client listens no more.
    pub fn leave(&self) {
        let mut noted = self.noted.lock();
        noted.listeners -= 1;
        noted.is_fresh = true;
    }

    /// Somebody asks for the list.
    pub fn ask(&self, newest: impl FnOnce() -> u64) {
        self.noted.lock().want(&self.is_wanted, newest);
    }

    /// Notes no more once nobody has wanted it for `quiet_ms`. Whether it is still wanted. To be
    /// called again and again.
    pub fn look(&self, now_ms: u64, quiet_ms: u64) -> bool {
        if !self.is_wanted() {
            return false;
        }
        let mut noted = self.noted.lock();
        if noted.listeners > 0 || std::mem::take(&mut noted.is_fresh) {
            noted.fresh_ms = now_ms;
            return true;
        }
        if now_ms < noted.fresh_ms.saturating_add(quiet_ms) {
            return true;
        }
        (noted.is_here, noted.is_v1) = (false, false);
        if noted.is_elsewhere {
            return true;
        }
        self.is_wanted.store(false, Ordering::SeqCst);
        let (begun, periods, is_node) = (noted.begun, noted.periods, noted.is_node);
        *noted = Noted { begun, periods, is_node, ..Noted::default() };
        self.forget_numbers();
        false
    }

    /// Clients that may hear of it.
    pub fn listeners(&self) -> usize {
        self.noted.lock().listeners
    }

    /// The number from which on all changes are told: whoever is at it, or behind it, misses none.
    pub fn since(&self) -> u64 {
        self.noted.lock().since
    }

    /// How often it began to be wanted. Between two such times nothing was noted.
    pub fn periods(&self) -> u64 {
        self.noted.lock().periods
    }

    /// Changes up to this number may not have been told, and all later ones are.
    pub fn set_since(&self, number: u64) {
        self.noted.lock().since = number;
    }

    /// Changes up to this number may not have been told.
    pub fn raise_since(&self, number: u64) {
        let mut noted = self.noted.lock();
        noted.since = noted.since.max(number);
    }

    /// Puts a note behind the others, behind the log-in or the log-out.
    pub fn note(&self, note: SubscriberNote) {
        let bytes = note.bytes();
        let mut noted = self.noted.lock();
        let has_room = noted.notes.len() < NOTES_MAX && noted.bytes + bytes <= NOTE_BYTES_MAX;
        if has_room && !noted.has_lost {
            noted.bytes += bytes;
            noted.notes.push(note);
        } else {
            noted.has_lost = true;
        }
    }

    /// Takes all notes out, in their order. Whether there were others that found no room: then it
    /// is to be looked anew who is there.
    pub fn take(&self) -> (Vec<SubscriberNote>, bool) {
        let mut noted = self.noted.lock();
        noted.bytes = 0;
        (std::mem::take(&mut noted.notes), std::mem::take(&mut noted.has_lost))
    }

    /// What [`Subscriptions::take`] would take.
    pub fn waiting(&self) -> (Vec<SubscriberNote>, bool) {
        let noted = self.noted.lock();
        (noted.notes.clone(), noted.has_lost)
    }

    /// What the process that goes on is to know.
    pub(crate) fn rest(&self) -> SubscriptionsRest {
        let noted = self.noted.lock();
        let Noted { since, begun, periods, is_v1, .. } = *noted;
        SubscriptionsRest { is_wanted: self.is_wanted(), since, begun, periods, is_v1 }
    }

    /// Goes on from there: all clients that may hear of it have come.
    pub(crate) fn take_over(&self, rest: SubscriptionsRest) {
        let SubscriptionsRest { is_wanted, since, begun, periods, is_v1 } = rest;
        let mut noted = self.noted.lock();
        (noted.since, noted.begun, noted.periods) = (since, begun, periods);
        noted.is_v1 = is_v1;
        (noted.is_fresh, noted.is_here) = (true, is_wanted);
        self.is_wanted.store(is_wanted, Ordering::SeqCst);
        if !is_wanted {
            self.forget_numbers();
        }
    }

    /// What the token of a connection tells of its subscriber.
    pub fn payload(&self, conn: ConnRef) -> Option<Arc<str>> {
        self.payloads.lock().get(&conn).cloned()
    }

    /// Keeps that until it is taken.
    pub fn keep_payload(&self, conn: ConnRef, payload: Arc<str>) {
        self.payloads.lock().insert(conn, payload);
    }

    /// Takes it, for the subscriber goes.
    pub fn take_payload(&self, conn: ConnRef) -> Option<Arc<str>> {
        self.payloads.lock().remove(&conn)
    }

    /// The subscriber was called so in the process where it comes from.
    pub fn keep_number(&self, conn: ConnRef, number: SubscriberNumber) {
        self.numbers.lock().insert(conn, number);
    }

    /// It goes.
    pub fn forget_number(&self, conn: ConnRef) {
        self.numbers.lock().remove(&conn);
    }

    /// Nobody knows names any more.
    fn forget_numbers(&self) {
        *self.numbers.lock() = HashMap::new();
    }

    /// What the subscriber is called outside.
    pub fn number(&self, conn: ConnRef) -> SubscriberNumber {
        if let Some(number) = self.numbers.lock().get(&conn) {
            return *number;
        }
        let [high, low] = [0_u8, 1].map(|part| self.random.hash_one((conn, part)));
        let bits = u128::from(high) << 64 | u128::from(low);
        // A random UUID (RFC 9562, section 5.4).
        bits & !(0xf << 76) & !(3 << 62) | 4 << 76 | 2 << 62
    }
}

/// Writes the number of a subscriber as it stands in paths.
pub fn subscriber_text(number: SubscriberNumber) -> String {
    let hex = format!("{number:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("urn:uuid:{}", parts.join("-"))
}

/// Reads [`subscriber_text`].
pub fn subscriber_number(text: &str) -> Option<SubscriberNumber> {
    let hex = text.strip_prefix("urn:uuid:")?.replace('-', "");
    let number = SubscriberNumber::from_str_radix(&hex, 16).ok()?;
    (subscriber_text(number) == text).then_some(number)
}

#[cfg(test)]
mod tests;
