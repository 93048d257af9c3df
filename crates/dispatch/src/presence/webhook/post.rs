//! One batch on its way to a webhook: signed, bounded in time, without redirects.
//!
//! The signature has the form that Stripe made usual: `t=SECONDS,v1=HEX`, where the second is the
//! HMAC-SHA256 of `SECONDS.BODY`. The time in it keeps somebody who has overheard a batch from
//! sending it again later.

use std::time::Duration;

use anyhow::{Context, Result};
use auth::outgoing;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::time::timeout;

use crate::presence::{Webhook, WebhookSecret, WebhookUrl};

/// How long a receiver may take to connect, read and answer.
const POST_TIME_MAX: Duration = Duration::from_secs(5);

/// How long what it says beside its answer is read.
const BODY_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a connection is kept for the next batch: shorter than servers keep theirs.
const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(4);

/// Bytes of an answer's body that are read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Why a batch was not taken.
#[derive(Debug, Error)]
pub(super) enum PostError {
    /// Nothing came in time.
    #[error("no answer within 5 s")]
    Slow,
    /// No connection, or one that ended.
    #[error("{0}")]
    Connection(String),
    /// Another answer than 2xx. Redirects are not followed.
    #[error("the answer is {0}, and 2xx is needed")]
    Status(StatusCode),
}

/// Posts to one webhook.
pub(super) struct WebhookClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: WebhookUrl,
    secret: WebhookSecret,
}

impl WebhookClient {
    pub(super) fn new(webhook: Webhook) -> Result<WebhookClient> {
        let Webhook { url, secret } = webhook;
        let connector = outgoing::connector(url.uri()).context(
            "--webhook: this system trusts no certificates: install ca-certificates, or name a \
             file of them in SSL_CERT_FILE",
        )?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(CONNECTION_IDLE_MAX)
            .build(connector);
        Ok(WebhookClient { client, url, secret })
    }

    /// Host and port.
    pub(super) fn host(&self) -> &str {
        self.url.host()
    }

    /// Posts the batch `number`, signed at this time.
    pub(super) async fn post(&self, body: Bytes, number: &str) -> Result<(), PostError> {
        let seconds = (sys::clock::unix_ms() / 1000).to_string();
        let signature = self.secret.sign(&[seconds.as_bytes(), b".", &body]);
        let request = Request::post(self.url.uri().clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("encke/", env!("CARGO_PKG_VERSION")))
            .header("Encke-Batch", number)
            .header("Encke-Signature", format!("t={seconds},v1={signature}"))
            .body(Full::new(body))
            .map_err(|error| PostError::Connection(error.to_string()))?;
        let answer = timeout(POST_TIME_MAX, self.client.request(request)).await;
        let answer = answer.map_err(|_| PostError::Slow)?;
        let answer = answer.map_err(|error| PostError::Connection(outgoing::chain(&error)))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(PostError::Status(status));
        }
        // It is taken, whatever is said besides, and however slowly.
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let _ = timeout(BODY_TIME_MAX, body.collect()).await;
        Ok(())
    }
}
