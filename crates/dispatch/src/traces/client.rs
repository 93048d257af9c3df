//! The way to the collector: one HTTP request for each batch.
//!
//! The exporter tells of a failed request no more than that it failed, so its cause is noted here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use auth::outgoing;
use bytes::Bytes;
use hyper::{Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::HttpClient;
use opentelemetry_http::hyper::HyperClient;

use super::limits::{EXPORT_TIME_MAX, REASON_CHARS_MAX};

/// Why the last request failed, if it did.
pub(super) type LastError = Arc<Mutex<Option<String>>>;

/// Sends requests, and notes why one failed.
pub(super) struct Client {
    inner: HyperClient<HttpsConnector<HttpConnector>>,
    last: LastError,
}

type Sent = std::result::Result<Response<Bytes>, opentelemetry_http::HttpError>;

impl Client {
    /// One for `url`.
    pub(super) fn new(url: &Uri) -> Result<(Client, LastError)> {
        let connector = outgoing::connector(url).context(
            "--otlp: this system trusts no certificates: install ca-certificates, or name a file \
             of them in SSL_CERT_FILE",
        )?;
        let last = LastError::default();
        let inner = HyperClient::new(connector, EXPORT_TIME_MAX, None);
        Ok((Client { inner, last: Arc::clone(&last) }, last))
    }
}

impl HttpClient for Client {
    fn send_bytes<'c, 's>(
        &'c self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Sent> + Send + 's>>
    where
        'c: 's,
        Self: 's,
    {
        Box::pin(async move {
            let sent = self.inner.send_bytes(request).await;
            let error = sent.as_ref().err().map(|error| reason(&**error));
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = error;
            sent
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// The innermost cause, cut to a line: those around it say that something failed.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let text = causes.last().map(ToString::to_string).unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}
