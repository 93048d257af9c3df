//! When this node lets clients in with tokens: as long as it knows all that is revoked.

use auth::token_service::TokenService;
use cluster::limits::LEASE_MS;
use nats::NatsClient;
use tokio::task::JoinSet;

use super::revocations;
use super::tasks::Happened;

/// What is known of revocations, and so until when anybody is let in.
pub(super) struct Admitting {
    /// Nothing is to be known where streams need no tokens.
    tokens: Option<TokenService>,
    /// All is known that was revoked before what was read of the log without a break.
    knows: bool,
    /// It was once, and somebody was let in.
    began: bool,
    /// How often it was begun to learn it.
    times: u64,
    admits_until_ms: u64,
}

impl Admitting {
    pub(super) fn new(tokens: Option<TokenService>) -> Admitting {
        Admitting { tokens, knows: false, began: false, times: 0, admits_until_ms: 0 }
    }

    /// Part of the log was not read: nobody is let in until what is revoked was learnt anew.
    pub(super) fn forget(&mut self) {
        self.knows = false;
        self.times += 1;
        self.admit_until(0);
    }

    /// The node is a member, and all that stands in the log from here on it will read.
    pub(super) fn learn(&mut self, tasks: &mut JoinSet<Happened>, nats: &NatsClient) {
        let Some(tokens) = self.tokens.clone() else { return };
        self.times += 1;
        let (nats, time) = (nats.clone(), self.times);
        tasks.spawn(async move {
            revocations::learn(nats, tokens).await;
            Happened::Learnt(time)
        });
    }

    /// What was begun that manyeth time is done.
    pub(super) fn learnt(&mut self, time: u64) {
        debug_assert!((1..=self.times).contains(&time), "nobody was asked");
        self.knows |= time == self.times;
    }

    /// Lets clients in for a while after `proved_ms`, when all that was in the log was done here.
    /// Whether that, or that there is nothing to be known, was ever so.
    pub(super) fn admit(&mut self, proved_ms: Option<u64>) -> bool {
        if let Some(proved_ms) = proved_ms.filter(|_| self.knows) {
            self.began = true;
            self.admit_until(proved_ms + LEASE_MS);
        }
        self.began || self.tokens.is_none()
    }

    fn admit_until(&mut self, until_ms: u64) {
        if let Some(tokens) = self.tokens.as_ref().filter(|_| until_ms != self.admits_until_ms) {
            tokens.admit_until(until_ms);
            self.admits_until_ms = until_ms;
        }
    }
}
