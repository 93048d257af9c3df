//! The rest of a stream of sends whose server has handed everything over in the middle of it: its
//! lines go on to the successor, and the successor's answers come back, one for each line.
//!
//! The successor is asked once, with all lines that are left as the body, and is told the number of
//! the first; so what it answers is, to the byte, what it would answer to a stream of its own.
//! Nothing here waits for the successor to take a line: as many are on their way as the window of
//! the stream has places. Blank lines are counted, and made again when the successor takes them, so
//! that neither they nor what they are made of take room here.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt;
use httpd::problem::ApiProblem;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::fields::FirstLine;
use super::lost::Lost;
use super::requests::{Successor, copy};

/// Past so many bytes no further line is written together with those before it, and no more blank
/// ones are made.
const PIECE_BYTES: usize = 64 * 1024;

type Asking = dyn Future<Output = Result<Result<Incoming, ApiProblem>, Lost>> + Send;

/// The rest of a stream.
pub struct Rest {
    /// Where lines go, until the last one. There is a place more than for the lines of a window.
    lines: Option<mpsc::Sender<Passed>>,
    /// The number of the line that the successor counts next.
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

/// So many blank lines, and then a line with its end, or none.
#[derive(Debug)]
struct Passed {
    blank: u64,
    line: Bytes,
}

/// The lines that are passed on, as the body of a request.
struct Passing {
    waiting: mpsc::Receiver<Passed>,
    /// What of the next is not made yet.
    begun: Option<Passed>,
}

/// What the successor says.
#[derive(PartialEq, Eq, Debug)]
pub enum SuccessorAnswer {
    /// The answer to the first line that has none, with its line end.
    Answer(Bytes),
    /// It takes neither that line nor those after it, and has said why.
    Nothing,
    /// It takes neither that line nor those after it, and this is why.
    Problem(ApiProblem),
}

impl Rest {
    /// Asks `successor` to take the stream whose request had `head` from line `first` on, of which
    /// `most` may wait for their answers.
    pub fn begin(successor: Arc<Successor>, head: &Parts, first: u64, most: usize) -> Rest {
        let (lines, waiting) = mpsc::channel(most + 1);
        let passing = Passing { waiting, begun: None };
        let body = stream::unfold(passing, |mut passing| async {
            let piece = passing.next().await?;
            Some((Ok::<_, Infallible>(piece), passing))
        });
        let (head, body) = (copy(head), Body::from_stream(body));
        let asking = async move { successor.ask_stream(head, body, FirstLine(first)).await };
        let answers = Answers::Asked(Box::pin(asking));
        Rest { lines: Some(lines), next: first, answers, come: BytesMut::new() }
    }

    /// Hands over the line with that number. Those between it and the one before are blank, or
    /// were answered without the successor.
    pub fn push(&mut self, number: u64, text: &[u8]) {
        let mut line = BytesMut::with_capacity(text.len() + 1);
        line.put_slice(text);
        line.put_u8(b'\n');
        self.pass(Passed { blank: number.saturating_sub(self.next), line: line.freeze() });
        self.next = number + 1;
    }

    /// The lines before the one with that number are blank. The successor hears of it if it waits
    /// for something, so that it knows that the client goes on.
    pub fn skip_to(&mut self, number: u64) {
        let waits =
            self.lines.as_ref().is_some_and(|lines| lines.capacity() == lines.max_capacity());
        if waits && number > self.next {
            self.pass(Passed { blank: number - self.next, line: Bytes::new() });
            self.next = number;
        }
    }

    fn pass(&self, passed: Passed) {
        if let Some(lines) = &self.lines {
            // Where the successor is gone, that is told instead of an answer.
            let _ = lines.try_send(passed);
        }
    }

    /// There are no more lines.
    pub fn end(&mut self) {
        self.lines = None;
    }

    /// Waits until [`Rest::told`] tells something. It may be dropped before that, and asked again.
    pub async fn ready(&mut self) {
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
    pub fn told(&mut self) -> Option<SuccessorAnswer> {
        if let Some(end) = self.line_end() {
            return Some(SuccessorAnswer::Answer(self.come.split_to(end + 1).freeze()));
        }
        match &mut self.answers {
            Answers::Over(problem) => {
                Some(problem.take().map_or(SuccessorAnswer::Nothing, SuccessorAnswer::Problem))
            }
            Answers::Asked(_) | Answers::Coming(_) => None,
        }
    }

    fn line_end(&self) -> Option<usize> {
        memchr::memchr(b'\n', &self.come)
    }
}

impl Passing {
    /// The next piece of the body; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut passed = match self.begun.take() {
            Some(passed) => passed,
            None => self.waiting.recv().await?,
        };
        let mut piece = BytesMut::new();
        loop {
            let blank = passed.blank.min((PIECE_BYTES - piece.len()) as u64);
            piece.put_bytes(b'\n', blank as usize);
            passed.blank -= blank;
            if passed.blank > 0 {
                self.begun = Some(passed);
                break;
            }
            piece.put_slice(&passed.line);
            if piece.len() >= PIECE_BYTES {
                break;
            }
            let Ok(next) = self.waiting.try_recv() else { break };
            passed = next;
        }
        Some(piece.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing() -> (mpsc::Sender<Passed>, Passing) {
        let (lines, waiting) = mpsc::channel(8);
        (lines, Passing { waiting, begun: None })
    }

    #[tokio::test]
    async fn blank_lines_take_no_room_however_many_there_are() {
        let (lines, mut passing) = passing();
        lines.try_send(Passed { blank: 1 << 40, line: Bytes::from_static(b"x\n") }).unwrap();
        for _ in 0..100 {
            let piece = passing.next().await.unwrap();
            assert!(piece.len() <= PIECE_BYTES && piece.iter().all(|&byte| byte == b'\n'));
        }
    }

    #[tokio::test]
    async fn each_line_has_the_blank_ones_before_it() {
        let (lines, mut passing) = passing();
        let many = 3 * PIECE_BYTES as u64 + 1;
        for (blank, line) in [(0, "a\n"), (many, "b\n"), (2, ""), (1, "c\n")] {
            lines.try_send(Passed { blank, line: Bytes::from(line) }).unwrap();
        }
        drop(lines);
        let mut body = Vec::new();
        while let Some(piece) = passing.next().await {
            body.extend_from_slice(&piece);
        }
        let expected = format!("a\n{}b\n\n\n\nc\n", "\n".repeat(many as usize));
        assert!(body == expected.as_bytes(), "{} bytes", body.len());
    }

    #[tokio::test]
    async fn blank_lines_are_told_as_they_come_where_the_successor_waits() {
        let (lines, mut passing) = passing();
        let answers = Answers::Over(None);
        let mut rest = Rest { lines: Some(lines), next: 1, answers, come: BytesMut::new() };
        // The successor has not looked: what comes behind the first is told later, in one.
        (2..100).for_each(|number| rest.skip_to(number));
        assert_eq!(passing.next().await.unwrap(), "\n");
        rest.skip_to(4);
        rest.push(5, b"x");
        rest.end();
        let mut told = Vec::new();
        while let Some(piece) = passing.next().await {
            told.extend_from_slice(&piece);
        }
        assert_eq!(told, b"\n\n\nx\n");
    }
}
