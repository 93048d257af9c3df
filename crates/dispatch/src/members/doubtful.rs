//! Who comes to a full channel while it is not known who came first.
//!
//! When a crowd comes to several nodes at one time, each of them can count the users of the others
//! for earlier ([`cluster::RoomList::in_doubt`]). If all refused at once, places would stay free.
//! So a node waits here for those that asked before it: [`TURN`] for each of them. Who they refuse
//! has left by then, and the first of this node have the places.

use std::collections::{BTreeMap, HashMap};

use cluster::Doubt;
use engine::Watch;
use tokio::task::yield_now;

use super::shared::ListAsker;
use super::{ANSWERS_SLICE, RoomTeller};

/// How long a node may take to refuse whom it refuses, in milliseconds.
const TURN: u64 = 1_000;

/// So many nodes are waited for; further ones are taken to be as quick.
const TURNS_MAX: usize = 5;

/// Those who wait, of each channel.
#[derive(Default)]
pub(super) struct DoubtfulSeats(HashMap<Box<str>, RoomSeats>);

struct RoomSeats {
    /// When all are refused who are past the bound still.
    due_ms: u64,
    /// In the order in which they came. Each has a number too: a user may wait several times.
    waiting: BTreeMap<(u64, u64), Watch>,
    numbers: u64,
}

impl DoubtfulSeats {
    fn keep(&mut self, of: &str, watch: Watch, doubt: Doubt, now_ms: u64) {
        let due_ms = now_ms + TURN * doubt.nodes.min(TURNS_MAX) as u64;
        let new = || RoomSeats { due_ms, waiting: BTreeMap::new(), numbers: 0 };
        let seats = self.0.entry(of.into()).or_insert_with(new);
        seats.numbers += 1;
        seats.waiting.insert((doubt.since, seats.numbers), watch);
    }
}

impl RoomTeller<'_> {
    /// The channel is full for this one. It may be told later, if it is in doubt.
    pub(super) fn refuse_or_hold(&mut self, of: &str, watch: Watch) {
        let doubt = self.shared.as_ref().and_then(|shared| shared.in_doubt(of, &watch));
        match doubt.filter(|_| watch.is_waiting()) {
            Some(doubt) => {
                let now_ms = self.now_ms();
                self.doubtful.keep(of, watch, doubt, now_ms);
            }
            None => self.refuse(watch),
        }
    }

    fn refuse(&mut self, watch: Watch) {
        let is_taken = !watch.is_waiting() || self.watches.refuse(&watch);
        self.given(watch, is_taken);
    }

    /// Gives places that have become free, and refuses those who have waited long enough.
    pub(super) async fn answer_doubtful(&mut self) {
        if self.doubtful.0.is_empty() {
            return;
        }
        let now_ms = self.now_ms();
        let mut answers = 0;
        let mut rooms = std::mem::take(&mut self.doubtful.0);
        for (of, seats) in &mut rooms {
            let mut is_over = false;
            while let Some(first) = seats.waiting.first_entry() {
                let (shared, watch) = (self.shared.as_ref(), first.get());
                let is_full = is_over || shared.is_some_and(|shared| shared.is_full_for(of, watch));
                if is_full && shared.is_some_and(|shared| shared.in_doubt(of, watch).is_some()) {
                    if now_ms < seats.due_ms && watch.is_waiting() {
                        break;
                    }
                    // Whoever came behind it is past the bound, too.
                    is_over = true;
                }
                match (first.remove(), is_full) {
                    (watch, true) => self.refuse(watch),
                    (watch, false) => self.give(of, ListAsker::Watch(watch)),
                }
                answers += 1;
                if answers % ANSWERS_SLICE == 0 {
                    yield_now().await;
                }
            }
        }
        rooms.retain(|_, seats| !seats.waiting.is_empty());
        self.doubtful.0 = rooms;
    }
}
