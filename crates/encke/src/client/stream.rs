//! A listener: one stream of events from the public port, as Server-Sent Events or as a WebSocket.

use anyhow::{Context, Result, anyhow, bail};
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::upgrade::Upgraded;
use hyper::{Method, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use proto::Transport;
use proto::client::{self, BodyLength, Event, Progress, SseDecoder, StreamDecoder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{ServerUrl, escape, read_answer};

/// Bytes read at once from a WebSocket.
const READ_BYTES: usize = 16 * 1024;

/// An open stream.
pub(crate) enum Listener {
    /// Server-Sent Events.
    Sse {
        body: Incoming,
        decoder: SseDecoder,
        /// The connection lasts as long as this.
        _sender: SendRequest<Body>,
    },
    /// A WebSocket.
    WebSocket { io: Box<TokioIo<Upgraded>>, decoder: StreamDecoder, buffer: Vec<u8> },
}

/// What came of the attempt to open a stream.
pub(crate) enum Opening {
    Open(Listener),
    /// The server has no place now; trying again may help.
    Busy(anyhow::Error),
}

impl Listener {
    /// Opens a stream at `url` under all of `ids`, as a WebSocket or as Server-Sent Events.
    pub(crate) async fn open(url: &ServerUrl, ids: &[String], websocket: bool) -> Result<Opening> {
        let (first, more) = ids.split_first().context("name at least one id")?;
        let mut path = format!("/stream/{}", escape(first));
        for (number, id) in more.iter().enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            path += &format!("{mark}id={}", escape(id));
        }
        let key = client::key(random()?);
        let mut sender = url.connect().await?;
        let request = url.request(Method::GET, &path);
        let request = if websocket {
            request
                .header(header::CONNECTION, "Upgrade")
                .header(header::UPGRADE, "websocket")
                .header(header::SEC_WEBSOCKET_VERSION, "13")
                .header(header::SEC_WEBSOCKET_KEY, &key[..])
        } else {
            request.header(header::ACCEPT, "text/event-stream")
        };
        let broke_off = || format!("the server at {url} did not answer");
        let response =
            sender.send_request(request.body(Body::empty())?).await.with_context(broke_off)?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS if websocket => {
                Ok(Opening::Open(Listener::upgrade(response, &key).await?))
            }
            StatusCode::OK if !websocket => {
                let decoder = SseDecoder::default();
                let body = response.into_body();
                Ok(Opening::Open(Listener::Sse { body, decoder, _sender: sender }))
            }
            status => {
                let error = read_answer(response).await.err();
                let error = error.unwrap_or_else(|| anyhow!("the server answered {status}"));
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    Ok(Opening::Busy(error))
                } else {
                    Err(error)
                }
            }
        }
    }

    async fn upgrade(response: Response<Incoming>, key: &[u8; 24]) -> Result<Listener> {
        let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if !client::accepts(key, accept) {
            bail!("the server's answer is no WebSocket's: its Sec-WebSocket-Accept is wrong");
        }
        let io = hyper::upgrade::on(response).await.context("the upgrade broke off")?;
        let decoder = StreamDecoder::new(Transport::WebSocket, BodyLength::UntilClose);
        let buffer = vec![0; READ_BYTES];
        Ok(Listener::WebSocket { io: Box::new(TokioIo::new(io)), decoder, buffer })
    }

    /// Waits for the next events and hands each one's JSON to `on_event`. `false` when the stream
    /// has ended.
    pub(crate) async fn next(&mut self, mut on_event: impl FnMut(&[u8])) -> bool {
        match self {
            Listener::Sse { body, decoder, .. } => {
                let Some(Ok(frame)) = body.frame().await else { return false };
                let Some(bytes) = frame.data_ref() else { return true };
                let mut hand_on = |event: Event<'_>| {
                    if !event.is_position() {
                        on_event(event.data);
                    }
                };
                decoder.feed(bytes, &mut hand_on).is_ok()
            }
            Listener::WebSocket { io, decoder, buffer } => {
                let Ok(len @ 1..) = io.read(buffer).await else { return false };
                let progress = decoder.feed(&buffer[..len], |event| on_event(event.data));
                let mut reply = Vec::new();
                if let (Some(owed), Ok(mask)) = (decoder.take_reply(), random()) {
                    client::push_reply(&owed, mask, &mut reply);
                }
                // The last reply may find nobody; the others' failure shows at the next read.
                let sent = io.write_all(&reply).await;
                sent.is_ok() && progress == Ok(Progress::More)
            }
        }
    }
}

/// Bytes that nobody can foresee (RFC 6455, sections 4.1 and 5.3).
fn random<const LEN: usize>() -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random numbers: {error}"))?;
    Ok(bytes)
}
