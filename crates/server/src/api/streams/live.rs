//! Live reads as server-sent events.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use httpd::problem::ApiProblem;
use streams::sse::{self, Encoding};
use streams::{LIVE_READ_MAX, LiveReader, Offset, Piece, Start};
use tokio::time::{Instant, sleep_until};

use super::Call;
use super::fields::ReadQuery;
use super::memory::Room;
use super::read::{first, new_cursor, piece};

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
    is_over: bool,
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
    let reading = Reading { call, wanted, encoding, reader, piece, next, end, is_over };
    let body = Body::from_stream(stream::unfold(reading, Reading::next));
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

/// A piece with room for its events; `None` where there is none.
fn with_room(call: &Call, encoding: Encoding, piece: Piece) -> Option<(Piece, Room)> {
    let bytes = encoding.bytes_max(&piece.data);
    let room = call.memory().pieces.take(&call.holders, bytes).ok()?;
    Some((piece, room))
}

impl Reading {
    /// What is sent next.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Reading)> {
        if self.is_over {
            self.leave();
            return None;
        }
        let (piece, room) = match self.piece.take() {
            Some(read) => read,
            None => match self.wait().await {
                Some(piece) => with_room(&self.call, self.encoding, piece)?,
                None => {
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

    /// Waits for the next piece; nothing where the reader is to come back for it.
    async fn wait(&mut self) -> Option<Piece> {
        let streams = &self.call.streams;
        tokio::select! {
            biased;
            () = streams.stop.cancelled() => return None,
            () = streams.barrier.moved() => return None,
            () = sleep_until(self.end) => return None,
            () = self.reader.changed(self.next) => {}
        }
        match self.reader.newest_piece(self.next) {
            Some(piece) => Some(piece),
            None => piece(&self.call, Start::At(self.next)).await.ok(),
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
