//! `POST /send` with a stream of events: one JSON object a line in, one answer a line out.
//!
//! Events are posted in the order of their lines, one after the other, and their answers come in
//! the same order, while the body is still being read. Between the two stands a bounded window:
//! when it is full, because the workers are busy or the client does not read its answers, no more
//! of the body is read. So memory does not grow with the body. A line that cannot be sent answers
//! its problem, and the rest go on. A repeat of a key whose event is posted waits in the window, as
//! an event does for its count; one whose event is not posted yet waits before the window, as
//! events do for a full mailbox.
//!
//! When an upgrade hands everything over in the middle of a stream, the lines from the next one on
//! go to the program that goes on with it, and wait in the same window for the answers that it
//! gives: see [`Rest`].
//!
//! There is no task and no channel here: the connection polls the answer's body, and that reads the
//! request's. Cost per event: parsing, posting and 48 bytes of answer, 2 to 4 µs.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::request::Parts;
use bytes::Bytes;
use dispatch::barrier::{NoPermit, WritePermit};
use dispatch::idempotency::{IdempotencyKey, KeyHolder};
use dispatch::outcome::Delivered;
use dispatch::successor::{FirstLine, Rest, SuccessorAnswer, upgrade_hangs};
use dispatch::traces::SendTrace;
use futures_util::stream;
use httpd::body::Pieces;
use httpd::lines::{Line, Lines};
use httpd::object::Object;
use httpd::problem::ApiProblem;
use tokio_util::sync::CancellationToken;

use super::event::{Posted, push_answer};
use super::event_body::EventBody;
use super::event_once::{Known, Once};
use crate::api::access::Permission;
use crate::api::state::Api;

/// Events that wait for their count. Answers go out in order, so the slowest worker holds up all,
/// and a turn of one among 53 on two cores that are busy with a million clients' storm can take a
/// second. At 5,000 events a second a window of 1,024 was full then, and the delay grew as long as
/// the storm went on. 64 bytes each and the event.
const WINDOW_EVENTS_MAX: usize = 8 * 1024;

/// Bytes of the events that wait for their count, past which no further line is taken.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// Answers are handed to the connection when there are this many bytes, or nothing else to do.
const ANSWER_BYTES: usize = 32 * 1024;

/// Why no further line is taken by a server on its way out.
const STOPPING: &str = "The server is stopping, and takes neither this line nor those after it. \
                        Nothing was sent of them: send them again when it is back.";

/// A stream of events and of its answers.
pub(crate) struct SendStream {
    api: Arc<Api>,
    /// The head of its request, which whoever takes the rest of it is shown too.
    head: Parts,
    permission: Permission,
    body: Pieces,
    /// Whether more of the body may come.
    reading: bool,
    lines: Lines,
    window: VecDeque<Pending>,
    window_bytes: usize,
    answers: Vec<u8>,
    trace: Option<SendTrace>,
    /// Who takes the lines, if not we.
    rest: Option<Rest>,
    stop: CancellationToken,
}

/// The answer to one line, whose number it may need.
enum Pending {
    /// It is known when the workers have delivered.
    Event(Posted, u64),
    /// It is known when the first event with its key is delivered.
    Once(Once, u64),
    /// It is known when the one who takes the rest says it; of a line of that many bytes.
    There(u64, usize),
    /// It is a problem.
    ApiProblem(ApiProblem),
}

impl SendStream {
    pub(crate) fn new(
        api: Arc<Api>,
        head: Parts,
        permission: Permission,
        body: Body,
        trace: Option<SendTrace>,
    ) -> SendStream {
        let stop = api.stop.clone();
        let FirstLine(first) = FirstLine::of(&head.extensions);
        let body = Pieces::of_stream(body, &api.idle_limit);
        SendStream {
            api,
            head,
            permission,
            body,
            reading: true,
            lines: Lines::from(first),
            window: VecDeque::new(),
            window_bytes: 0,
            answers: Vec::new(),
            trace,
            rest: None,
            stop,
        }
    }

    /// The body of the answer.
    pub(crate) fn into_body(self) -> Body {
        let stream = stream::unfold(self, |mut stream| async {
            let answers = stream.next_answers().await?;
            Some((Ok::<_, Infallible>(answers), stream))
        });
        Body::from_stream(stream)
    }

    /// The next piece of the answer; `None` when the request's body has ended and all is answered.
    async fn next_answers(&mut self) -> Option<Bytes> {
        loop {
            self.collect();
            if self.answers.len() >= ANSWER_BYTES {
                return Some(self.take_answers());
            }
            let room = self.has_room();
            if room && let Some(line) = self.lines.next_line() {
                self.take(line).await;
                continue;
            }
            if room && let Some(rest) = &mut self.rest {
                rest.skip_to(self.lines.next_number());
            }
            // The connection sends what there is before this waits for anything.
            if !self.answers.is_empty() {
                return Some(self.take_answers());
            }
            if !self.reading && self.window.is_empty() {
                if let Some(trace) = self.trace.take() {
                    trace.end_stream();
                }
                return None;
            }
            self.wait(room && self.reading).await;
        }
    }

    /// Waits until there is something to do: the first answer, or more of the body.
    async fn wait(&mut self, read: bool) {
        let SendStream { body, window, rest, stop, .. } = self;
        let first = async {
            match (window.front_mut(), rest) {
                (Some(Pending::Event(posted, _)), _) => posted.delivery.known().await,
                (Some(Pending::Once(once, _)), _) => once.ready_or_closed().await,
                (Some(Pending::There(..)), Some(rest)) => rest.ready().await,
                _ => std::future::pending().await,
            }
        };
        if !read {
            body.pause();
        }
        tokio::select! {
            biased;
            () = first => {}
            () = stop.cancelled(), if read => self.stop_reading(ApiProblem::unavailable(STOPPING)),
            piece = body.next(), if read => match piece {
                // A key may be revoked while its stream goes on.
                Ok(Some(piece)) => match self.api.access.check(&self.permission) {
                    Ok(()) => self.lines.push(piece),
                    Err(problem) => self.stop_reading(problem),
                },
                Ok(None) => self.end().await,
                Err(problem) => self.stop_reading(problem),
            },
        }
    }

    /// The body is complete; its last line may lack a line end.
    async fn end(&mut self) {
        self.reading = false;
        if let Some(line) = self.lines.finish() {
            self.take(line).await;
        }
        self.rest.iter_mut().for_each(Rest::end);
    }

    /// No further line is taken, and the answer says from where on and why.
    fn stop_reading(&mut self, problem: ApiProblem) {
        self.reading = false;
        let problem = problem.on_line(self.lines.next_number());
        self.window.push_back(Pending::ApiProblem(problem));
        self.rest.iter_mut().for_each(Rest::end);
    }

    async fn take(&mut self, line: Line) {
        let taken = match &mut self.rest {
            Some(rest) => hand_over(rest, &line),
            None => match self.api.sender.barrier.enter().await {
                Ok(permit) => post(&self.api, &permit, &self.permission, &line).await,
                Err(NoPermit::TooLong) => Err(upgrade_hangs().on_line(line.number)),
                Err(NoPermit::Moved(successor)) => {
                    let rest = Rest::begin(successor, &self.head, line.number, WINDOW_EVENTS_MAX);
                    hand_over(self.rest.insert(rest), &line)
                }
            },
        };
        let pending = taken.unwrap_or_else(Pending::ApiProblem);
        self.window_bytes += pending.bytes();
        self.window.push_back(pending);
    }

    /// Writes the answers that are known, in the order of the lines.
    fn collect(&mut self) {
        while let Some(first) = self.window.front_mut() {
            let bytes = first.bytes();
            match first {
                Pending::ApiProblem(problem) => {
                    self.answers.extend_from_slice(problem.to_json().as_bytes());
                    count(&mut self.trace, None);
                }
                Pending::Event(Posted { delivery, accepted }, line) => match delivery.ready() {
                    None => return,
                    Some(Ok(delivered)) => {
                        self.api.durations.record(*accepted, Instant::now());
                        push_answer(&mut self.answers, &delivered);
                        self.answers.push(b'\n');
                        count(&mut self.trace, Some(&delivered));
                    }
                    Some(Err(unposted)) => {
                        let problem = ApiProblem::from(unposted).on_line(*line).to_json();
                        self.answers.extend_from_slice(problem.as_bytes());
                        count(&mut self.trace, None);
                    }
                },
                Pending::There(line, _) => {
                    let line = *line;
                    match self.rest.as_mut().and_then(Rest::told) {
                        None => return,
                        Some(SuccessorAnswer::Answer(answer)) => {
                            self.answers.extend_from_slice(&answer)
                        }
                        Some(SuccessorAnswer::Nothing) => return self.give_up(None),
                        Some(SuccessorAnswer::Problem(problem)) => {
                            return self.give_up(Some(problem.on_line(line)));
                        }
                    }
                }
                Pending::Once(once, line) => match once.ready() {
                    None => return,
                    Some(Ok(answer)) => {
                        push_answer(&mut self.answers, &answer);
                        self.answers.push(b'\n');
                        count(&mut self.trace, Some(&answer));
                    }
                    Some(Err(problem)) => {
                        let problem = problem.on_line(*line).to_json();
                        self.answers.extend_from_slice(problem.as_bytes());
                        count(&mut self.trace, None);
                    }
                },
            }
            self.window_bytes -= bytes;
            self.window.pop_front();
        }
    }

    /// Whoever has taken the rest takes no more of it, and has said why, if this is not the reason.
    fn give_up(&mut self, problem: Option<ApiProblem>) {
        self.reading = false;
        if let Some(problem) = problem {
            self.answers.extend_from_slice(problem.to_json().as_bytes());
            count(&mut self.trace, None);
        }
        (self.window_bytes, self.rest) = (0, None);
        self.window.clear();
        self.lines = Lines::default();
    }

    fn has_room(&self) -> bool {
        self.window.len() < WINDOW_EVENTS_MAX && self.window_bytes < WINDOW_BYTES_MAX
    }

    fn take_answers(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.answers))
    }
}

/// Counts an answer for the trace of its stream, if that has one.
fn count(trace: &mut Option<SendTrace>, delivered: Option<&Delivered>) {
    if let Some(trace) = trace {
        trace.count(delivered);
    }
}

impl Pending {
    /// What it counts for in the window: an event lies in memory until it is delivered.
    fn bytes(&self) -> usize {
        match self {
            Pending::Event(posted, _) => posted.delivery.bytes(),
            Pending::Once(once, _) => once.bytes(),
            Pending::There(_, bytes) => *bytes,
            Pending::ApiProblem(_) => 0,
        }
    }
}

fn hand_over(rest: &mut Rest, line: &Line) -> Result<Pending, ApiProblem> {
    let text = line.text()?;
    rest.push(line.number, text);
    Ok(Pending::There(line.number, text.len()))
}

async fn post(
    api: &Arc<Api>,
    permit: &WritePermit<'_>,
    permission: &Permission,
    line: &Line,
) -> Result<Pending, ApiProblem> {
    let text = line.text()?;
    let Object(mut body): Object<EventBody<'_>> =
        serde_json::from_slice(text).map_err(|error| ApiProblem::bad_line(&error, line.number))?;
    let may = api.access.check_about(permission, body.about.iter());
    may.map_err(|problem| problem.on_line(line.number))?;
    let posted = match body.key.take() {
        None => {
            post_plainly(api, permit, &body).await.map(|posted| Pending::Event(posted, line.number))
        }
        Some(key) => post_once(api, permit, permission, &body, key)
            .await
            .map(|once| Pending::Once(once, line.number)),
    };
    posted.map_err(|problem| problem.on_line(line.number))
}

async fn post_plainly(
    api: &Arc<Api>,
    permit: &WritePermit<'_>,
    body: &EventBody<'_>,
) -> Result<Posted, ApiProblem> {
    api.post(permit, body.outgoing()?, None, None).await
}

async fn post_once(
    api: &Arc<Api>,
    permit: &WritePermit<'_>,
    permission: &Permission,
    body: &EventBody<'_>,
    key: Box<str>,
) -> Result<Once, ApiProblem> {
    let key = IdempotencyKey::new(String::from(key))?;
    let known = Known::of(KeyHolder::Application(permission.key_id()), &key, body);
    api.post_once(permit, known, body.outgoing()?, None).await
}
