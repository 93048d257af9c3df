//! A `POST` of unknown length, which is many appends: a backend pipes what a language model says
//! into one open request, and readers see each piece when it is on disk.
//!
//! One append is under way at a time. What comes meanwhile is gathered for the [next](appends) one,
//! up to a bound. Past that no more of the body is read, and TCP holds the client up. What has come
//! of a client that breaks off is appended as a rule, and was acknowledged to nobody.
//!
//! An upgrade may hand everything over in mid-body. What is not appended then, and the rest of the
//! body, go to the successor as a request of its own.
//!
//! Cost: some allocations for an append, beside what that takes. A request that waits for its
//! client holds no buffer.

mod appends;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt as _;
use httpd::body::Pieces;
use httpd::problem::ApiProblem;
use hyper::body::Body as _;
use streams::{Appended, Refusal, is_json};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use self::appends::{AppendOutcome, Appends};
use super::answers::{NEXT_OFFSET, appended_answer, nothing_to_append, value};
use super::asked::WriteFields;
use super::kept::Undone;
use super::{Call, MayAppend};

/// How long to wait before an append is tried again: where its client appends too often, and where
/// the last one is not sent as an event yet.
const PACE: Duration = Duration::from_millis(100);
const PENDING_PAUSE: Duration = Duration::from_secs(1);

/// How long an append is tried again at most.
const HOLD_MAX: Duration = Duration::from_secs(30);

/// Whether a request with this body is many appends. What its writer may repeat is one record, and
/// so is JSON: these are read whole.
pub(super) fn is_long(call: &Call, asked: &WriteFields, body: &Body) -> bool {
    asked.content_type.as_deref().is_some_and(|of| !is_json(of))
        && asked.producer.is_none()
        && asked.sequence.is_none()
        && body.size_hint().exact().is_none()
        && call.body_bytes_max > 0
}

/// Appends what comes.
pub(super) async fn append(
    call: Call,
    asked: WriteFields,
    body: Body,
) -> Result<Response, ApiProblem> {
    let (is_public, version) = (call.is_public, call.head.version);
    let mut request = LongRequest {
        closes: asked.closes,
        pieces: Pieces::of_stream(body, &call.idle_limit),
        end: None,
        appends: Appends::new(&call, asked.content_type.as_deref().unwrap_or_default()),
        paused_until: None,
        held_since: None,
        call: &call,
    };
    let ending = request.work().await;
    let (is_read, last) = (request.is_read(), request.appends.last);
    let is_unsure = matches!(ending, Ending::Undone(Undone::Refused(Refusal::Unsure(_))));
    let rest = request.into_rest();
    let (answer, is_unsure) = match ending {
        Ending::Done(appended) => return Ok(appended_answer(&appended, false)),
        Ending::Problem(problem) => {
            let broke_off = last.is_some() && problem.status() == StatusCode::BAD_REQUEST;
            (Err(if broke_off { broken_off() } else { problem }), false)
        }
        Ending::Undone(Undone::NoPermit(no_permit)) if !is_public => {
            let answer = no_permit.answer(call.head, rest).await;
            // A successor that went away may have appended something of the rest.
            let is_unsure = answer.is_err();
            (answer, is_unsure)
        }
        Ending::Undone(undone) => (call.undone(undone, Bytes::new()).await, is_unsure),
    };
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    let fields = response.headers_mut();
    if let Some(Appended { next, .. }) = last {
        // Clients would send all of it again of themselves.
        fields.remove(header::RETRY_AFTER);
        if !is_unsure {
            fields.entry(NEXT_OFFSET).or_insert_with(|| value(next));
        }
    }
    // HTTP/2 ends this request alone.
    if !is_read && version < Version::HTTP_2 {
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// A request in progress.
struct LongRequest<'c> {
    call: &'c Call,
    /// Whether the stream is closed behind the last piece.
    closes: bool,
    pieces: Pieces,
    /// How the body has ended, once it has.
    end: Option<Result<(), ApiProblem>>,
    appends: Appends,
    /// When the next append is tried again, and since when it could not be done.
    paused_until: Option<Instant>,
    held_since: Option<Instant>,
}

/// How a request ends.
enum Ending {
    Done(Appended),
    Problem(ApiProblem),
    /// This append was not done.
    Undone(Undone),
}

impl LongRequest<'_> {
    /// Appends all that comes.
    async fn work(&mut self) -> Ending {
        let stop = &self.call.streams.stop;
        loop {
            if !self.appends.is_under_way()
                && self.paused_until.is_none()
                && let Some(ending) = self.begin_next()
            {
                return ending;
            }
            let appends = self.appends.is_under_way();
            let until = self.paused_until;
            let reads = self.end.is_none() && self.appends.has_room();
            if !reads {
                self.pieces.pause();
            }
            tokio::select! {
                biased;
                outcome = self.appends.done(), if appends => {
                    if let Err(ending) = self.take_in(outcome) {
                        return ending;
                    }
                }
                () = stop.cancelled(), if self.end.is_none() => {
                    (self.end, self.paused_until) = (Some(Err(stopping())), None);
                }
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                    self.paused_until = None;
                }
                piece = self.pieces.next(), if reads => {
                    self.push(piece);
                    self.gather_ready().await;
                }
            }
        }
    }

    /// Gathers what is here already, where no append is under way. The library hands on one chunk
    /// at a time, when it has its turn. So what came in one packet is one append as a rule.
    async fn gather_ready(&mut self) {
        while !self.appends.is_under_way() && self.end.is_none() && self.appends.has_room() {
            yield_now().await;
            let Some(piece) = self.pieces.next().now_or_never() else { return };
            self.push(piece);
        }
    }

    fn push(&mut self, piece: Result<Option<Bytes>, ApiProblem>) {
        let pushed = match piece {
            Ok(Some(piece)) => self.appends.push(piece, self.call),
            Ok(None) => return self.end = Some(Ok(())),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = pushed {
            self.end = Some(Err(problem));
        }
    }

    /// Begins the next append, if there is something to append; or says how the request ends.
    fn begin_next(&mut self) -> Option<Ending> {
        if self.appends.is_empty() {
            match (&self.end, self.appends.last) {
                (None, _) => return None,
                (Some(Err(problem)), _) => return Some(Ending::Problem(problem.clone())),
                (Some(Ok(())), Some(last)) if last.closed || !self.closes => {
                    return Some(Ending::Done(last));
                }
                (Some(Ok(())), None) if !self.closes => {
                    return Some(Ending::Problem(nothing_to_append()));
                }
                // Only the close is left.
                (Some(Ok(())), _) => {}
            }
        }
        match self.appends.may_append() {
            MayAppend::Now => {}
            MayAppend::Later(_) if self.hold(PACE) => return None,
            MayAppend::Later(problem) | MayAppend::Never(problem) => {
                return Some(Ending::Problem(self.fault().unwrap_or(problem)));
            }
        }
        self.appends.begin(self.closes && self.is_read());
        None
    }

    /// What became of an append.
    fn take_in(&mut self, outcome: AppendOutcome) -> Result<(), Ending> {
        match outcome {
            Ok(_) => {
                self.held_since = None;
                Ok(())
            }
            Err(Undone::Refused(Refusal::OldOffset)) => Err(Ending::Problem(replaced())),
            Err(Undone::Refused(Refusal::Pending))
                if self.appends.last.is_some() && self.hold(PENDING_PAUSE) =>
            {
                Ok(())
            }
            // What has no end must not be taken for whole elsewhere.
            Err(undone @ Undone::NoPermit(_)) => {
                Err(self.fault().map_or(Ending::Undone(undone), Ending::Problem))
            }
            Err(undone) => Err(Ending::Undone(undone)),
        }
    }

    /// Whether an append is tried again, in a while.
    fn hold(&mut self, pause: Duration) -> bool {
        let now = Instant::now();
        if self.fault().is_some() || now >= *self.held_since.get_or_insert(now) + HOLD_MAX {
            return false;
        }
        self.paused_until = Some(now + pause);
        true
    }

    /// Whether the body was read to its end.
    fn is_read(&self) -> bool {
        matches!(self.end, Some(Ok(())))
    }

    /// Why no more is read, if it has no end.
    fn fault(&self) -> Option<ApiProblem> {
        self.end.as_ref()?.as_ref().err().cloned()
    }

    /// What was not appended, as a body.
    fn into_rest(self) -> Body {
        let rest = if self.is_read() { Body::empty() } else { self.pieces.into_body() };
        self.appends.end(rest)
    }
}

fn stopping() -> ApiProblem {
    ApiProblem::unavailable(
        "The server is stopping. Stream-Next-Offset says up to where the body was appended, if it \
         was. Send the rest when the server is back.",
    )
}

/// 400: what was appended is not to be sent again.
fn broken_off() -> ApiProblem {
    ApiProblem::bad_request(
        "The body broke off. Stream-Next-Offset says up to where it was appended. Send the rest.",
    )
}

fn replaced() -> ApiProblem {
    let detail = "The stream was deleted while this was appended to it, and another one is at its \
                  path. Stream-Next-Offset is of the stream that was deleted.";
    ApiProblem::new(StatusCode::NOT_FOUND, detail)
}
