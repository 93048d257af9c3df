//! Live reads as server-sent events.
//!
//! A reader of whom nothing is heard for long is cut by proxies, and its client takes that for a
//! failure of the network. So it is sent a comment from time to time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream;
use httpd::problem::ApiProblem;
use streams::sse::{self, Encoding};
use streams::{LIVE_READ_MAX, LiveReader, Offset, Piece, Start};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Call;
use super::fields::ReadQuery;
use super::kept::Streams;
use super::memory::Room;
use super::read::{first, new_cursor, piece};

/// How long a reader is sent nothing at most. Proxies cut what is silent for 60 s as a rule, and
/// some after 30.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A reader of events.
struct Reading {
    call: Call,
    wanted: ReadQuery,
    encoding: Encoding,
    reader: LiveReader,
    /// What was read and not sent yet, with room for its events: who asks for many streams of
    /// events and takes none of them holds no more than its share.
    piece: Option<(Piece, Room)>,
    next: Offset,
    /// When the stream of events ends, so that caches can join readers; they come back at once.
    end: Instant,
    /// When it was sent something last.
    sent: Instant,
    /// Until it is to be looked whether it was silent for too long, or ends.
    alarm: Pin<Box<Sleep>>,
    /// Until this process has the streams no more.
    left: BoxFuture<'static, ()>,
    is_over: bool,
}

/// What a reader has waited for.
enum Waited {
    Piece(Piece),
    /// For nothing, so long that it is sent a comment.
    Silence,
    /// It is to come back.
    End,
}

/// `GET` with `live=sse`.
pub(super) async fn get(call: Call, wanted: ReadQuery) -> Result<Response, ApiProblem> {
    // Before the first read, which dates the stream's file.
    let end = Instant::now() + LIVE_READ_MAX;
    let (reader, piece) = match first(&call, wanted.start).await {
        Ok(first) => first,
        Err(undone) => return call.undone(undone, Bytes::new()).await,
    };
    let encoding = Encoding::of(&piece.head.content_type);
    // Where there is no room for it, the reader comes back with its last offset.
    let (next, piece) = (piece.head.next, with_room(&call, encoding, piece));
    let is_over = piece.is_none();
    let (sent, alarm) = (Instant::now(), Box::pin(sleep_until(end)));
    let left = left(call.streams.clone()).boxed();
    let reading =
        Reading { call, wanted, encoding, reader, piece, next, end, sent, alarm, left, is_over };
    // It is moved with each piece.
    let body = Body::from_stream(stream::unfold(Box::new(reading), Reading::next));
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // Or nginx keeps what is told until it has much of it.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let mut response = (fields, body).into_response();
    if encoding == Encoding::Base64 {
        let name = HeaderName::from_static("stream-sse-data-encoding");
        response.headers_mut().insert(name, HeaderValue::from_static("base64"));
    }
    Ok(response)
}

/// Waits until this process ends, or another one has the streams.
async fn left(streams: Arc<Streams>) {
    tokio::select! {
        () = streams.stop.cancelled() => {}
        () = streams.barrier.moved() => {}
    }
}

/// A piece with room for its events; `None` where there is none.
fn with_room(call: &Call, encoding: Encoding, piece: Piece) -> Option<(Piece, Room)> {
    let bytes = encoding.bytes_max(&piece.data);
    let room = call.memory().pieces.take(&call.holders, bytes).ok()?;
    Some((piece, room))
}

impl Reading {
    /// What is sent next.
    async fn next(mut self: Box<Reading>) -> Option<(Result<Bytes, Infallible>, Box<Reading>)> {
        if self.is_over {
            self.leave();
            return None;
        }
        let (piece, room) = match self.piece.take() {
            Some(read) => read,
            None => match self.wait().await {
                Waited::Piece(piece) => with_room(&self.call, self.encoding, piece)?,
                Waited::Silence => {
                    return Some((Ok(Bytes::from_static(sse::COMMENT)), self));
                }
                Waited::End => {
                    self.leave();
                    return None;
                }
            },
        };
        let mut events = Vec::with_capacity(room.bytes());
        self.next = piece.head.next;
        if !piece.data.is_empty() {
            self.encoding.push_data(&mut events, self.next, &piece.data);
        }
        if piece.ends() {
            sse::push_end(&mut events, self.next);
            self.is_over = true;
        } else {
            let cursor = new_cursor(&self.wanted);
            sse::push_control(&mut events, self.next, cursor, piece.up_to_date);
        }
        Some((Ok(room.hold(events.into())), self))
    }

    /// Waits for the next piece, or until there is something else to do. What it waits with is made
    /// once, and not for each piece.
    async fn wait(&mut self) -> Waited {
        self.sent = Instant::now();
        loop {
            // Set anew when it has rung, and not by each piece.
            let due = self.end.min(self.sent + SILENCE_MAX);
            if self.alarm.deadline() > due || self.alarm.is_elapsed() {
                self.alarm.as_mut().reset(due);
            }
            let goes_on = self.sent < self.end && !self.call.streams.stop.is_cancelled();
            tokio::select! {
                biased;
                // First: where there is something to read, nobody else is asked.
                () = self.reader.changed(self.next), if goes_on => break,
                () = self.left.as_mut() => return Waited::End,
                () = self.alarm.as_mut() => {}
            }
            let now = Instant::now();
            if now >= self.end {
                return Waited::End;
            }
            if now >= self.sent + SILENCE_MAX {
                return Waited::Silence;
            }
        }
        match self.reader.newest_piece(self.next) {
            Some(piece) => Waited::Piece(piece),
            None => match piece(&self.call, Start::At(self.next)).await {
                Ok(piece) => Waited::Piece(piece),
                Err(_) => Waited::End,
            },
        }
    }

    /// The life of the stream begins anew, which this reader has held. Nobody waits for it.
    fn leave(&self) {
        let (streams, path) = (self.call.streams.clone(), self.call.path.clone());
        tokio::spawn(async move {
            let of = path.clone();
            // One that is gone needs it not. A successor adds `LIVE_READ_MAX` to its file's time.
            let _ = streams.read(&path, move |store| store.left(&of)).await;
        });
    }
}
