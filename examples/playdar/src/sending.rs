//! `POST /send` of an Encke, ours or a shared one, over its public API as any program would.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderValue, Request};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

/// How long a connect, or an answer, may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Of an answer: a line for each event, or a problem.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Sends events about `about`, one for each of `data`. How long that may take is the caller's.
///
/// # Errors
/// They were not all taken; the text has what the server says to it.
pub(crate) async fn send<C: Connect + Clone + Send + Sync + 'static>(
    client: &Client<C, Full<Bytes>>,
    url: &str,
    authorization: Option<&HeaderValue>,
    about: &str,
    data: impl IntoIterator<Item = impl Serialize>,
) -> Result<()> {
    let line = |data| format!("{}\n", json!({"about": about, "data": data}));
    let body: String = data.into_iter().map(line).collect();
    let mut request = Request::post(url).header(CONTENT_TYPE, "application/x-ndjson");
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request.body(Full::new(Bytes::from(body)))?;
    let response = client.request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("its answer broke off: {error}"))?.to_bytes();
    ensure!(status.is_success(), "{status}: {}", problem(&body));
    for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let told: Value = serde_json::from_slice(line)?;
        ensure!(told.get("delivered").is_some(), "{}", problem(line));
    }
    Ok(())
}

/// What is answered within that time.
///
/// # Errors
/// Nothing is, or the answer is one.
pub(crate) async fn within<T>(
    time: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout(time, answer).await.unwrap_or_else(|_| bail!("no answer within {time:?}"))
}

/// What a problem (RFC 9457) says to do.
pub(crate) fn problem(body: &[u8]) -> String {
    let problem: Option<Value> = serde_json::from_slice(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
    detail.unwrap_or("it does not say why").escape_debug().take(400).collect()
}
