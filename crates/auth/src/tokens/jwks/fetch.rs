//! One request for a set of keys: bounded in time and in bytes, without redirects.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::{ACCEPT, CACHE_CONTROL, USER_AGENT};
use hyper::{HeaderMap, Request, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;

use crate::outgoing;
use crate::tokens::limits::{
    JWKS_AGE, JWKS_AGE_MAX, JWKS_AGE_MIN, JWKS_TIME_MAX, KEY_FILE_BYTES_MAX,
};

/// Why a URL gave no keys.
#[derive(Debug, Error)]
pub enum FetchError {
    /// https needs certificates that are trusted.
    #[error(
        "this system trusts no certificates ({0}): install ca-certificates, or name a file of them \
         in SSL_CERT_FILE"
    )]
    Roots(std::io::Error),
    /// It took too long.
    #[error("no answer within 10 s")]
    Slow,
    /// No connection, or one that ended.
    #[error("{0}")]
    Connection(String),
    /// Another answer than 200. Redirects are not followed.
    #[error("the answer is {0}, and 200 is needed: is it the URL of a set of keys (JWKS)?")]
    Status(StatusCode),
    /// The answer cannot be read.
    #[error("the answer ends early, has over 256 KiB, or is no text")]
    Body,
}

/// What came.
pub(in crate::tokens) struct Fetched {
    pub(in crate::tokens) text: String,
    /// How long it may be used.
    pub(in crate::tokens) age: Duration,
}

/// Asks one URL.
pub(in crate::tokens) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    url: Uri,
}

impl Fetcher {
    pub(in crate::tokens) fn new(url: Uri) -> Result<Fetcher, FetchError> {
        let connector = outgoing::connector(&url).map_err(FetchError::Roots)?;
        // A request in five minutes: its connection is not kept.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Fetcher { client, url })
    }

    pub(in crate::tokens) async fn fetch(&self) -> Result<Fetched, FetchError> {
        let fetched = tokio::time::timeout(JWKS_TIME_MAX, self.request()).await;
        fetched.unwrap_or(Err(FetchError::Slow))
    }

    async fn request(&self) -> Result<Fetched, FetchError> {
        let request = Request::get(self.url.clone())
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, concat!("encke/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| FetchError::Connection(error.to_string()))?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| FetchError::Connection(outgoing::chain(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let age = age(answer.headers());
        let body = Limited::new(answer.into_body(), KEY_FILE_BYTES_MAX);
        let body = body.collect().await.map_err(|_| FetchError::Body)?.to_bytes();
        let text = String::from_utf8(body.into()).map_err(|_| FetchError::Body)?;
        Ok(Fetched { text, age })
    }
}

/// How long the answer may be used (RFC 9111, section 5.2.2.1), within our own bounds.
fn age(headers: &HeaderMap) -> Duration {
    let directives = headers.get_all(CACHE_CONTROL).into_iter();
    let directives = directives.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    let mut age = JWKS_AGE;
    for directive in directives {
        let directive = directive.trim().to_ascii_lowercase();
        let seconds = directive.strip_prefix("max-age=").map(|text| text.trim_matches('"'));
        match (directive.as_str(), seconds.and_then(|text| text.parse().ok())) {
            ("no-store" | "no-cache", _) => return JWKS_AGE_MIN,
            (_, Some(seconds)) => age = Duration::from_secs(seconds),
            _ => {}
        }
    }
    age.clamp(JWKS_AGE_MIN, JWKS_AGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_what_the_server_says_within_bounds() {
        for (said, seconds) in [
            (&[][..], 300),
            (&["public, max-age=120"], 120),
            (&["public", "Max-Age=\"120\""], 120),
            (&["max-age=0"], 60),
            (&["no-store"], 60),
            (&["max-age=500, no-cache"], 60),
            (&["max-age=99999999"], 3600),
            (&["max-age=x, private"], 300),
        ] {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append(CACHE_CONTROL, value.parse().unwrap());
            }
            assert_eq!(age(&headers), Duration::from_secs(seconds), "{said:?}");
        }
    }
}
