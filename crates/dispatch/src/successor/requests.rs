//! The program that has taken everything, as the one before it asks it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, StatusCode, Version, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use httpd::exchange::Peer;
use httpd::problem::ApiProblem;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proto::ProblemKind;
use serde::Deserialize;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::fields::{FirstLine, Statement, keep_end_to_end};
use super::lost::Lost;
use super::place;

/// How long it may take until the successor can be reached: it takes our place on the socket when
/// it begins to serve.
const REACH_TIME: Duration = Duration::from_secs(2);

/// How long to wait before another try.
const REACH_PAUSE: Duration = Duration::from_millis(10);

/// What is read of an answer that is no stream.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The program that has taken everything.
#[derive(Debug)]
pub struct Successor {
    socket: PathBuf,
    /// The process that cannot be it, although it serves there until the successor has taken the
    /// socket.
    before: Option<u32>,
}

/// What is read of a problem.
#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "type")]
    reference: String,
    detail: String,
}

impl Successor {
    /// The process that serves with the data in `data` when this one does not any more.
    pub fn new(data: &Path) -> Successor {
        Successor { socket: place::path(data), before: Some(process::id()) }
    }

    /// What serves with the data in `data`, in whichever process: for tests that are both.
    pub fn in_any_process(data: &Path) -> Successor {
        Successor { socket: place::path(data), before: None }
    }

    /// Passes a request on, and its answer back.
    pub async fn pass_on(&self, head: Parts, body: Body) -> Result<Response, ApiProblem> {
        let method = head.method.clone();
        // Whoever passed it on to us may have said where it begins.
        let first = FirstLine::of(&head.extensions);
        let answer = self.ask(request(head, body, first)).await;
        let mut answer = answer.map_err(|lost| lost.problem(&method))?;
        keep_end_to_end(answer.headers_mut());
        // Of another connection, and of another version perhaps.
        *answer.version_mut() = Version::HTTP_11;
        Ok(answer.map(Body::new))
    }

    /// Asks with another body than the request with `head` has; the body of a good answer.
    pub async fn ask_with(
        &self,
        head: &Parts,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes, ApiProblem> {
        let mut asked = copy(head);
        asked.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let answer = self.ask(request(asked, Body::from(body), FirstLine(1))).await;
        let answer = answer.map_err(|lost| lost.problem(&head.method))?;
        let status = answer.status();
        let silent = |_| Lost::Silent.problem(&head.method);
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(silent)?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(problem(status, &body)) }
    }

    /// Asks to go on with a stream whose request had `head`, from line `first` on. Its answer, or
    /// why there is none.
    pub(super) async fn ask_stream(
        &self,
        head: Parts,
        body: Body,
        first: FirstLine,
    ) -> Result<Result<Incoming, ApiProblem>, Lost> {
        let answer = self.ask(request(head, body, first)).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(Ok(answer.into_body()));
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Lost::Silent)?.to_bytes();
        Ok(Err(problem(status, &body)))
    }

    async fn ask(&self, request: Request<Body>) -> Result<hyper::Response<Incoming>, Lost> {
        let stream = self.connect().await.map_err(|error| {
            tracing::warn!("the new version of the server cannot be reached: {error}");
            Lost::Unasked
        })?;
        let opened = http1::handshake(TokioIo::new(stream)).await;
        let (mut asking, connection) = opened.map_err(|_| Lost::Unasked)?;
        // It ends with its answer, or when nobody waits for that any more.
        tokio::spawn(async {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a request that was passed on ended early");
            }
        });
        asking.send_request(request).await.map_err(|error| match error {
            // Not begun to be written.
            error if error.is_canceled() => Lost::Unasked,
            _ => Lost::Silent,
        })
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        let end = Instant::now() + REACH_TIME;
        loop {
            match self.try_connect() {
                Ok(stream) => return Ok(stream),
                Err(error) if Instant::now() >= end => return Err(error),
                // It does not serve yet, or more wait for it than its queue holds.
                Err(error) => match error.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock => {
                        sleep(REACH_PAUSE).await;
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// A Unix socket is connected at once, or not.
    fn try_connect(&self) -> io::Result<UnixStream> {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        place::reach(&self.socket, |path| socket.connect(&socket2::SockAddr::unix(path)?))?;
        let stream = UnixStream::from_std(std::os::unix::net::UnixStream::from(socket))?;
        // Our own: we had it from the program before us, and the successor has not taken it yet.
        if self.before.is_some() && place::process(&stream)? == self.before {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        if !place::is_ours(&stream)? {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another user serves there"));
        }
        Ok(stream)
    }
}

/// The request with `head`, as it is passed on.
fn request(mut head: Parts, body: Body, first: FirstLine) -> Request<Body> {
    keep_end_to_end(&mut head.headers);
    let peer = head.extensions.get().copied().unwrap_or(Peer::UNKNOWN);
    Statement { peer, first }.add_to(&mut head.headers);
    head.extensions.clear();
    if head.version >= Version::HTTP_2 {
        // RFC 9113, section 8.3.1: what HTTP/2 names in the target, HTTP/1.1 has in a field too.
        let host = head.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        if let Some(host) = host.filter(|_| !head.headers.contains_key(header::HOST)) {
            head.headers.insert(header::HOST, host);
        }
        head.version = Version::HTTP_11;
    }
    Request::from_parts(head, body)
}

/// A copy of the head for a body of another length.
pub(super) fn copy(head: &Parts) -> Parts {
    let (mut copy, ()) = Request::new(()).into_parts();
    (copy.method, copy.uri) = (head.method.clone(), head.uri.clone());
    (copy.version, copy.headers) = (head.version, head.headers.clone());
    copy.headers.remove(header::CONTENT_LENGTH);
    if let Some(peer) = head.extensions.get::<Peer>() {
        copy.extensions.insert(*peer);
    }
    copy
}

/// The problem that is told in `body`.
fn problem(status: StatusCode, body: &[u8]) -> ApiProblem {
    let Ok(Problem { reference, detail }) = serde_json::from_slice(body) else {
        return ApiProblem::new(status, "The server does not say why.");
    };
    match ProblemKind::of_reference(&reference).filter(|kind| kind.status() == status.as_u16()) {
        Some(kind) => ApiProblem::of(kind, detail),
        None => ApiProblem::new(status, detail),
    }
}
