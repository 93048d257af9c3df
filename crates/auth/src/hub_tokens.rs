//! Tokens of the Mercure protocol: those of subscribers, and those of publishers, each with keys of
//! its own or the same.
//!
//! Signature and times are verified here as those of all tokens are, and what is granted is read by
//! whoever speaks the protocol, out of the claims.

use std::sync::Arc;

use anyhow::Result;
use engine::{Outcome, TokenCheck, TokenQueue};
use hub::{Grant, TokenRefusal};
use tokio_util::sync::CancellationToken;

use crate::token_service::{KnownRevoked, end_streams, revocation_of};
use crate::token_thread;
use crate::tokens::{self, Checked, KnownToken, ReadBy, TokenRules, Verifier};

/// Who knows the keys of one kind of them.
#[derive(Debug)]
pub struct HubTokens {
    verifier: Arc<Verifier>,
    leeway: u64,
    revoked: Option<KnownRevoked>,
}

impl HubTokens {
    /// Reads the keys that `rules` name. What the tokens grant, and for whom they are, is not
    /// theirs to say. Those that are `revoked` are refused, and all of them while a node of a
    /// cluster may not know what is.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn open(rules: TokenRules, revoked: Option<KnownRevoked>) -> Result<Arc<HubTokens>> {
        let leeway = rules.leeway.as_secs();
        let rules = TokenRules { read_by: ReadBy::Others, exp_required: false, ..rules };
        let revocations = revoked.as_ref().map(|revoked| Arc::clone(&revoked.revocations));
        let verifier = Arc::new(Verifier::open(rules, revocations)?);
        Ok(Arc::new(HubTokens { verifier, leeway, revoked }))
    }

    /// Begins to read its files again when they change, until `stop`.
    pub fn watch(&self, stop: &CancellationToken) {
        tokio::spawn(tokens::watch(Arc::clone(&self.verifier), stop.clone()));
    }

    /// Reads its files again whether they changed or not, as SIGHUP asks for.
    pub async fn reload(&self) {
        tokens::reload(&self.verifier).await;
    }

    /// Begins to verify what workers ask at `queue`, until `stop`.
    ///
    /// # Errors
    /// There may be no more threads.
    pub fn answer(
        self: &Arc<HubTokens>,
        queue: TokenQueue,
        stop: &CancellationToken,
    ) -> Result<()> {
        let tokens = Arc::clone(self);
        let verify = move |token: &str| tokens.verify(token).map(|grant| tokens.granted(grant));
        let (revoked, ends) = (self.revoked.clone(), queue.clone());
        // Was it revoked in between, its stream may have begun after the others were ended.
        let after = move |grant: &Grant| {
            if revoked.as_ref().is_some_and(|revoked| revoked.revocations.covers(grant)) {
                end_streams(&ends, &revocation_of(grant));
            }
        };
        token_thread::spawn(queue, stop.clone(), verify, after)
    }

    /// Verifies a token. Takes up to some hundred microseconds.
    ///
    /// # Errors
    /// It is not good.
    pub fn verify(&self, token: &str) -> Result<Arc<Grant>, TokenRefusal> {
        self.within(|| self.verifier.verify(token)).unwrap_or(Err(TokenRefusal::Busy))
    }

    /// Verifies a token as far as that can be done at once.
    pub fn check_now(&self, token: &str) -> Checked {
        let checked = self.within(|| self.verifier.check(token));
        checked.unwrap_or(Checked::Refused(TokenRefusal::Busy))
    }

    /// Verifies a token like that for a caller who asks about it again; `None` where that cannot be
    /// done at once, or it is not good.
    pub fn known(&self, token: &str) -> Option<KnownToken> {
        self.within(|| self.verifier.known(token)).flatten()
    }

    /// Whether a known token is good still, as far as that can be said at once.
    pub fn is_good_still(&self, known: &KnownToken) -> bool {
        self.within(|| self.verifier.is_good_still(known)).unwrap_or(false)
    }

    fn within<T>(&self, verify: impl FnOnce() -> T) -> Option<T> {
        match &self.revoked {
            Some(revoked) => revoked.within(verify),
            None => Some(verify()),
        }
    }

    fn granted(&self, grant: Arc<Grant>) -> engine::Granted {
        token_thread::granted(grant, self.leeway)
    }
}

impl TokenCheck for HubTokens {
    fn check(&self, token: &str) -> Option<Outcome> {
        match self.check_now(token) {
            Checked::Granted(grant) => Some(Ok(self.granted(grant))),
            Checked::Refused(refusal) => Some(Err(refusal)),
            Checked::Ask => None,
        }
    }
}
