//! Verifying a token: at once where that is cheap, and with all the time it takes elsewhere.
//!
//! [`Verifier::check`] is for a worker's turn. It takes the token apart (about a microsecond) and
//! verifies a secret's signature (another one or two). Of a public key's signature it looks whether
//! it was verified before. If not it says [`Checked::Ask`], and [`Verifier::verify`] is called on a
//! thread that may take its time. Neither waits: where the keys or the revocations are just being
//! replaced, the first says `Ask` as well.
//!
//! What a bad token costs is bounded by its verification. Length, form, algorithm and key are
//! looked at before it, and claims after it. At most four keys are tried for a token that names
//! none.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use hub::{Claims, Grant, TokenRefusal};

use super::claims::{CheckedClaims, ReadBy, Wanted, in_time};
use super::jwks::Jwks;
use super::jws::{Jws, is_mac};
use super::key::Key;
use super::key_set::{Candidates, KeySet};
use super::known_keys::{KeyFiles, KnownFiles, Reloaded};
use super::revoked::Revocations;
use super::rules::{TokenRules, TokenRulesError};
use super::verified::{Verified, VerifiedTokens, hash};

/// What [`Verifier::check`] can say at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Checked {
    /// The token is good, for this.
    Granted(Arc<Grant>),
    /// It is not.
    Refused(TokenRefusal),
    /// Its signature has to be verified first.
    Ask,
}

/// A token that was found good, for a caller who keeps its text and asks about it again.
#[derive(Clone)]
pub struct KnownToken {
    /// The keys at that time. It keeps none of them: they are wiped when they are others.
    keys: Weak<KeySet>,
    verified: Verified,
}

impl KnownToken {
    /// What it is good for.
    pub fn grant(&self) -> &Arc<Grant> {
        &self.verified.grant
    }
}

/// Verifies tokens by the rules of a server.
pub struct Verifier {
    wanted: Wanted,
    files: KeyFiles,
    known: Mutex<KnownFiles>,
    /// All that are known.
    keys: RwLock<Arc<KeySet>>,
    jwks: Option<Jwks>,
    verified: VerifiedTokens,
    /// Where there are none nothing is revoked.
    revocations: Option<Arc<Revocations>>,
}

/// Figures of a verifier.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct VerifierFigures {
    /// Tokens that are remembered as verified.
    pub verified: usize,
    /// Bytes that they take.
    pub verified_bytes: usize,
    /// Revocations that are remembered.
    pub revocations: usize,
    /// Files of keys that were read again, and those that were refused then.
    pub key_files: Reloaded,
    /// Keys of the set that is looked at again and again; 0 where there is none.
    pub jwks_keys: u64,
    /// How often the set was read or fetched.
    pub jwks_looks: u64,
    /// How often that failed.
    pub jwks_failures: u64,
}

impl Verifier {
    /// A verifier with the keys of the files that `rules` names, which are read again by
    /// [`super::watch`]. A URL is asked later, by [`super::JwksRefresher`].
    ///
    /// # Errors
    /// A file cannot be used, or the rules make no sense.
    pub fn open(
        rules: TokenRules,
        revocations: Option<Arc<Revocations>>,
    ) -> Result<Verifier, TokenRulesError> {
        let wanted = rules.wanted()?;
        let jwks = rules.jwks.map(Jwks::new);
        let set = jwks.as_ref().and_then(Jwks::file).map(Path::to_owned);
        let files = KeyFiles::new(rules.keys, set, rules.is_reached);
        let known = KnownFiles::at_start(&files, jwks.as_ref())?;
        let keys = RwLock::new(Arc::new(KeySet::new(known.all())));
        let (known, verified) = (Mutex::new(known), VerifiedTokens::new());
        Ok(Verifier { wanted, files, known, keys, jwks, verified, revocations })
    }

    /// Verifies `token` as far as that can be done at once; never waits.
    pub fn check(&self, token: &str) -> Checked {
        self.check_at(token, now())
    }

    /// Verifies `token` like that for a caller who asks about it again; `None` where that cannot be
    /// done at once, or it is not good.
    pub fn known(&self, token: &str) -> Option<KnownToken> {
        self.check_or_ask(token, now()).ok().flatten()
    }

    /// Whether a known token is good still; never waits. It is not read again, since the same text
    /// was signed by one of the same keys. `false` also where that cannot be said at once.
    pub fn is_good_still(&self, known: &KnownToken) -> bool {
        self.is_good_at(known, now())
    }

    /// Verifies `token`. Takes up to some hundred microseconds.
    ///
    /// # Errors
    /// It is not good.
    pub fn verify(&self, token: &str) -> Result<Arc<Grant>, TokenRefusal> {
        self.verify_at(token, now())
    }

    pub(super) fn check_at(&self, token: &str, now: u64) -> Checked {
        match self.check_or_ask(token, now) {
            Ok(Some(known)) => Checked::Granted(known.verified.grant),
            Ok(None) => Checked::Ask,
            Err(refusal) => Checked::Refused(refusal),
        }
    }

    fn check_or_ask(&self, token: &str, now: u64) -> Result<Option<KnownToken>, TokenRefusal> {
        let jws = Jws::parse(token)?;
        let Ok(keys) = self.keys.try_read() else { return Ok(None) };
        // Whoever looks at the set is a task, which a worker must not wake (see `engine::Replies`).
        if self.set_to_look_at(&keys, &jws).is_some() {
            return Ok(None);
        }
        let candidates = keys.candidates(jws.algorithm, jws.key_id.as_deref())?;
        let verified = if is_mac(jws.algorithm) {
            self.read_signed(&jws, &candidates, now)?
        } else {
            let Some(verified) = self.remembered(token, &keys) else { return Ok(None) };
            in_time(&verified.grant, verified.from, now)?;
            verified
        };
        drop(candidates);
        let known = KnownToken { keys: Arc::downgrade(&keys), verified };
        drop(keys);
        match self.is_revoked_at_once(known.grant()) {
            Some(true) => Err(TokenRefusal::Revoked),
            Some(false) => Ok(Some(known)),
            None => Ok(None),
        }
    }

    pub(super) fn is_good_at(&self, known: &KnownToken, now: u64) -> bool {
        let Ok(keys) = self.keys.try_read() else { return false };
        // No other set has its place as long as it is pointed to.
        let has_same_keys = std::ptr::eq(Arc::as_ptr(&keys), known.keys.as_ptr());
        drop(keys);
        let KnownToken { verified: Verified { grant, from, .. }, .. } = known;
        has_same_keys
            && in_time(grant, *from, now).is_ok()
            && self.is_revoked_at_once(grant) == Some(false)
    }

    /// Whether such a token is revoked, if that can be said at once.
    fn is_revoked_at_once(&self, grant: &Grant) -> Option<bool> {
        match &self.revocations {
            Some(revocations) => revocations.covers_at_once(grant),
            None => Some(false),
        }
    }

    pub(super) fn verify_at(&self, token: &str, now: u64) -> Result<Arc<Grant>, TokenRefusal> {
        let jws = Jws::parse(token)?;
        // The lock is not held while a signature is verified.
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        if let Some(jwks) = self.set_to_look_at(&keys, &jws) {
            jwks.look_soon();
        }
        let candidates = keys.candidates(jws.algorithm, jws.key_id.as_deref())?;
        let found = match is_mac(jws.algorithm) {
            true => None,
            false => self.remembered(token, &keys),
        };
        let verified = match found {
            Some(verified) => {
                in_time(&verified.grant, verified.from, now)?;
                verified
            }
            None => {
                let verified = self.read_signed(&jws, &candidates, now)?;
                // Also one that is revoked: it would be verified again and again.
                if !is_mac(jws.algorithm) {
                    self.verified.put(hash(token), verified.clone(), now);
                }
                verified
            }
        };
        match &self.revocations {
            Some(revocations) if revocations.covers(&verified.grant) => Err(TokenRefusal::Revoked),
            _ => Ok(verified.grant),
        }
    }

    /// The set that may have the key of a token meanwhile, whose key is none that is known.
    fn set_to_look_at(&self, keys: &KeySet, jws: &Jws<'_>) -> Option<&Jwks> {
        let jwks = self.jwks.as_ref()?;
        let is_missing = jws.key_id.as_deref().is_some_and(|id| !keys.knows(id));
        (is_missing && jwks.is_asked()).then_some(jwks)
    }

    /// What is known of `token`, unless its key is gone.
    fn remembered(&self, token: &str, keys: &KeySet) -> Option<Verified> {
        let hash = hash(token);
        let verified = self.verified.find(&hash)?;
        if keys.holds(&verified.key) {
            return Some(verified);
        }
        self.verified.forget(&hash);
        None
    }

    /// Verifies the signature, and then reads the claims.
    fn read_signed(
        &self,
        jws: &Jws<'_>,
        candidates: &Candidates<'_>,
        now: u64,
    ) -> Result<Verified, TokenRefusal> {
        let key = candidates.iter().find(|key| jws.is_signed_with(key));
        let key = key.ok_or(TokenRefusal::Signature)?;
        let json = jws.claims()?;
        let CheckedClaims { mut grant, from } = self.wanted.check(&json, now)?;
        if self.wanted.read_by == ReadBy::Others {
            let json = String::from_utf8(json).map_err(|_| TokenRefusal::Claims)?.into();
            grant.claims =
                Some(Box::new(Claims { kind: jws.kind.as_deref().map(Into::into), json }));
        }
        let key = key.print.unwrap_or_default();
        Ok(Verified { grant: Arc::new(grant), from, key })
    }

    /// Takes these keys in the place of those that the set of a URL had before.
    pub(super) fn replace_set(&self, set: Vec<Arc<Key>>) {
        self.learn(|known| known.of_url = set);
    }

    /// Changes what is known, for all tokens that are verified from now on.
    pub(super) fn learn(&self, change: impl FnOnce(&mut KnownFiles)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        let keys = Arc::new(KeySet::new(known.all()));
        let mut held = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *held, keys);
        drop(held);
        drop(old);
    }

    pub(super) fn files(&self) -> &KeyFiles {
        &self.files
    }

    pub(super) fn jwks(&self) -> Option<&Jwks> {
        self.jwks.as_ref()
    }

    /// Figures for people and metrics.
    pub fn figures(&self) -> VerifierFigures {
        let (verified, verified_bytes) = self.verified.sizes();
        let mut figures = VerifierFigures {
            verified,
            verified_bytes,
            revocations: self.revocations.as_ref().map_or(0, |revocations| revocations.count()),
            key_files: self.files.counts(),
            ..VerifierFigures::default()
        };
        if let Some(jwks) = &self.jwks {
            let [keys, looks, failures] = jwks.counts();
            figures.jwks_keys = keys;
            figures.jwks_looks = looks;
            figures.jwks_failures = failures;
        }
        figures
    }
}

/// Neither keys nor tokens.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

fn now() -> u64 {
    sys::clock::unix_ms() / 1000
}

#[cfg(test)]
mod tests;
