//! Sends by one long `POST /send` a connection: events go out as lines of a chunked body, answers
//! come back line by line at the same time. One thread writes, one reads.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError};
use std::time::Duration;

use client::{Progress, StreamDecoder, response_head};
use proto::Transport;
use sys::clock;

use crate::spam::message::Messages;
use crate::spam::post::whole_body;
use crate::spam::schedule::Share;
use crate::spam::tally::SpamPublished;
use crate::spam::wire::Wire;
use crate::spam::{ANSWER_TIMEOUT, Head, SpamLink, no_answer, wait_until};

/// A chunk is written once it has so many bytes, even if more events are due.
const BATCH_BYTES: usize = 32 * 1024;
/// A reader that waits for an answer looks up after this.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// The writing side of one connection.
pub(super) struct Writer {
    pub(super) wire: Wire,
    pub(super) share: Share,
    pub(super) messages: Messages,
    pub(super) start_ns: u64,
    /// Events that fall due within this time go out in one write.
    pub(super) coalesce_ns: u64,
    /// Events that are sent so long after their time are late.
    pub(super) late_after_ns: u64,
    /// Intended times of the events that are on their way. It is bounded, and so are they.
    pub(super) in_flight: SyncSender<u64>,
}

impl Writer {
    /// Sends the whole share, each event at its time or, when that has passed, at once.
    pub(super) fn run(mut self, head: &Head, link: &SpamLink) -> io::Result<()> {
        let Head { host, path, authorization } = head;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-ndjson\r\n\
             {authorization}Transfer-Encoding: chunked\r\n\r\n"
        );
        self.wire.write_all(head.as_bytes())?;
        let mut batch = Batch::new(self.late_after_ns);
        let mut written_ns = 0;
        while let Some(planned) = self.share.next() {
            let due_ns = self.start_ns.saturating_add(planned.at_ns);
            let mut now_ns = clock::monotonic_ns();
            if due_ns > now_ns {
                if batch.write(&mut self.wire, link)? {
                    written_ns = now_ns;
                }
                wait_until(due_ns.max(written_ns + self.coalesce_ns), link);
                now_ns = clock::monotonic_ns();
            }
            if link.stopped() {
                link.stopped_early();
                break;
            }
            // Before it is written, so that its answer finds it.
            match self.in_flight.try_send(due_ns) {
                Ok(()) => {}
                // What waits here must go out first, or its answers never come.
                Err(TrySendError::Full(_)) => {
                    batch.write(&mut self.wire, link)?;
                    self.in_flight.send(due_ns).map_err(|_| reader_ended())?;
                }
                Err(TrySendError::Disconnected(_)) => return Err(reader_ended()),
            }
            let place = self.share.place(planned.subject);
            self.messages.push(planned, place, &mut batch.chunk);
            batch.chunk.push(b'\n');
            batch.behind_ns.push(now_ns.saturating_sub(due_ns));
            if batch.chunk.len() >= BATCH_BYTES {
                batch.write(&mut self.wire, link)?;
            }
        }
        batch.write(&mut self.wire, link)?;
        self.wire.write_all(proto::chunked::LAST)
    }
}

fn reader_ended() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "the API ended its answers")
}

/// Events that go out in one write, as one chunk.
struct Batch {
    /// The size line's place, then the events.
    chunk: Vec<u8>,
    /// How far behind its time each one is.
    behind_ns: Vec<u64>,
    /// From where on that is late.
    late_after_ns: u64,
}

/// A size line of eight digits: leading zeros are allowed (RFC 9112, section 7.1), and its place
/// can be kept before the size is known.
const SIZE_LINE: &[u8] = b"00000000\r\n";

impl Batch {
    fn new(late_after_ns: u64) -> Batch {
        Batch { chunk: SIZE_LINE.to_vec(), behind_ns: Vec::new(), late_after_ns }
    }

    /// Writes what there is; false when that was nothing.
    fn write(&mut self, wire: &mut Wire, link: &SpamLink) -> io::Result<bool> {
        if self.behind_ns.is_empty() {
            return Ok(false);
        }
        let size = self.chunk.len() - SIZE_LINE.len();
        self.chunk[..8].copy_from_slice(format!("{size:08x}").as_bytes());
        self.chunk.extend_from_slice(b"\r\n");
        let now_ns = clock::monotonic_ns();
        wire.write_all(&self.chunk)?;
        link.writer.with(|published| {
            published.totals.sent += self.behind_ns.len() as u64;
            published.totals.sent_until_ns = now_ns;
            published.totals.bytes += self.chunk.len() as u64;
            published.totals.cpu_ns = clock::thread_cpu().as_nanos() as u64;
            for ns in self.behind_ns.drain(..) {
                published.totals.late += u64::from(ns > self.late_after_ns);
                published.behind.record(ns);
            }
        });
        self.chunk.truncate(SIZE_LINE.len());
        Ok(true)
    }
}

/// The reading side of one connection.
pub(super) struct Reader {
    pub(super) wire: Wire,
    pub(super) in_flight: Receiver<u64>,
}

impl Reader {
    /// Reads the answers to all events; returns when the API has ended them.
    pub(super) fn run(mut self, link: &SpamLink) -> io::Result<()> {
        self.wire.set_read_timeout(READ_TIMEOUT)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut decoder = None;
        let mut head_bytes = Vec::new();
        let mut waiting = Waiting::default();
        loop {
            let read = match self.wire.read(&mut buffer) {
                Ok(0) if decoder.is_none() => return Err(refusal(&head_bytes)),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => &buffer[..len],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    waiting.timed_out(&self.in_flight)?;
                    continue;
                }
                // An API that refuses reads no more, and what is written on breaks the connection.
                Err(error) if decoder.is_none() => return Err(told(&head_bytes).unwrap_or(error)),
                Err(error) => return Err(error),
            };
            let now_ns = clock::monotonic_ns();
            let progress = match &mut decoder {
                Some(decoder) => self.answers(decoder, read, now_ns, &mut waiting, link)?,
                None => {
                    head_bytes.extend_from_slice(read);
                    let Some((body, mut stream)) = open(&mut head_bytes)? else {
                        continue;
                    };
                    let progress = self.answers(&mut stream, &body, now_ns, &mut waiting, link)?;
                    decoder = Some(stream);
                    progress
                }
            };
            if progress == Progress::End {
                return Ok(());
            }
            waiting.heard(now_ns, &self.in_flight)?;
        }
    }

    fn answers(
        &self,
        decoder: &mut StreamDecoder,
        bytes: &[u8],
        now_ns: u64,
        waiting: &mut Waiting,
        link: &SpamLink,
    ) -> io::Result<Progress> {
        link.reader.with(|SpamPublished { totals, latencies, .. }| {
            let progress = decoder.feed(bytes, |answer| {
                totals.answer(answer.data);
                // Answers come in the order of the events.
                if let Some(due_ns) = waiting.next(&self.in_flight) {
                    latencies.record(now_ns.saturating_sub(due_ns));
                }
            });
            totals.cpu_ns = clock::thread_cpu().as_nanos() as u64;
            progress.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
        })
    }
}

/// The oldest event that waits for its answer.
#[derive(Default)]
struct Waiting {
    oldest: Option<u64>,
    /// Time without an answer.
    quiet: Duration,
    /// Since when something comes and none of it is an answer.
    idle_since_ns: Option<u64>,
}

impl Waiting {
    /// The intended time of the event that is answered now.
    fn next(&mut self, in_flight: &Receiver<u64>) -> Option<u64> {
        // None is an answer to nothing: it is counted, and that shows it.
        let oldest = self.oldest.take().or_else(|| in_flight.try_recv().ok());
        if oldest.is_some() {
            self.idle_since_ns = None;
        }
        oldest
    }

    /// Something has come. An API may keep the connection alive, and yet must answer.
    fn heard(&mut self, now_ns: u64, in_flight: &Receiver<u64>) -> io::Result<()> {
        self.quiet = Duration::ZERO;
        if !self.is_owed(in_flight) {
            self.idle_since_ns = None;
            return Ok(());
        }
        let since_ns = *self.idle_since_ns.get_or_insert(now_ns);
        match Duration::from_nanos(now_ns.saturating_sub(since_ns)) >= ANSWER_TIMEOUT {
            true => Err(no_answer()),
            false => Ok(()),
        }
    }

    /// Whether the API owes an answer or, once all is sent, the end of its answers.
    fn is_owed(&mut self, in_flight: &Receiver<u64>) -> bool {
        if self.oldest.is_some() {
            return true;
        }
        match in_flight.try_recv() {
            Ok(due_ns) => {
                self.oldest = Some(due_ns);
                true
            }
            Err(error) => error == TryRecvError::Disconnected,
        }
    }

    /// Nothing came for [`READ_TIMEOUT`].
    fn timed_out(&mut self, in_flight: &Receiver<u64>) -> io::Result<()> {
        let owes = self.is_owed(in_flight);
        self.quiet = if owes { self.quiet + READ_TIMEOUT } else { Duration::ZERO };
        if self.quiet >= ANSWER_TIMEOUT {
            return Err(no_answer());
        }
        Ok(())
    }
}

/// The decoder for the answers and the first bytes of them, once the head in `bytes` is whole.
fn open(bytes: &mut Vec<u8>) -> io::Result<Option<(Vec<u8>, StreamDecoder)>> {
    loop {
        let head =
            response_head(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let Some(head) = head else {
            return Ok(None);
        };
        let (status, head_len, length) = (head.status, head.head_len, head.body);
        let body = bytes.split_off(head_len);
        match status {
            // Another head follows an interim answer.
            100..=199 => *bytes = body,
            200 => return Ok(Some((body, StreamDecoder::new(Transport::Ndjson, length)))),
            _ => {
                let is_whole = !matches!(whole_body(length, &body), Ok(None));
                bytes.extend_from_slice(&body);
                return if is_whole { Err(refusal(bytes)) } else { Ok(None) };
            }
        }
    }
}

/// Why the API has ended the connection: as far as `bytes`, its answer, tell.
fn refusal(bytes: &[u8]) -> io::Error {
    told(bytes).unwrap_or_else(|| ErrorKind::UnexpectedEof.into())
}

fn told(bytes: &[u8]) -> Option<io::Error> {
    let head = response_head(bytes).ok().flatten()?;
    let (status, body) = (head.status, &bytes[head.head_len..]);
    let text = match whole_body(head.body, body) {
        Ok(Some(body)) => String::from_utf8_lossy(&body).into_owned(),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    Some(io::Error::other(format!("status {status}: {}", text.trim())))
}
