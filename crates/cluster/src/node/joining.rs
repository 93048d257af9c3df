//! How a node becomes a member: it reads to the end of the log, asks who is there, and publishes
//! its join.
//!
//! Where it began with the first record of the log it knows the view. Otherwise any member tells;
//! if none does for a second, although beats work, there is none, and the join *founds* a view: sum
//! and view begin anew with it, on every node. It says the sum of what it has read, so that whoever
//! has read the same place otherwise finds out while there is something to compare. If there was
//! somebody after all it finds itself outside, and joins again. So does a node that reads its own
//! join without knowing the view: those who know it may have refused that join, and nothing that it
//! publishes could be checked by itself.

use crate::limits::{ASK_MS, BEHIND_MAX_MS, FOUND_AFTER_MS, JOIN_AGAIN_MS, REFUSED_MAX};
use crate::message::View;
use crate::publisher::Attempt;

/// The way to membership.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) attempt: Option<Attempt>,
    /// Joins that were refused, one after the other.
    refused: u32,
    /// Counts the attempts of this process.
    pub(super) tries: u64,
    /// Not before.
    not_before_ms: u64,
    /// Since when it asks and hears nothing, and since when nothing that it can use; when it asks
    /// again.
    pub(super) asks_since_ms: u64,
    useless_since_ms: u64,
    ask_ms: u64,
    /// Who answered last had not read as far as we have.
    ahead: bool,
    /// Up to half of the time in which nobody founds, at random: two that start together should not
    /// both found.
    spread_ms: u64,
    /// What others have told of a place that is not reached.
    view: Option<View>,
}

impl Joining {
    pub(super) fn new(now_ms: u64, nonce: u64) -> Joining {
        Joining {
            attempt: None,
            refused: 0,
            tries: 0,
            not_before_ms: now_ms,
            asks_since_ms: now_ms,
            useless_since_ms: now_ms,
            ask_ms: now_ms,
            ahead: false,
            // The nonce may be a time of a coarse clock: its digits are mixed.
            spread_ms: (nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (FOUND_AFTER_MS / 2),
            view: None,
        }
    }

    /// The follower has begun: who is there is asked from now on.
    pub(super) fn restart(&mut self, now_ms: u64) {
        (self.asks_since_ms, self.useless_since_ms, self.ask_ms) = (now_ms, now_ms, now_ms);
        self.ahead = false;
    }

    /// What was asked and published before says nothing any more.
    pub(super) fn again(&mut self, now_ms: u64) {
        self.attempt = None;
        self.restart(now_ms);
    }

    pub(super) fn joined(&mut self) {
        (self.attempt, self.refused) = (None, 0);
    }

    pub(super) fn refused(&mut self, now_ms: u64) {
        self.attempt = None;
        self.refused += 1;
        self.not_before_ms = now_ms + JOIN_AGAIN_MS;
    }

    /// Whether that was so often that it will not change.
    pub(super) fn is_hopeless(&self) -> bool {
        self.refused >= REFUSED_MAX
    }

    /// Whether it may publish a join now.
    pub(super) fn may(&self, now_ms: u64) -> bool {
        self.attempt.is_none() && now_ms >= self.not_before_ms
    }

    /// Whether to ask who is there.
    pub(super) fn asks(&mut self, now_ms: u64) -> bool {
        let asks = now_ms >= self.ask_ms;
        if asks {
            self.ask_ms = now_ms + ASK_MS;
        }
        asks
    }

    /// Whether nobody has answered for so long that there is nobody, or nobody who follows.
    pub(super) fn is_alone(&self, now_ms: u64) -> bool {
        let silent = now_ms >= self.asks_since_ms + FOUND_AFTER_MS + self.spread_ms;
        silent || now_ms >= self.useless_since_ms + BEHIND_MAX_MS + self.spread_ms
    }

    /// A member has told what it knows. `read` is how far we are.
    pub(super) fn told(&mut self, now_ms: u64, view: View, read: u64) {
        self.asks_since_ms = now_ms;
        self.ahead = view.at < read;
        if !self.ahead {
            self.useless_since_ms = now_ms;
        }
        self.view.take_if(|old| old.at < read);
        let nearer = self.view.as_ref().is_none_or(|old| view.at < old.at);
        if view.at >= read && nearer {
            self.view = Some(view);
        }
        debug_assert!(self.view.as_ref().is_none_or(|view| view.at >= read));
    }

    /// Whether to read nothing for now, because others must come as far first: who is always a bit
    /// faster than they are is told of places behind it only.
    pub(super) fn holds(&self, now_ms: u64) -> bool {
        self.ahead && self.attempt.is_none() && now_ms < self.asks_since_ms + FOUND_AFTER_MS
    }

    /// What was told of the place that is reached.
    pub(super) fn view_at(&mut self, read: u64) -> Option<View> {
        self.view.take_if(|view| view.at <= read).filter(|view| view.at == read)
    }

    /// When something is to be done, with a view that is `known` or not.
    pub(super) fn deadline(&self, now_ms: u64, known: bool) -> Option<u64> {
        match &self.attempt {
            Some(attempt) => Some(attempt.deadline()),
            None if known => Some(self.not_before_ms).filter(|&later_ms| later_ms > now_ms),
            None => Some(self.ask_ms),
        }
    }
}
