//! The requests of one connection: how many are in progress, and whether one was answered before it
//! was read to its end.
//!
//! hyper tells neither. The first decides how long a connection may be silent: not at all the time
//! that we take for an answer, but between two requests. The second decides how the connection is
//! closed: see [`super::wire`].

use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, Version, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::problem::ApiProblem;

/// Where a connection comes from, and how: an extension of each of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The address of its other end.
    pub address: IpAddr,
    /// Whether it speaks TLS with us.
    pub is_tls: bool,
    /// Whether all is over when it closes its side, as for a stream of events. Others may be done
    /// with what they say, and wait for the answer.
    pub ends_with_its_side: bool,
}

impl Peer {
    /// Somebody of whom nothing is known. All of those are one.
    pub const UNKNOWN: Peer = Peer {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        is_tls: false,
        ends_with_its_side: false,
    };

    /// The address of `request`.
    pub fn of<B>(request: &Request<B>) -> IpAddr {
        request.extensions().get().unwrap_or(&Peer::UNKNOWN).address
    }

    /// Whether `request` came by TLS that ends here.
    pub fn is_over_tls<B>(request: &Request<B>) -> bool {
        request.extensions().get::<Peer>().is_some_and(|peer| peer.is_tls)
    }
}

/// What is known of a connection's requests.
#[derive(Debug)]
pub(super) struct Exchanges {
    /// How many are in progress, and since when that is so.
    in_progress: watch::Sender<(u32, Instant)>,
    /// Whether a request was answered before it was read to its end. Relaxed: it is read by the
    /// task that has set it.
    unread: AtomicBool,
    /// How many requests have begun, which of them was the last that was read to its end, how many
    /// are answered, and whether all answers have left. Relaxed, likewise.
    begun: AtomicU32,
    read: AtomicU32,
    answered: AtomicU32,
    is_flushed: AtomicBool,
    /// Tells that an answer was the last one.
    last: Notify,
}

/// Since when a connection has been without a request in progress.
pub(super) struct Idle(watch::Receiver<(u32, Instant)>);

impl Exchanges {
    pub(super) fn new() -> Arc<Exchanges> {
        Arc::new(Exchanges {
            in_progress: watch::Sender::new((0, Instant::now())),
            unread: AtomicBool::new(false),
            begun: AtomicU32::new(0),
            read: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            is_flushed: AtomicBool::new(true),
            last: Notify::new(),
        })
    }

    /// Whether the client may still be writing what nobody reads.
    pub(super) fn left_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// Waits until an answer was the last one, which hyper has not been told.
    pub(super) async fn last(&self) {
        self.last.notified().await;
    }

    /// Says whether all that was written has left.
    pub(super) fn set_flushed(&self, is_flushed: bool) {
        self.is_flushed.store(is_flushed, Ordering::Relaxed);
    }

    /// Waits until so many requests are answered, none is in progress, and the last one was read to
    /// its end: the next one begins here. To be asked each time that the connection has had its
    /// turn: nothing wakes this alone.
    pub(super) async fn between(&self, answers: u32) {
        poll_fn(|_| if self.is_between(answers) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn is_between(&self, answers: u32) -> bool {
        self.in_progress.borrow().0 == 0
            && self.answered.load(Ordering::Relaxed) >= answers
            && self.read.load(Ordering::Relaxed) == self.begun.load(Ordering::Relaxed)
            && self.is_flushed.load(Ordering::Relaxed)
    }

    pub(super) fn idle(&self) -> Idle {
        Idle(self.in_progress.subscribe())
    }

    fn count(&self, change: i32) {
        self.in_progress.send_modify(|(count, at)| {
            debug_assert!(change > 0 || *count > 0, "more answers than questions");
            (*count, *at) = (count.saturating_add_signed(change), Instant::now());
        });
    }
}

impl Idle {
    /// Waits until no request is in progress; since when.
    pub(super) async fn begins(&mut self) -> Instant {
        match self.0.wait_for(|(count, _)| *count == 0).await {
            Ok(state) => state.1,
            // The connection is gone.
            Err(_) => Instant::now(),
        }
    }

    /// Waits until that has changed.
    pub(super) async fn ends(&mut self) {
        // Fails when the connection is gone.
        let _ = self.0.changed().await;
    }
}

/// Answers a request of the connection; one in a reserved place only when it is a probe.
pub(super) async fn answer(
    exchanges: Arc<Exchanges>,
    routes: Router,
    is_reserved: bool,
    peer: Peer,
    mut request: Request<Incoming>,
) -> Response<Answer> {
    let version = request.version();
    request.extensions_mut().insert(peer);
    exchanges.count(1);
    let under_way = UnderWay(exchanges);
    let mut response = if is_reserved && !is_probe(request.uri().path()) {
        ApiProblem::no_place().into_response()
    } else {
        let exchanges = Arc::clone(&under_way.0);
        let request = request.map(|body| Body::new(Question::new(body, exchanges)));
        let Ok(response) = TowerToHyperService::new(routes).call(request).await;
        response
    };
    if is_reserved {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    // HTTP/2 has no such field (RFC 9113, section 8.2.2): there it is the connection that is told.
    if version == Version::HTTP_2 && response.headers_mut().remove(header::CONNECTION).is_some() {
        under_way.0.last.notify_one();
    }
    response.map(|body| Answer { body, _under_way: under_way })
}

/// Whether `path` is for those who watch the server, and are answered when nobody else is.
pub fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics")
}

/// A request in progress.
struct UnderWay(Arc<Exchanges>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
        self.0.count(-1);
    }
}

/// A request's body, which tells when it is dropped before its end.
struct Question {
    body: Incoming,
    /// Whether its end was seen. hyper tells by itself only of bodies of known length.
    has_ended: bool,
    /// Which one of the connection it is, from 1 on.
    number: u32,
    exchanges: Arc<Exchanges>,
}

impl Question {
    fn new(body: Incoming, exchanges: Arc<Exchanges>) -> Question {
        let number = exchanges.begun.fetch_add(1, Ordering::Relaxed) + 1;
        Question { body, has_ended: false, number, exchanges }
    }
}

impl HttpBody for Question {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.has_ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.is_end_stream() {
            self.exchanges.read.fetch_max(self.number, Ordering::Relaxed);
        } else {
            self.exchanges.unread.store(true, Ordering::Relaxed);
        }
    }
}

/// An answer's body: the request is in progress until that is sent.
pub(super) struct Answer {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
