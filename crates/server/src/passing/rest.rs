//! The rest of a stream of sends whose server has handed everything over in the middle of it: its
//! lines go on to the heir, and the heir's answers come back, one for each line.
//!
//! The heir is asked once, with all lines that are left as the body, and is told the number of the
//! first; so what it answers is, to the byte, what it would answer to a stream of its own. Nothing
//! here waits for the heir to take a line: as many are on their way as the
//! [window](crate::api) of the stream has places.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::fields::FirstLine;
use super::heir::{Heir, copy};
use super::lost::Lost;
use crate::http::problem::ApiProblem;

/// Lines that are written together.
const LINES_MAX: usize = 512;

type Asking = dyn Future<Output = Result<Result<Incoming, ApiProblem>, Lost>> + Send;

/// The rest of a stream.
pub(crate) struct Rest {
    /// Where lines go, until the last one.
    lines: Option<mpsc::Sender<Bytes>>,
    /// The number of the line that the heir counts next.
    next: u64,
    answers: Answers,
    /// What has come of them and was not told.
    come: BytesMut,
}

enum Answers {
    Asked(Pin<Box<Asking>>),
    Coming(Incoming),
    /// There are no more, and perhaps a reason.
    Over(Option<ApiProblem>),
}

/// What the heir says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// The answer to the first line that has none, with its line end.
    Answer(Bytes),
    /// It takes neither that line nor those after it, and has said why.
    Nothing,
    /// The same, and this is why.
    Problem(ApiProblem),
}

impl Rest {
    /// Asks `heir` to take the stream whose request had `head` from line `first` on, of which
    /// `most` may wait for their answers.
    pub(crate) fn begin(heir: Arc<Heir>, head: &Parts, first: u64, most: usize) -> Rest {
        let (lines, waiting) = mpsc::channel(most);
        let body = stream::unfold(waiting, |mut waiting| async {
            let mut lines = Vec::new();
            if waiting.recv_many(&mut lines, LINES_MAX).await == 0 {
                return None;
            }
            Some((Ok::<_, Infallible>(Bytes::from(lines.concat())), waiting))
        });
        let (head, body) = (copy(head), Body::from_stream(body));
        let asking = async move { heir.ask_stream(head, body, FirstLine(first)).await };
        let answers = Answers::Asked(Box::pin(asking));
        Rest { lines: Some(lines), next: first, answers, come: BytesMut::new() }
    }

    /// Hands over the line with that number. Those between it and the one before are blank, or
    /// were answered without the heir.
    pub(crate) fn push(&mut self, number: u64, text: &[u8]) {
        let Some(lines) = &self.lines else { return };
        let blank = number.saturating_sub(self.next) as usize;
        let mut line = BytesMut::with_capacity(blank + text.len() + 1);
        line.put_bytes(b'\n', blank);
        line.put_slice(text);
        line.put_u8(b'\n');
        self.next = number + 1;
        // Where the heir is gone, that is told instead of an answer.
        let _ = lines.try_send(line.freeze());
    }

    /// There are no more lines.
    pub(crate) fn end(&mut self) {
        self.lines = None;
    }

    /// Waits until [`Rest::told`] tells something. It may be dropped before that, and asked again.
    pub(crate) async fn ready(&mut self) {
        while self.line_end().is_none() {
            let next = match &mut self.answers {
                Answers::Over(_) => return,
                Answers::Asked(asking) => match asking.await {
                    Ok(Ok(body)) => Answers::Coming(body),
                    Ok(Err(problem)) => Answers::Over(Some(problem)),
                    Err(lost) => Answers::Over(Some(lost.problem_of_lines())),
                },
                Answers::Coming(body) => match body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(piece) = frame.into_data() {
                            self.come.extend_from_slice(&piece);
                        }
                        continue;
                    }
                    None => Answers::Over(None),
                    Some(Err(_)) => Answers::Over(Some(Lost::Silent.problem_of_lines())),
                },
            };
            self.answers = next;
        }
    }

    /// What there is to say to the first line that has no answer, if that is known.
    pub(crate) fn told(&mut self) -> Option<Told> {
        if let Some(end) = self.line_end() {
            return Some(Told::Answer(self.come.split_to(end + 1).freeze()));
        }
        match &mut self.answers {
            Answers::Over(problem) => Some(problem.take().map_or(Told::Nothing, Told::Problem)),
            Answers::Asked(_) | Answers::Coming(_) => None,
        }
    }

    fn line_end(&self) -> Option<usize> {
        memchr::memchr(b'\n', &self.come)
    }
}
