//! One batch on its way to a webhook: bounded in time, without redirects.

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

use super::{Fields, WebhookUrl};

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
pub(crate) enum PostError {
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

impl PostError {
    /// Whether a smaller body may be taken.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, PostError::Status(StatusCode::PAYLOAD_TOO_LARGE))
    }
}

/// Posts to one webhook.
pub(crate) struct WebhookClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: WebhookUrl,
}

impl WebhookClient {
    /// One that posts to `url`.
    pub(crate) fn new(url: WebhookUrl) -> Result<WebhookClient> {
        let connector = outgoing::connector(url.uri()).context(
            "webhooks: this system trusts no certificates: install ca-certificates, or name a file \
             of them in SSL_CERT_FILE",
        )?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(CONNECTION_IDLE_MAX)
            .build(connector);
        Ok(WebhookClient { client, url })
    }

    /// Host and port.
    pub(super) fn host(&self) -> &str {
        self.url.host()
    }

    /// Posts a batch with these fields in its head.
    pub(super) async fn post(&self, body: Bytes, fields: Fields) -> Result<(), PostError> {
        // Nothing stands behind the type: Pusher's library for Node compares it.
        let mut request = Request::post(self.url.uri().clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("encke/", env!("CARGO_PKG_VERSION")));
        for (name, value) in fields {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| PostError::Connection(error.to_string()))?;
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
