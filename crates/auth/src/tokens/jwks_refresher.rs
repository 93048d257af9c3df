//! Asks the URL of a set of keys ([`super::jwks`]) again and again, for a verifier.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::jwk::{self, KeysOfSet, Origin};
use super::jwks::fetch::Fetcher;
use super::jwks::{Jwks, JwksSource, LookError};
use super::limits::{JWKS_AGE, JWKS_PAUSE};
use super::verifier::Verifier;

/// Keeps the set of a verifier up to date that a URL has.
pub struct JwksRefresher {
    verifier: Arc<Verifier>,
    fetcher: Fetcher,
    failing: bool,
    /// The least time from one look to the next.
    pause: Duration,
}

impl JwksRefresher {
    /// The refresher of the set of `verifier`; `None` where no URL has one.
    ///
    /// # Errors
    /// The system trusts no certificates, which https needs.
    pub fn new(verifier: Arc<Verifier>) -> Result<Option<JwksRefresher>, LookError> {
        let Some(JwksSource::Url(url)) = verifier.jwks().map(|jwks| &jwks.source) else {
            return Ok(None);
        };
        let fetcher = Fetcher::new(url.clone()).map_err(LookError::Fetch)?;
        Ok(Some(JwksRefresher { verifier, fetcher, failing: false, pause: JWKS_PAUSE }))
    }

    /// Looks at the set, for ten seconds at most, and says when to look again. Worth to be awaited
    /// once before clients are let in: their tokens are refused until it is done.
    pub async fn look(&mut self) -> Duration {
        let verifier = Arc::clone(&self.verifier);
        let Some(jwks) = verifier.jwks() else { return JWKS_AGE };
        let (looked, again) = self.fetch(jwks).await;
        match looked {
            Ok(set) => {
                verifier.replace_set(jwks.keys_found(set));
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the keys of tokens can be had from {} again", jwks.source);
                }
            }
            Err(error) => {
                jwks.failures.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    let known = jwks.keys.load(Ordering::Relaxed);
                    tracing::warn!(
                        "the keys of tokens cannot be had from {}: {error}; {}",
                        jwks.source,
                        match known {
                            0 => "tokens signed with them are refused until they can",
                            _ => "the keys that are known stay in use",
                        }
                    );
                }
            }
        }
        again
    }

    async fn fetch(&self, jwks: &Jwks) -> (Result<KeysOfSet, LookError>, Duration) {
        jwks.looks.fetch_add(1, Ordering::Relaxed);
        match self.fetcher.fetch().await {
            Ok(fetched) => {
                let text = fetched.text.trim_start_matches('\u{feff}');
                let set = jwk::set(text, Origin::Url).map_err(LookError::Set);
                (set, fetched.age)
            }
            Err(error) => (Err(LookError::Fetch(error)), JWKS_AGE),
        }
    }

    /// Looks again and again, until `stop`.
    pub async fn run(mut self, mut again: Duration, stop: CancellationToken) {
        let verifier = Arc::clone(&self.verifier);
        let Some(jwks) = verifier.jwks() else { return };
        loop {
            if stop.run_until_cancelled(self.rest(jwks, again)).await.is_none() {
                return;
            }
            jwks.willing.store(false, Ordering::Relaxed);
            again = self.look().await;
        }
    }

    /// Waits until it is time for the next look: at an order, or after `again` at the latest.
    async fn rest(&self, jwks: &Jwks, again: Duration) {
        // What is missing in the first seconds after a look is missing in the set.
        let pause = self.pause.min(again);
        debug_assert!(pause <= again);
        if tokio::time::timeout(pause, jwks.order.notified()).await.is_ok() {
            return;
        }
        // While there is no answer the set is asked for again and again.
        let again_at = if self.failing { Duration::ZERO } else { again - pause };
        jwks.willing.store(true, Ordering::Relaxed);
        let called = async {
            tokio::select! {
                () = jwks.call.notified() => {}
                () = jwks.order.notified() => {}
            }
        };
        // Called or not, it is time.
        let _ = tokio::time::timeout(again_at, called).await;
    }
}

#[cfg(test)]
mod tests;
