//! A listener: one stream of events from the public port, as Server-Sent Events, as a WebSocket or
//! as long polls.

use std::fmt::Display;

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
use serde_json::value::RawValue;
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
    /// Long polls, each of which goes on where the answer before it ended.
    Poll {
        sender: SendRequest<Body>,
        url: ServerUrl,
        path: Path,
        after: Option<String>,
        /// The answer to the first one, until it is handed on: something may have come with it.
        first: Option<PollAnswer>,
    },
}

/// What came of the attempt to open a stream.
pub(crate) enum Opening {
    Open(Listener),
    /// The server has no place now; trying again may help.
    Busy(anyhow::Error),
}

/// A path with the ids to be online as.
pub(crate) struct Path(String);

impl Path {
    fn new(start: &str, ids: &[String]) -> Result<Path> {
        let (first, more) = ids.split_first().context("name at least one id")?;
        let path = Path(format!("{start}{}", escape(first)));
        Ok(more.iter().fold(path, |path, id| Path(path.with("id", escape(id)))))
    }

    /// The same with one more parameter.
    fn with(&self, name: &str, value: impl Display) -> String {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        format!("{}{separator}{name}={value}", self.0)
    }
}

impl Listener {
    /// Opens a stream at `url` under all of `ids`: as Server-Sent Events, as a WebSocket, or as
    /// long polls, of which the first does not wait.
    pub(crate) async fn open(
        url: &ServerUrl,
        ids: &[String],
        transport: Transport,
    ) -> Result<Opening> {
        let start = if transport == Transport::Poll { "/poll/" } else { "/stream/" };
        let path = Path::new(start, ids)?;
        let key = client::key(random()?);
        let mut sender = url.connect().await?;
        let request = match transport {
            Transport::Poll => url.request(Method::GET, &path.with("wait", 0)),
            Transport::WebSocket => url
                .request(Method::GET, &path.0)
                .header(header::CONNECTION, "Upgrade")
                .header(header::UPGRADE, "websocket")
                .header(header::SEC_WEBSOCKET_VERSION, "13")
                .header(header::SEC_WEBSOCKET_KEY, &key[..]),
            _ => url.request(Method::GET, &path.0).header(header::ACCEPT, "text/event-stream"),
        };
        let broke_off = || format!("the server at {url} did not answer");
        let response =
            sender.send_request(request.body(Body::empty())?).await.with_context(broke_off)?;
        match (response.status(), transport) {
            (StatusCode::SWITCHING_PROTOCOLS, Transport::WebSocket) => {
                Ok(Opening::Open(Listener::upgrade(response, &key).await?))
            }
            (StatusCode::OK, Transport::Poll) => {
                let (url, first) = (url.clone(), Some(PollAnswer::read(response).await?));
                Ok(Opening::Open(Listener::Poll { sender, url, path, after: None, first }))
            }
            (StatusCode::OK, Transport::Sse) => {
                let decoder = SseDecoder::default();
                let body = response.into_body();
                Ok(Opening::Open(Listener::Sse { body, decoder, _sender: sender }))
            }
            (status, _) => {
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
            Listener::Poll { sender, url, path, after, first } => {
                let path = match after {
                    Some(after) => path.with("after", after),
                    None => path.0.clone(),
                };
                let answer = match first.take() {
                    Some(first) => Ok(first),
                    None => poll(sender, url, &path).await,
                };
                // An error: the server has ended the connection, or refuses to go on.
                let Ok(answer) = answer else { return false };
                *after = answer.next.or(after.take());
                if answer.gap {
                    on_event(b"{\"gap\":true}");
                }
                let events = serde_json::from_slice::<Vec<&RawValue>>(&answer.events);
                let good = events.is_ok();
                events.into_iter().flatten().for_each(|event| on_event(event.get().as_bytes()));
                good
            }
        }
    }
}

/// The answer to a poll.
pub(crate) struct PollAnswer {
    /// An array of JSON.
    events: Vec<u8>,
    /// The place for the next poll.
    next: Option<String>,
    /// Whether something before these events was missed.
    gap: bool,
}

impl PollAnswer {
    async fn read(response: Response<Incoming>) -> Result<PollAnswer> {
        let next = response.headers().get("encke-next").and_then(|next| next.to_str().ok());
        let (next, gap) = (next.map(str::to_owned), response.headers().contains_key("encke-gap"));
        Ok(PollAnswer { events: read_answer(response).await?, next, gap })
    }
}

async fn poll(sender: &mut SendRequest<Body>, url: &ServerUrl, path: &str) -> Result<PollAnswer> {
    sender.ready().await?;
    let request = url.request(Method::GET, path).body(Body::empty())?;
    PollAnswer::read(sender.send_request(request).await?).await
}

/// Bytes that nobody can foresee (RFC 6455, sections 4.1 and 5.3).
fn random<const LEN: usize>() -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random numbers: {error}"))?;
    Ok(bytes)
}
