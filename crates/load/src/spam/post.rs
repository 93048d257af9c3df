//! Sends by one `POST /send` an event, on a connection that is kept alive until the server closes
//! it, and then on another one: the way of most programs. The next event waits for the answer to
//! the one before. Being late shows in the latency, which counts from the intended time.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use client::{BodyLength, ChunkedDecoder, response_head};
use sys::clock;

use crate::spam::message::Messages;
use crate::spam::schedule::Share;
use crate::spam::wire::Wire;
use crate::spam::{Head, SpamLink, no_answer, wait_until};

/// An answer to one event is far shorter.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Connects to the API.
pub(super) type Connect = Arc<dyn Fn() -> io::Result<Wire> + Send + Sync>;

/// One connection after the other.
pub(super) struct RequestSender {
    pub(super) wire: Wire,
    /// Makes another one.
    pub(super) connect: Connect,
    pub(super) share: Share,
    pub(super) messages: Messages,
    pub(super) start_ns: u64,
    /// Events that are sent so long after their time are late.
    pub(super) late_after_ns: u64,
}

impl RequestSender {
    /// Sends the whole share, each event at its time or as soon after it as the answer to the one
    /// before is there.
    pub(super) fn run(mut self, head: &Head, link: &SpamLink) -> io::Result<()> {
        let Head { host, path, authorization } = head;
        let (mut message, mut request, mut answer) = (Vec::new(), Vec::new(), Vec::new());
        let (mut closed, mut is_used) = (false, false);
        while let Some(planned) = self.share.next() {
            let due_ns = self.start_ns.saturating_add(planned.at_ns);
            wait_until(due_ns, link);
            if link.stopped() {
                link.stopped_early();
                break;
            }
            // The API may have closed it while it rested.
            if closed || is_used && self.wire.is_ended() {
                self.wire = (self.connect)()?;
            }
            is_used = true;
            message.clear();
            self.messages.push(planned, self.share.place(planned.subject), &mut message);
            request.clear();
            write!(
                request,
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
                 {authorization}Content-Length: {}\r\n\r\n",
                message.len()
            )?;
            request.extend_from_slice(&message);
            let now_ns = clock::monotonic_ns();
            let behind_ns = now_ns.saturating_sub(due_ns);
            self.wire.write_all(&request)?;
            link.writer.with(|published| {
                published.totals.sent += 1;
                published.totals.sent_until_ns = now_ns;
                published.totals.late += u64::from(behind_ns > self.late_after_ns);
                published.totals.bytes += request.len() as u64;
                published.behind.record(behind_ns);
            });
            let Answer { status, body, closes } = read_answer(&mut self.wire, &mut answer)?;
            let latency_ns = clock::monotonic_ns().saturating_sub(due_ns);
            link.writer.with(|published| {
                match status {
                    200 => published.totals.answer(&body),
                    _ => published.totals.refusal(status, &body),
                }
                published.totals.cpu_ns = clock::thread_cpu().as_nanos() as u64;
                published.latencies.record(latency_ns);
            });
            closed = closes;
        }
        Ok(())
    }
}

/// What the API says to an event.
struct Answer {
    status: u16,
    body: Vec<u8>,
    /// It is the last one on its connection.
    closes: bool,
}

/// Reads one whole answer; `buffer` holds what came so far.
fn read_answer(wire: &mut Wire, buffer: &mut Vec<u8>) -> io::Result<Answer> {
    let invalid = |words: String| io::Error::new(ErrorKind::InvalidData, words);
    buffer.clear();
    loop {
        let head = response_head(buffer).map_err(|error| invalid(error.to_string()))?;
        let Some(head) = head else {
            read_more(wire, buffer)?;
            continue;
        };
        let (status, length, head_len) = (head.status, head.body, head.head_len);
        let closes = head.closes;
        if (100..200).contains(&status) {
            buffer.drain(..head_len);
            continue;
        }
        return loop {
            match whole_body(length, &buffer[head_len..]) {
                Ok(Some(body)) => break Ok(Answer { status, body, closes }),
                Ok(None) => read_more(wire, buffer)?,
                Err(words) => break Err(invalid(words)),
            }
        };
    }
}

/// The body, when `bytes` hold all of it.
pub(super) fn whole_body(length: BodyLength, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    match length {
        BodyLength::Known(len) if bytes.len() as u64 >= len => Ok(Some(bytes.to_vec())),
        BodyLength::Known(_) => Ok(None),
        BodyLength::Chunked => {
            let (mut chunks, mut input, mut body) = (ChunkedDecoder::default(), bytes, Vec::new());
            while let Some(piece) = chunks.next(&mut input).map_err(|error| error.to_string())? {
                body.extend_from_slice(piece);
            }
            Ok(chunks.is_end().then_some(body))
        }
        BodyLength::UntilClose => Err("the API does not keep the connection".to_owned()),
    }
}

fn read_more(wire: &mut Wire, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 4096];
    loop {
        match wire.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if buffer.len() > ANSWER_BYTES_MAX => {
                return Err(io::Error::new(ErrorKind::InvalidData, "the API's answer is too long"));
            }
            Ok(len) => {
                buffer.extend_from_slice(&piece[..len]);
                return Ok(());
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(no_answer()),
                _ => return Err(error),
            },
        }
    }
}
