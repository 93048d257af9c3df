//! One stream of events from the public port, as Server-Sent Events, as a WebSocket or as long
//! polls. What goes on when it is lost is [`Follower`]'s to see to.

mod follow;
mod loss;
mod poll;
mod sse;
mod websocket;

use std::collections::VecDeque;
use std::error::Error as _;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use axum::body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::http::{HeaderValue, request::Builder};
use hyper::{Method, Request, Response, StatusCode, header};
use proto::Transport;

use super::{ServerUrl, TokenSource, escape, no_answer};
pub(crate) use follow::{Follower, FollowerEvent};
use loss::Loss;
use poll::Polls;
use sse::EventStream;
use websocket::Socket;

/// What is listened to, and how.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) url: ServerUrl,
    /// At least one.
    pub(crate) ids: Vec<String>,
    /// What each request is shown with.
    pub(crate) token: Option<TokenSource>,
    pub(crate) transport: Transport,
    /// With how many of the last events about each id it begins.
    pub(crate) last: Option<u32>,
    /// How long nothing at all may come; `None` is for ever.
    pub(crate) silence: Option<Duration>,
}

/// What came of a stream.
#[derive(PartialEq, Eq, Debug)]
enum StreamItem {
    /// An event's JSON.
    Event(Vec<u8>),
    /// Events were missed that the server has forgotten.
    Gap,
    /// Everything before this is heard: where a stream goes on that is opened anew.
    Place(String),
}

/// An open stream.
enum Stream {
    Sse(EventStream),
    WebSocket(Socket),
    Poll(Polls),
}

impl Stream {
    /// Opens a stream that goes on at `place`. What came with its head is put into `heard`.
    async fn open(
        wanted: &Wanted,
        place: Option<&str>,
        heard: &mut VecDeque<StreamItem>,
    ) -> Result<Stream, Loss> {
        Ok(match wanted.transport {
            Transport::Poll => Stream::Poll(Polls::open(wanted, place, heard).await?),
            Transport::WebSocket => Stream::WebSocket(Socket::open(wanted, place).await?),
            _ => Stream::Sse(EventStream::open(wanted, place, heard).await?),
        })
    }

    /// Waits for the next sign of life, and puts what it says into `heard`: nothing, if it is only
    /// a keep-alive.
    async fn read(&mut self, heard: &mut VecDeque<StreamItem>) -> Result<(), Loss> {
        match self {
            Stream::Sse(stream) => stream.read(heard).await,
            Stream::WebSocket(socket) => socket.read(heard).await,
            Stream::Poll(polls) => polls.read(heard).await,
        }
    }
}

/// `start` with the ids to be online as, and further parameters.
fn path(start: &str, ids: &[String], parameters: &[(&str, &str)]) -> String {
    let (first, more) = ids.split_first().expect("there is at least one id");
    let mut path = format!("{start}{}", escape(first));
    let ids = more.iter().map(|id| ("id", &**id));
    for (place, (name, value)) in ids.chain(parameters.iter().copied()).enumerate() {
        let separator = if place == 0 { '?' } else { '&' };
        path.extend([&format!("{separator}{name}="), &*escape(value).to_string()]);
    }
    path
}

/// A request for `path`, with the token of this moment.
fn authorized(wanted: &Wanted, path: &str) -> Result<Builder, Loss> {
    let request = wanted.url.request(Method::GET, path);
    Ok(match &wanted.token {
        Some(token) => request.header(header::AUTHORIZATION, token.authorization()?),
        None => request,
    })
}

/// A request for the stream, from `place` on.
fn request(wanted: &Wanted, place: Option<&str>) -> Result<Builder, Loss> {
    let last = wanted.last.filter(|_| place.is_none()).map(|last| last.to_string());
    // The head does not say where such a stream stands: it does, behind the last events.
    let parameters = last.iter().flat_map(|last| [("last", &**last), ("next", "1")]);
    let parameters: Vec<_> = parameters.collect();
    let request = authorized(wanted, &path("/stream/", &wanted.ids, &parameters))?;
    let Some(place) = place else { return Ok(request) };
    // Another server's may be any text (WHATWG HTML, section 9.2.4): UTF-8 on the wire.
    let value = HeaderValue::from_bytes(place.as_bytes());
    let odd = |_| Loss::Final(anyhow!("the event id {place} cannot be given back; is it Encke?"));
    Ok(request.header("last-event-id", value.map_err(odd)?))
}

/// A request with nothing behind its head.
fn written(request: Builder) -> Result<Request<Body>> {
    request.body(Body::empty()).context("the request is too long; name fewer ids, or shorter ones")
}

/// Sends `request`, which asks for an answer of the type `content_type`, on a connection on which
/// the server has answered before, or not.
async fn ask(
    (sender, was_answered): (&mut SendRequest<Body>, bool),
    request: Builder,
    url: &ServerUrl,
    content_type: &str,
) -> Result<Response<Incoming>, Loss> {
    let request = request.header(header::ACCEPT, content_type);
    let request = written(request)?;
    let response =
        sender.send_request(request).await.map_err(|error| match is_end(&error, was_answered) {
            true => anyhow!("the server ended the connection"),
            false => anyhow::Error::new(error).context(no_answer(url)),
        })?;
    let given = response.headers().get(header::CONTENT_TYPE);
    let is_of_type =
        given.is_some_and(|given| given.as_bytes().starts_with(content_type.as_bytes()));
    match response.status() {
        // A page of a proxy, for one, comes with 200 too.
        StatusCode::OK if !is_of_type => {
            Err(anyhow!("the answer of {url} is no {content_type}; is it the public port?").into())
        }
        StatusCode::OK => Ok(response),
        _ => Err(Loss::refused(response, url).await),
    }
}

/// Whether the connection was closed behind the answer before: when this was seen, the request was
/// not sent yet, or on its way.
fn is_end(error: &hyper::Error, was_answered: bool) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let is_cut = io.is_some_and(|error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    });
    error.is_canceled() || was_answered && (error.is_incomplete_message() || is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_all_ids_and_parameters() {
        let ids = ["photo:789".to_owned(), "b&c".to_owned()];
        let path = |ids, parameters| path("/poll/", ids, parameters);
        assert_eq!(path(&ids, &[("wait", "0")]), "/poll/photo%3A789?id=b%26c&wait=0");
        assert_eq!(path(&ids[1..], &[("wait", "5"), ("after", "x")]), "/poll/b%26c?wait=5&after=x");
        assert_eq!(path(&ids[..1], &[]), "/poll/photo%3A789");
    }
}
