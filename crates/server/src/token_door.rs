//! Tokens at the door of the streams: what stands between the workers, who show them, and the
//! [verifier](crate::tokens), who knows the keys.
//!
//! What is judged at once is judged on the worker's thread. The rest, signatures that were not seen
//! before, has a thread of its own, which gives way to the workers: a crowd that connects waits for
//! its signatures, and who is connected hears its events meanwhile.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use engine::{Granted, Outcome, TokenCheck, TokenConfig, TokenDesk};
use hub::Grant;
use subtle::ConstantTimeEq;
use sys::{clock, priority};
use tokio_util::sync::CancellationToken;

use crate::is_loopback;
use crate::tokens;
use crate::tokens::{Checked, JwksKeeper, Revocation, Revocations, RevokedError, TokenRules};
use crate::tokens::{Verifier, VerifierFigures};

/// How much the thread that verifies gives way: to a worker that wants the same core it leaves nine
/// tenths of it.
const NICE: u8 = 10;

/// How long to wait where a mailbox is full.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// How often, when streams are to be ended: five seconds. Whoever asks for it may ask again.
const FULL_PAUSES_MAX: u32 = 5_000;

/// How long the thread sleeps at most, after which it looks whether the server stops.
const SLEEP_MAX: Duration = Duration::from_millis(250);

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
pub(crate) struct Doors {
    door: Arc<TokenDoor>,
    /// Keeps the set of keys, if there is one, and when it looks again.
    keeper: Option<(JwksKeeper, Duration)>,
}

/// What the API does with tokens.
#[derive(Clone, Debug)]
pub(crate) struct TokenOffice {
    door: Arc<TokenDoor>,
    desk: TokenDesk,
}

/// Judges the tokens of streams.
#[derive(Debug)]
struct TokenDoor {
    verifier: Arc<Verifier>,
    revocations: Arc<Revocations>,
    own: OwnToken,
    leeway: u64,
}

impl OwnToken {
    /// A token for whoever listens as `id`.
    fn new(id: &str) -> Result<OwnToken> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).context("the system's random source fails")?;
        let grant = Grant { subject: Some(id.into()), ..Grant::default() };
        Ok(OwnToken {
            text: random.map(|byte| format!("{byte:02x}")).concat(),
            grant: grant.into(),
        })
    }
}

impl std::fmt::Debug for OwnToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a token of our own")
    }
}

/// Makes what `access` asks for: nothing where anybody may listen, or this machine alone can reach
/// the `ports`. `live_id` is whom the dashboard listens as, what is revoked stands in the directory
/// `data`.
pub(crate) async fn open_doors(
    access: StreamAccess,
    ports: &[SocketAddr],
    data: &Path,
    live_id: &str,
) -> Result<Option<Doors>> {
    let rules = match access {
        StreamAccess::Tokens(rules) => rules,
        StreamAccess::Open => return Ok(None),
        StreamAccess::Unsaid => match ports.iter().find(|port| !is_loopback(**port)) {
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
    let mut keeper = JwksKeeper::new(Arc::clone(&verifier))?.map(|keeper| (keeper, Duration::ZERO));
    if let Some((keeper, again)) = &mut keeper {
        *again = keeper.look().await;
    }
    let door = Arc::new(TokenDoor { verifier, revocations, own: OwnToken::new(live_id)?, leeway });
    Ok(Some(Doors { door, keeper }))
}

impl Doors {
    /// What the workers are told.
    pub(crate) fn config(&self, cookie: String) -> TokenConfig {
        TokenConfig { check: Arc::clone(&self.door) as Arc<dyn TokenCheck>, cookie }
    }

    /// Begins to judge what workers ask at `desk`, until `stop`.
    pub(crate) fn staff(self, desk: TokenDesk, stop: &CancellationToken) -> Result<TokenOffice> {
        let Doors { door, keeper } = self;
        tokio::spawn(tokens::watch(Arc::clone(&door.verifier), stop.clone()));
        if let Some((keeper, again)) = keeper {
            tokio::spawn(keeper.run(again, stop.clone()));
        }
        Arc::clone(&door).judge(desk.clone(), stop.clone())?;
        Ok(TokenOffice { door, desk })
    }
}

impl TokenOffice {
    /// The token by which the dashboard listens.
    pub(crate) fn own_token(&self) -> &str {
        &self.door.own.text
    }

    /// Who knows the keys.
    pub(crate) fn verifier(&self) -> &Arc<Verifier> {
        &self.door.verifier
    }

    /// The figures of the verifier.
    pub(crate) fn figures(&self) -> VerifierFigures {
        self.door.verifier.figures()
    }

    /// Tokens that wait to be judged.
    pub(crate) fn waiting(&self) -> usize {
        self.desk.waiting()
    }

    /// Refuses these tokens from now on, and ends the streams of those who have them. It is on disk
    /// when it is answered. Blocks. Whether all workers could be told of it.
    pub(crate) fn revoke(&self, wish: &Revocation) -> Result<bool, RevokedError> {
        let wishes = std::slice::from_ref(wish);
        let written = self.door.revocations.revoke(wishes, clock::unix_ms() / 1000);
        // Also when it could not be written: they are refused until the server ends.
        let is_refused = !matches!(written, Err(RevokedError::Wish | RevokedError::Full));
        let told = is_refused && end_streams(&self.desk, &wish.into());
        written.map(|()| told)
    }
}

/// Has the streams of these tokens ended, as soon as all mailboxes have room. A worker that takes
/// no more mail, as at its end, is not waited for without end.
fn end_streams(desk: &TokenDesk, revocation: &engine::Revocation) -> bool {
    for _ in 0..FULL_PAUSES_MAX {
        if desk.revoke(revocation) {
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
fn revocation_of(grant: &Grant) -> engine::Revocation {
    match (&grant.token, &grant.subject) {
        (Some(token), _) => engine::Revocation::Token(token.clone()),
        (None, subject) => engine::Revocation::Subject {
            subject: subject.clone().unwrap_or_default(),
            before: grant.issued.unwrap_or_default() + 1,
        },
    }
}

impl TokenDoor {
    /// How long it is good. It ends at its `exp`; where that is over, when also the leeway is,
    /// which the verifier has put into its end.
    fn granted(&self, grant: Arc<Grant>) -> Granted {
        let now_ms = clock::unix_ms();
        let remaining_ms = grant.expires.map(|expires| {
            let latest_ms = expires.saturating_mul(1000);
            let end_ms = latest_ms.saturating_sub(self.leeway * 1000);
            let end_ms = if end_ms > now_ms { end_ms } else { latest_ms };
            end_ms.saturating_sub(now_ms)
        });
        Granted { grant, remaining_ms }
    }

    fn verify(&self, token: &str) -> Outcome {
        self.verifier.verify(token).map(|grant| self.granted(grant))
    }

    /// Takes the questions of the workers, on a thread of its own, until `stop`.
    fn judge(self: Arc<TokenDoor>, desk: TokenDesk, stop: CancellationToken) -> Result<()> {
        let at = desk.clone();
        let judge = move || {
            // Where it cannot, it takes no less than others.
            let _ = priority::give_way(NICE);
            while !stop.is_cancelled() {
                let Some(question) = desk.take() else {
                    thread::park_timeout(SLEEP_MAX);
                    continue;
                };
                if !question.is_wanted() {
                    continue;
                }
                let mut outcome = self.verify(question.token().text());
                let grant = outcome.as_ref().ok().map(|granted| Arc::clone(&granted.grant));
                while let Err(again) = desk.post_verdict(question.conn(), outcome) {
                    if stop.is_cancelled() {
                        return;
                    }
                    outcome = again;
                    thread::sleep(FULL_PAUSE);
                }
                // Was it revoked in between, its stream may have begun after the others were ended.
                if let Some(grant) = grant
                    && self.revocations.covers(&grant)
                {
                    end_streams(&desk, &revocation_of(&grant));
                }
            }
        };
        let thread = thread::Builder::new().name("tokens".into());
        let handle = thread.spawn(judge);
        let handle = handle.context("cannot start a thread; check the limit on threads")?;
        at.set_judge(handle.thread().clone());
        Ok(())
    }
}

impl TokenCheck for TokenDoor {
    fn check(&self, token: &str) -> Option<Outcome> {
        // Of the same length first: that is no secret.
        if token.len() == self.own.text.len()
            && bool::from(token.as_bytes().ct_eq(self.own.text.as_bytes()))
        {
            return Some(Ok(Granted { grant: Arc::clone(&self.own.grant), remaining_ms: None }));
        }
        match self.verifier.check(token) {
            Checked::Granted(grant) => Some(Ok(self.granted(grant))),
            Checked::Refused(refusal) => Some(Err(refusal)),
            Checked::Ask => None,
        }
    }
}

#[cfg(test)]
mod tests;
