//! The shared Encke, over its public interfaces: one stream that is resumed, and `POST /send`, by
//! which songs are told in their order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::http::header::{ACCEPT, AUTHORIZATION};
use axum::http::{HeaderValue, Method, Request};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::FriendsConfig;
use crate::keep_up::keep_up;
use crate::sending::{self, ANSWER_BYTES_MAX};

/// Of a line: more than an event of a server may have that keeps Encke's own bound of 64 KiB. What
/// is longer is not for us, and skipped.
const LINE_BYTES_MAX: usize = 256 << 10;

/// A stream that is silent for so long is dead: four keep-alives at Encke's usual interval. Where
/// they are off, it is opened anew and nothing is missed.
const SILENCE_MAX: Duration = Duration::from_secs(80);

/// What a stream tells.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Heard {
    /// An event.
    Event {
        /// Its place.
        id: String,
        /// Its subject.
        about: String,
        /// Its payload.
        data: Value,
    },
    /// Where the stream begins.
    Next {
        /// The place.
        next: String,
    },
    /// Events may have been missed. Their queries have been answered by others, or never will.
    Gap {
        #[serde(rename = "gap")]
        _gap: bool,
    },
}

/// Its two ports, and what they are shown.
pub(super) struct Encke {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    config: FriendsConfig,
    /// The value of the field in which its API is shown the key.
    authorization: Option<HeaderValue>,
}

impl Encke {
    pub(super) fn new(config: &FriendsConfig) -> Result<Encke> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(config.answer_timeout));
        let tls = match server::client_config(None, &[]) {
            Ok(tls) => Arc::unwrap_or_clone(tls),
            Err(error) if config.streams.is_tls || config.api.is_tls => return Err(error.into()),
            // Without TLS nobody need be trusted.
            Err(_) => trusting_nobody(),
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let authorization = match &config.key {
            None => None,
            Some(key) => {
                let value = key.authorization().context("the key of --key-file is none")?;
                let mut value = HeaderValue::try_from(value)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Encke { client, config: config.clone(), authorization })
    }

    /// Sends `data` about `about`. What is not taken is lost, as an event is that nobody hears; who
    /// asked goes on without it.
    pub(super) async fn post(&self, about: &str, data: Value) {
        let url = format!("{}/send", self.config.api);
        let authorization = self.authorization.as_ref();
        let sent = sending::send(&self.client, &url, authorization, about, [data]);
        if let Err(error) = sending::within(self.config.answer_timeout, sent).await {
            tracing::warn!("friends were not reached: {error:#}");
        }
    }

    /// Opens the stream of `ids`, from `place` on.
    async fn open(&self, ids: &[String; 2], place: Option<&str>) -> Result<Incoming> {
        let escape = |id| utf8_percent_encode(id, NON_ALPHANUMERIC).to_string();
        let [name, inbox] = ids;
        let streams = &self.config.streams;
        let mut url = format!("{streams}/stream/{}?id={}&next=1", escape(name), escape(inbox));
        if let Some(place) = place {
            url.push_str("&last_event_id=");
            url.push_str(&escape(place));
        }
        let mut request =
            Request::builder().method(Method::GET).uri(url).header(ACCEPT, "application/x-ndjson");
        if let Some(file) = &self.config.token_file {
            let token = tokio::fs::read_to_string(file).await;
            let token = token.with_context(|| format!("cannot read {}", file.display()))?;
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .with_context(|| format!("{} holds no token", file.display()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(Bytes::new()))?;
        let time = self.config.answer_timeout;
        let answer = async { Ok(self.client.request(request).await?) };
        let response = sending::within(time, answer).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
        let body = timeout(time, body).await.ok().and_then(Result::ok);
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        bail!("{status}: {}", sending::problem(&body))
    }
}

/// For a machine whose system trusts nobody: each handshake fails.
fn trusting_nobody() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has suites of both versions");
    builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

/// Tells whoever follows `name` the songs that are listened to, until `stop`. One is posted when
/// the one before it is answered, so the newest that friends hear is the one that plays.
pub(super) async fn tell(
    encke: Arc<Encke>,
    name: String,
    mut listened: mpsc::Receiver<Value>,
    stop: CancellationToken,
) {
    let telling = async {
        while let Some(song) = listened.recv().await {
            encke.post(&name, song).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = telling => {}
    }
}

/// Listens as `ids` until `stop`, and goes on after each loss where it was.
pub(super) async fn listen(
    encke: Arc<Encke>,
    ids: [String; 2],
    heard: mpsc::Sender<Heard>,
    stop: CancellationToken,
) {
    let what = format!("the stream of friends at {}", encke.config.streams);
    // Where it was heard last; one run has it at a time.
    let place = Mutex::new(None);
    keep_up(&what, &stop, async || {
        let mut place = place.lock().await;
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            lost = follow(&encke, &ids, &mut place, &heard) => lost,
        }
    })
    .await;
}

/// One stream, to its end, which is an error.
async fn follow(
    encke: &Encke,
    ids: &[String; 2],
    place: &mut Option<String>,
    heard: &mpsc::Sender<Heard>,
) -> Result<()> {
    let mut body = encke.open(ids, place.as_deref()).await?;
    tracing::info!("listening to friends at {} as {}", encke.config.streams, ids[0]);
    let mut lines = Lines::default();
    loop {
        let frame = timeout(SILENCE_MAX, body.frame()).await;
        let frame = frame.map_err(|_| anyhow!("nothing came for {SILENCE_MAX:?}"))?;
        let Some(frame) = frame.transpose()? else { bail!("it ended") };
        let Some(data) = frame.data_ref() else { continue };
        for line in lines.split(data) {
            // Others may say anything about our name; what is no event is not for us.
            let Ok(told) = serde_json::from_slice(&line) else { continue };
            if let Heard::Event { id, .. } | Heard::Next { next: id } = &told {
                *place = Some(id.clone());
            }
            heard.send(told).await?;
        }
    }
}

/// Lines out of pieces, with a bound on each.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    is_skipping: bool,
}

impl Lines {
    /// The lines that end in `data`.
    fn split(&mut self, data: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + piece.len() > LINE_BYTES_MAX {
                self.is_skipping = true;
                self.begun = Vec::new();
            }
            if !self.is_skipping {
                self.begun.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.is_skipping = false;
                lines.push(std::mem::take(&mut self.begun));
            }
        }
        lines.retain(|line| !line.trim_ascii().is_empty());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_wherever_they_are_cut_and_long_ones_are_skipped() {
        let long = "x".repeat(LINE_BYTES_MAX);
        let text = format!("one\n\n{long}\ntwo\n");
        for size in [1, 7, 4096, text.len()] {
            let mut lines = Lines::default();
            let heard: Vec<_> =
                text.as_bytes().chunks(size).flat_map(|chunk| lines.split(chunk)).collect();
            assert_eq!(heard, [b"one\n".to_vec(), b"two\n".to_vec()], "pieces of {size}");
        }
    }
}
