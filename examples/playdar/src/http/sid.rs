//! `/sid/SID`: the content of a result, from a file of the library or from a daemon or a site that
//! has it.
//!
//! Content comes from others, so it never stands here as a page: its type is one of sound, or
//! plain bytes. What is fetched passes through, and no more of it is held than a reader takes.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_RANGE,
    RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response as Plain, StatusCode, Uri};
use axum::response::Response;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

use super::Shared;
use super::reply::refuse;
use crate::model::Found;

/// Songs that are fetched at once.
const FETCHES_MAX: usize = 64;

/// How long a head may take, as in the old daemon.
const HEAD_TIMEOUT: Duration = Duration::from_secs(12);

/// How long no byte may come, as there.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// What fetches songs of others.
pub(super) struct Fetcher {
    client: Client<HttpConnector, Empty<Bytes>>,
    room: Arc<Semaphore>,
}

impl Fetcher {
    pub(super) fn new() -> Fetcher {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(HEAD_TIMEOUT));
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Fetcher { client, room: Arc::new(Semaphore::new(FETCHES_MAX)) }
    }
}

/// `GET` and `HEAD /sid/SID`.
pub(super) async fn play(
    State(app): Shared,
    Path(sid): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(found) = app.parts.pipeline.find_sid(&sid) else {
        return refuse(StatusCode::NOT_FOUND, "no such song: ask for it again, it has a new sid");
    };
    let url = found.url.as_deref().unwrap_or_default();
    let mut response = match url.strip_prefix("file://") {
        // Whoever made the result, only songs of the library are read.
        Some(path) if app.parts.library.holds(path) => file(path, &method, &headers).await,
        Some(_) => refuse(StatusCode::NOT_FOUND, "the file is no song of the library any more"),
        None if url.starts_with("http://") => fetch(&app.fetcher, url, &method, &headers).await,
        None => refuse(StatusCode::SERVICE_UNAVAILABLE, "no reader for where the song is"),
    };
    if response.status().is_success() {
        mark(&mut response, &found);
    }
    response
}

/// Sound, or bytes: never a page that could act as the daemon's own.
fn mark(response: &mut Response, found: &Found) {
    let told = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_sound = |kind: &&str| {
        kind.starts_with("audio/") || *kind == "application/ogg" || *kind == "video/mp4"
    };
    let kind = [Some(found.mimetype.as_str()), told].into_iter().flatten().find(is_sound);
    let kind = kind.and_then(|kind| HeaderValue::from_str(kind).ok());
    let bytes = HeaderValue::from_static("application/octet-stream");
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind.unwrap_or(bytes));
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
}

async fn file(path: &str, method: &Method, headers: &HeaderMap) -> Response {
    let opened = async {
        let file = File::open(path).await?;
        let facts = file.metadata().await?;
        std::io::Result::Ok((file, facts))
    };
    let Ok((mut file, facts)) = opened.await else {
        return refuse(StatusCode::NOT_FOUND, "the file is gone: the library will notice");
    };
    let length = facts.len();
    // There is nothing to compare an If-Range with, so the whole is answered (RFC 9110, 13.1.5).
    let range = headers.get(RANGE).filter(|_| !headers.contains_key(IF_RANGE));
    let range = range.and_then(|range| range.to_str().ok()).map(|range| parse(range, length));
    let (status, range) = match range {
        None | Some(RangeAsked::Whole) => (StatusCode::OK, 0..=length.saturating_sub(1)),
        Some(RangeAsked::Part(range)) => (StatusCode::PARTIAL_CONTENT, range),
        Some(RangeAsked::Nothing) => {
            let mut response = refuse(StatusCode::RANGE_NOT_SATISFIABLE, "the song ends before");
            insert(&mut response, CONTENT_RANGE, format!("bytes */{length}"));
            return response;
        }
    };
    if *range.start() > 0 && file.seek(std::io::SeekFrom::Start(*range.start())).await.is_err() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the file cannot be read");
    }
    let bytes = if length == 0 { 0 } else { range.end() - range.start() + 1 };
    let body = match *method == Method::HEAD {
        true => Body::empty(),
        false => Body::from_stream(ReaderStream::new(file.take(bytes))),
    };
    let mut response = Plain::new(body);
    *response.status_mut() = status;
    insert(&mut response, ACCEPT_RANGES, "bytes".to_owned());
    insert(&mut response, CONTENT_LENGTH, bytes.to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{length}", range.start(), range.end());
        insert(&mut response, CONTENT_RANGE, range);
    }
    response
}

fn insert(response: &mut Response, name: axum::http::HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// What a header `Range` asks for.
#[derive(PartialEq, Eq, Debug)]
enum RangeAsked {
    /// It is none that we read, and such a header is no header (RFC 9110, section 14.2).
    Whole,
    /// From one byte to another.
    Part(RangeInclusive<u64>),
    /// None of its bytes is there.
    Nothing,
}

/// Reads `bytes=1-2`, `bytes=1-` and `bytes=-2`; of many ranges the whole is answered.
fn parse(range: &str, length: u64) -> RangeAsked {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'))
    else {
        return RangeAsked::Whole;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| match text {
        "" => None,
        // A number that no type holds is beyond every file.
        text => Some(text.parse().unwrap_or(u64::MAX)),
    };
    if !digits(first) || !digits(last) {
        return RangeAsked::Whole;
    }
    let (from, to) = match (number(first), number(last)) {
        (None, None) => return RangeAsked::Whole,
        (Some(first), Some(last)) if last < first => return RangeAsked::Whole,
        (Some(first), last) => (first, last.unwrap_or(u64::MAX).min(length.saturating_sub(1))),
        (None, Some(0)) => return RangeAsked::Nothing,
        (None, Some(last)) => (length.saturating_sub(last), length.saturating_sub(1)),
    };
    if from < length { RangeAsked::Part(from..=to) } else { RangeAsked::Nothing }
}

/// Passes a song through that another daemon or a site has.
async fn fetch(fetcher: &Fetcher, url: &str, method: &Method, headers: &HeaderMap) -> Response {
    let Ok(uri) = url.parse::<Uri>() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the song's address is none");
    };
    let Ok(permit) = fetcher.room.clone().try_acquire_owned() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many songs are fetched: try again");
    };
    let mut request = Request::builder().method(method.clone()).uri(uri);
    for name in [RANGE, IF_RANGE] {
        if let Some(value) = headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let Ok(request) = request.body(Empty::new()) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the song's address is none");
    };
    let answer = match timeout(HEAD_TIMEOUT, fetcher.client.request(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => return refuse(StatusCode::SERVICE_UNAVAILABLE, "the holder does not answer"),
        Err(_) => return refuse(StatusCode::SERVICE_UNAVAILABLE, "the holder is too slow"),
    };
    let passes = [StatusCode::OK, StatusCode::PARTIAL_CONTENT, StatusCode::RANGE_NOT_SATISFIABLE];
    if !passes.contains(&answer.status()) {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the holder does not give the song");
    }
    let (head, body) = answer.into_parts();
    let mut response = Plain::new(Body::from_stream(passing(body, permit)));
    *response.status_mut() = head.status;
    for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_RANGE, ACCEPT_RANGES] {
        if let Some(value) = head.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// The bytes of a song, one piece after the other as they are taken.
fn passing(
    body: Incoming,
    permit: OwnedSemaphorePermit,
) -> impl futures_util::Stream<Item = Result<Bytes, axum::Error>> {
    unfold(Some((body, permit)), |state| async move {
        let (mut body, permit) = state?;
        loop {
            let frame = match timeout(IDLE_TIMEOUT, body.frame()).await {
                Ok(frame) => frame?,
                Err(slow) => return Some((Err(axum::Error::new(slow)), None)),
            };
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(bytes)) => return Some((Ok(bytes), Some((body, permit)))),
                // Trailers say nothing to a player.
                Ok(Err(_)) => {}
                Err(error) => return Some((Err(axum::Error::new(error)), None)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_says() {
        for (range, asked) in [
            ("bytes=0-0", RangeAsked::Part(0..=0)),
            ("bytes=2-", RangeAsked::Part(2..=9)),
            ("bytes=2-99", RangeAsked::Part(2..=9)),
            ("bytes=-3", RangeAsked::Part(7..=9)),
            ("bytes=-99", RangeAsked::Part(0..=9)),
            ("bytes=10-", RangeAsked::Nothing),
            ("bytes=-0", RangeAsked::Nothing),
            ("bytes=99999999999999999999-", RangeAsked::Nothing),
            ("bytes=3-2", RangeAsked::Whole),
            ("bytes=-", RangeAsked::Whole),
            ("bytes=+1-2", RangeAsked::Whole),
            ("bytes=0-1,3-4", RangeAsked::Whole),
            ("lines=1-2", RangeAsked::Whole),
        ] {
            assert_eq!(parse(range, 10), asked, "{range}");
        }
        assert_eq!(parse("bytes=0-", 0), RangeAsked::Nothing);
    }
}
