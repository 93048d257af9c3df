//! Tokens of those who listen: what stands between the workers, who show them, and
//! the [verifier](crate::tokens), who knows the keys.
//!
//! What is verified at once is verified on the worker's thread. The rest, signatures that were not
//! seen before, has a thread of its own, which gives way to the workers: a crowd that connects
//! waits for its signatures, and who is connected hears its events meanwhile.

mod lease;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use engine::{Granted, Outcome, TokenCheck, TokenConfig, TokenQueue};
use hub::{Grant, TokenRefusal};
use proto::request::tokens_of;
use subtle::ConstantTimeEq;
use sys::clock;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::lease::Lease;
use crate::is_loopback;
use crate::live_access::LiveAccess;
use crate::token_thread::{self, FULL_PAUSE};
use crate::tokens::{
    self, Checked, JwksRefresher, Revocation, RevocationLine, Revocations, RevokedError,
    TokenRules, Verifier, VerifierFigures,
};

/// How often, when streams are to be ended: five seconds. Whoever asks for it may ask again.
const FULL_PAUSES_MAX: u32 = 5_000;

/// The least time between two writes of what was learnt from the cluster: each writes all.
const SAVE_PAUSE: Duration = Duration::from_secs(1);

/// Whether streams need tokens, and which.
#[derive(Clone, Debug, Default)]
pub enum StreamAccess {
    /// Nobody has said: only this machine may reach the streams.
    #[default]
    Unsaid,
    /// Anybody may listen as anybody.
    Open,
    /// Who shows a token may listen as it says.
    Tokens(TokenRules),
}

/// A token of the server's own, by which its dashboard listens. It is no JWT, and new with each
/// start.
struct OwnToken {
    text: String,
    grant: Arc<Grant>,
}

/// The tokens of streams, before there are streams.
pub struct AuthenticatorSetup {
    authenticator: Arc<Authenticator>,
    /// Keeps the set of keys, if there is one, and when it looks again.
    refresher: Option<(JwksRefresher, Duration)>,
}

/// What the API does with tokens.
#[derive(Clone, Debug)]
pub struct TokenService {
    authenticator: Arc<Authenticator>,
    queue: TokenQueue,
}

/// Verifies the tokens of streams.
#[derive(Debug)]
struct Authenticator {
    verifier: Arc<Verifier>,
    revocations: Arc<Revocations>,
    own: OwnToken,
    leeway: u64,
    lease: Lease,
    /// Rung when revocations were learnt that are not in the file.
    unsaved: Notify,
}

impl OwnToken {
    fn new(live: &LiveAccess) -> OwnToken {
        let grant = Grant { subject: Some(live.id.as_str().into()), ..Grant::default() };
        OwnToken { text: live.token.clone(), grant: grant.into() }
    }
}

impl std::fmt::Debug for OwnToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a token of our own")
    }
}

/// Makes what `access` asks for: nothing where anybody may listen, or this machine alone can reach
/// the `ports`. The dashboard listens by `live`, what is revoked stands in the directory
/// `data`, and in a cluster is known to the others.
pub async fn open_authenticator(
    access: StreamAccess,
    ports: &[SocketAddr],
    data: &Path,
    live: &LiveAccess,
    in_cluster: bool,
) -> Result<Option<AuthenticatorSetup>> {
    let reached = ports.iter().find(|port| !is_loopback(**port));
    let rules = match access {
        StreamAccess::Tokens(rules) => TokenRules { is_reached: reached.is_some(), ..rules },
        StreamAccess::Open => return Ok(None),
        StreamAccess::Unsaid => match reached {
            None => return Ok(None),
            Some(port) => bail!(
                "nothing says who may listen, and others could reach the streams at {port}: give \
                 --token-key FILE, so that clients must show tokens, or --open, if anybody may \
                 listen as anybody, or leave --listen on 127.0.0.1"
            ),
        },
    };
    let leeway = rules.leeway.as_secs();
    let revocations = Arc::new(Revocations::open(data)?);
    let verifier = Arc::new(Verifier::open(rules, Some(Arc::clone(&revocations)))?);
    let mut refresher =
        JwksRefresher::new(Arc::clone(&verifier))?.map(|refresher| (refresher, Duration::ZERO));
    if let Some((refresher, again)) = &mut refresher {
        *again = refresher.look().await;
    }
    let (own, lease, unsaved) = (OwnToken::new(live), Lease::new(in_cluster), Notify::new());
    let authenticator =
        Arc::new(Authenticator { verifier, revocations, own, leeway, lease, unsaved });
    Ok(Some(AuthenticatorSetup { authenticator, refresher }))
}

impl AuthenticatorSetup {
    /// What is revoked.
    pub fn revocations(&self) -> &Arc<Revocations> {
        &self.authenticator.revocations
    }

    /// What the workers are told.
    pub fn config(&self, cookie: String) -> TokenConfig {
        TokenConfig { check: Arc::clone(&self.authenticator) as Arc<dyn TokenCheck>, cookie }
    }

    /// Begins to verify what workers ask at `queue`, until `stop`.
    pub fn start(self, queue: TokenQueue, stop: &CancellationToken) -> Result<TokenService> {
        let AuthenticatorSetup { authenticator, refresher } = self;
        tokio::spawn(tokens::watch(Arc::clone(&authenticator.verifier), stop.clone()));
        if let Some((refresher, again)) = refresher {
            tokio::spawn(refresher.run(again, stop.clone()));
        }
        tokio::spawn(save(Arc::clone(&authenticator), stop.clone()));
        let verifying = Arc::clone(&authenticator);
        let (verifier, ends) = (Arc::clone(&authenticator), queue.clone());
        // Was it revoked in between, its stream may have begun after the others were ended.
        let after = move |grant: &Grant| {
            if verifier.revocations.covers(grant) {
                end_streams(&ends, &revocation_of(grant));
            }
        };
        let verify = move |tokens: &str| verifying.verify(tokens);
        token_thread::spawn(queue.clone(), stop.clone(), verify, after)?;
        Ok(TokenService { authenticator, queue })
    }
}

impl TokenService {
    /// The token by which the dashboard listens.
    pub fn own_token(&self) -> &str {
        &self.authenticator.own.text
    }

    /// From when no token can have been made by now, though clocks differ by the leeway.
    pub fn none_made_from(&self) -> u64 {
        clock::unix_ms() / 1000 + self.authenticator.leeway + 1
    }

    /// Who knows the keys.
    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.authenticator.verifier
    }

    /// The figures of the verifier.
    pub fn figures(&self) -> VerifierFigures {
        self.authenticator.verifier.figures()
    }

    /// Tokens that wait to be verified.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Refuses these tokens from now on, and ends the streams of those who have them. It is on disk
    /// when it is answered. Blocks. Whether all workers could be told of it.
    pub fn revoke(&self, wish: &Revocation) -> Result<bool, RevokedError> {
        let wishes = std::slice::from_ref(wish);
        let written = self.authenticator.revocations.revoke(wishes, clock::unix_ms() / 1000);
        // Also when it could not be written: they are refused until the server ends.
        let is_refused = !matches!(written, Err(RevokedError::Wish | RevokedError::Full));
        let told = is_refused && end_streams(&self.queue, &wish.into());
        written.map(|()| told)
    }
}

/// What a node of a cluster is told by the others.
impl TokenService {
    /// What is known to be revoked.
    pub fn revocations(&self) -> &Revocations {
        &self.authenticator.revocations
    }

    /// Refuses what `lines` say from now on; answers those that say something new, whose streams
    /// are to be ended by [`TokenService::end_streams`].
    pub fn learn<'l>(&self, lines: Vec<RevocationLine<'l>>) -> Vec<RevocationLine<'l>> {
        let learnt = self.authenticator.revocations.learn(lines);
        if !learnt.is_empty() {
            self.authenticator.unsaved.notify_one();
        }
        learnt
    }

    /// Has the streams of these tokens ended. `false` where a mailbox is full: try again.
    #[must_use]
    pub fn end_streams(&self, line: &RevocationLine<'_>) -> bool {
        self.queue.revoke(&line.streams())
    }

    /// Lets clients in until so many milliseconds of the monotonic clock: all is known that was
    /// revoked until some time before.
    pub fn admit_until(&self, until_ms: u64) {
        self.authenticator.lease.extend(until_ms);
    }
}

/// Has what was learnt on disk a little later. It is the cluster's to keep it; this is for the day
/// on which that loses it.
async fn save(authenticator: Arc<Authenticator>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = authenticator.unsaved.notified() => {}
            () = stop.cancelled() => return,
        }
        let saving = Arc::clone(&authenticator);
        let saved = spawn_blocking(move || saving.revocations.save(clock::unix_ms() / 1000)).await;
        if let Ok(Err(error)) = saved {
            tracing::error!("revocations of the cluster were not written here: {error}");
        }
        tokio::time::sleep(SAVE_PAUSE).await;
    }
}

/// Has the streams of these tokens ended, as soon as all mailboxes have room. A worker that takes
/// no more mail, as at its end, is not waited for without end.
pub(crate) fn end_streams(queue: &TokenQueue, revocation: &engine::Revocation) -> bool {
    for _ in 0..FULL_PAUSES_MAX {
        if queue.revoke(revocation) {
            return true;
        }
        thread::sleep(FULL_PAUSE);
    }
    tracing::warn!("the streams of a revoked token could not be ended: a worker takes no mail");
    false
}

impl From<&Revocation> for engine::Revocation {
    fn from(wish: &Revocation) -> engine::Revocation {
        match wish {
            Revocation::Token { jti, .. } => engine::Revocation::Token(jti.as_str().into()),
            Revocation::Subject { sub, before } => {
                engine::Revocation::Subject { subject: sub.as_str().into(), before: *before }
            }
        }
    }
}

/// Those whose grant is this one, and with them others that are revoked for the same reason.
pub(crate) fn revocation_of(grant: &Grant) -> engine::Revocation {
    match (&grant.token, &grant.subject) {
        (Some(token), _) => engine::Revocation::Token(token.clone()),
        (None, subject) => engine::Revocation::Subject {
            subject: subject.clone().unwrap_or_default(),
            before: grant.issued.unwrap_or_default() + 1,
        },
    }
}

impl Authenticator {
    fn granted(&self, grant: Arc<Grant>) -> Granted {
        token_thread::granted(grant, self.leeway)
    }

    /// Of several the first that is good, or why the first is not.
    fn verify(&self, tokens: &str) -> Outcome {
        let verify = |token| self.lease.within(|| self.verifier.verify(token));
        let verify = |token| verify(token).unwrap_or(Err(TokenRefusal::Busy));
        let mut outcomes = tokens_of(tokens).map(|token| Ok(self.granted(verify(token)?)));
        let first = outcomes.next().unwrap_or(Err(TokenRefusal::Malformed));
        first.or_else(|refusal| outcomes.find_map(Result::ok).ok_or(refusal))
    }

    fn check_one(&self, token: &str) -> Option<Outcome> {
        // Of the same length first: that is no secret.
        if token.len() == self.own.text.len()
            && bool::from(token.as_bytes().ct_eq(self.own.text.as_bytes()))
        {
            return Some(Ok(Granted { grant: Arc::clone(&self.own.grant), remaining_ms: None }));
        }
        match self.lease.within(|| self.verifier.check(token)) {
            Some(Checked::Granted(grant)) => Some(Ok(self.granted(grant))),
            Some(Checked::Refused(refusal)) => Some(Err(refusal)),
            Some(Checked::Ask) => None,
            None => Some(Err(TokenRefusal::Busy)),
        }
    }
}

impl TokenCheck for Authenticator {
    fn check(&self, tokens: &str) -> Option<Outcome> {
        let mut refused = None;
        for token in tokens_of(tokens) {
            match self.check_one(token)? {
                Ok(granted) => return Some(Ok(granted)),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        Some(Err(refused.unwrap_or(TokenRefusal::Malformed)))
    }
}

#[cfg(test)]
mod tests;
