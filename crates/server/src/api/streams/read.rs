//! Reading: what a stream is, what it has, and its next piece.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use httpd::problem::ApiProblem;
use streams::{LiveReader, Piece, Refusal, Start, Store, array, cursor, is_json};
use tokio::time::{Instant, timeout_at};

use super::Call;
use super::answers::{CLOSED, CURSOR, TRUE, UP_TO_DATE, push_head, push_tail, value};
use super::fields::{LiveMode, ReadQuery};
use super::kept::Undone;

/// Bytes of an answer, beside the rest of its last append.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// How long a long poll waits: less than [`streams::LIVE_READ_MAX`].
const POLL_TIME: Duration = Duration::from_secs(20);

/// `HEAD`.
pub(super) async fn head(call: Call) -> Result<Response, ApiProblem> {
    let path = call.path.clone();
    match call.streams.read(&call.path, move |store| store.head(&path)).await {
        Ok(head) => {
            // Of unknown length: an answer to `HEAD` says none but that of `GET` (RFC 9110,
            // section 8.6), for which the file would have to be read.
            let unknown = stream::empty::<Result<Bytes, Infallible>>();
            let mut response = Body::from_stream(unknown).into_response();
            push_head(response.headers_mut(), &head);
            no_store(&mut response);
            Ok(response)
        }
        Err(undone) => call.undone(undone, Bytes::new()).await,
    }
}

/// `GET` of what is there.
pub(super) async fn catch_up(call: Call, wanted: ReadQuery) -> Result<Response, ApiProblem> {
    match piece(&call, wanted.start).await {
        Ok(piece) => piece_answer(&call, &wanted, piece),
        Err(undone) => call.undone(undone, Bytes::new()).await,
    }
}

/// The piece of the stream from `start` on.
pub(super) async fn piece(call: &Call, start: Start) -> Result<Piece, Undone> {
    call.streams.piece(&call.path, start, PIECE_BYTES).await
}

/// The first piece for a reader that will wait for more, and what it waits with.
pub(super) async fn first(call: &Call, start: Start) -> Result<(LiveReader, Piece), Undone> {
    let path = call.path.clone();
    let read = move |store: &Store| {
        // First, so that nothing can end its life in between.
        let reader = store.live(&path);
        match store.read_short(&path, start, PIECE_BYTES) {
            Ok(piece) => Ok((reader, Some(piece))),
            Err(Refusal::Long) => Ok((reader, None)),
            Err(error) => Err(error),
        }
    };
    let (reader, piece) = call.streams.read(&call.path, read).await?;
    let piece = match piece {
        Some(piece) => piece,
        None => call.streams.long_piece(&call.path, start, PIECE_BYTES).await?,
    };
    Ok((reader, piece))
}

/// `GET` with `live=long-poll`.
pub(super) async fn poll(call: Call, wanted: ReadQuery) -> Result<Response, ApiProblem> {
    let end = Instant::now() + POLL_TIME;
    let (mut reader, mut piece) = match first(&call, wanted.start).await {
        Ok(first) => first,
        Err(undone) => return call.undone(undone, Bytes::new()).await,
    };
    let from = piece.head.next;
    let mut is_over = false;
    while piece.data.is_empty() && !piece.ends() && !is_over {
        if piece.up_to_date {
            let changed = async {
                tokio::select! {
                    () = reader.changed(piece.head.next) => {}
                    () = call.streams.stop.cancelled() => {}
                    // The successor is asked, which waits anew.
                    () = call.streams.barrier.moved() => {}
                }
            };
            is_over = timeout_at(end, changed).await.is_err() || call.streams.stop.is_cancelled();
        }
        let read = match reader.newest_piece(from) {
            Some(piece) => Ok(piece),
            None => self::piece(&call, Start::At(from)).await,
        };
        piece = match read {
            Ok(piece) => piece,
            Err(undone) => return call.undone(undone, Bytes::new()).await,
        };
    }
    drop(reader);
    if !piece.data.is_empty() {
        return piece_answer(&call, &wanted, piece);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let fields = response.headers_mut();
    push_tail(fields, piece.head.next, piece.ends());
    fields.insert(UP_TO_DATE, TRUE);
    if !piece.ends() {
        fields.insert(CURSOR, value(new_cursor(&wanted)));
    }
    no_store(&mut response);
    Ok(response)
}

/// The answer with a piece, or that the client has it.
fn piece_answer(call: &Call, wanted: &ReadQuery, piece: Piece) -> Result<Response, ApiProblem> {
    let (is_json, ends) = (is_json(&piece.head.content_type), piece.ends());
    let mark = match (ends, piece.up_to_date) {
        (true, _) => "-closed",
        (false, true) => "-tail",
        (false, false) => "",
    };
    let tag = value(format!("\"{}-{}{mark}\"", piece.from, piece.head.next));
    let is_sentinel = wanted.start == Start::Now;
    let known = call.head.headers.get(header::IF_NONE_MATCH).and_then(|field| field.to_str().ok());
    let is_known = known.is_some_and(|known| {
        let mut tags = known.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
        tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
    });
    let is_known = is_known && !is_sentinel;
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let bytes = piece.data.len() + if is_json { "[]".len() } else { 0 };
        let room = call.memory().pieces.take(&call.holders, bytes)?;
        let data = if is_json { array(&piece.data) } else { piece.data };
        Body::from(room.hold(data.into())).into_response()
    };
    let fields = response.headers_mut();
    if !is_known {
        fields.insert(header::CONTENT_TYPE, value(&piece.head.content_type));
    }
    push_tail(fields, piece.head.next, false);
    if ends {
        fields.insert(CLOSED, TRUE);
    }
    if piece.up_to_date {
        fields.insert(UP_TO_DATE, TRUE);
    }
    if wanted.live == LiveMode::LongPoll && !ends {
        fields.insert(CURSOR, value(new_cursor(wanted)));
    }
    if is_sentinel {
        no_store(&mut response);
        return Ok(response);
    }
    let cached = match call.is_private {
        true => "private, max-age=60, stale-while-revalidate=300",
        false => "public, max-age=60, stale-while-revalidate=300",
    };
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(cached));
    fields.insert(header::ETAG, tag);
    Ok(response)
}

/// The cursor that a reader is given, by the one that it has.
pub(super) fn new_cursor(wanted: &ReadQuery) -> u64 {
    cursor(sys::clock::unix_ms(), wanted.cursor.as_deref(), fastrand::u64(..))
}

fn no_store(response: &mut Response) {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
