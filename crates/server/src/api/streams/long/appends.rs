//! The appends of one request, one after the other, and what is gathered for the next one.

use std::mem;
use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use httpd::problem::ApiProblem;
use streams::{Appended, Refusal};
use tokio::runtime::Handle;

use super::super::asked::{AskedAppend, WriteFields, Written};
use super::super::kept::{Streams, Undone};
use super::super::{Call, MayAppend, MayAppendCheck};

/// The longest append: no longer than what needs no room of that which all bodies share.
const APPEND_BYTES_MAX: usize = 64 << 10;

/// What became of an append. It is refused as one behind an old offset where another stream has
/// come to the path.
pub(super) type AppendOutcome = Result<Appended, Undone>;

/// What is appended to, with bytes of which type.
#[derive(Clone)]
struct AppendTarget {
    streams: Arc<Streams>,
    path: Arc<str>,
    content_type: Arc<str>,
}

/// The appends of a request.
pub(super) struct Appends {
    target: AppendTarget,
    may_append: MayAppendCheck,
    bytes_max: usize,
    /// What is being appended, or is to be tried again.
    tried: Bytes,
    under_way: Option<BoxFuture<'static, AppendOutcome>>,
    /// What has come since. It has a buffer only where it has something.
    gathered: BytesMut,
    /// What had no place there of a piece that was longer.
    left: Bytes,
    /// What was appended last.
    pub(super) last: Option<Appended>,
    is_over: bool,
}

impl Appends {
    /// None yet, of bytes with this type.
    pub(super) fn new(call: &Call, content_type: &str) -> Appends {
        let (streams, path) = (Arc::clone(&call.streams), Arc::clone(&call.path));
        Appends {
            target: AppendTarget { streams, path, content_type: content_type.into() },
            may_append: Arc::clone(&call.may_append),
            bytes_max: call.body_bytes_max.clamp(1, APPEND_BYTES_MAX),
            tried: Bytes::new(),
            under_way: None,
            gathered: BytesMut::new(),
            left: Bytes::new(),
            last: None,
            is_over: false,
        }
    }

    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether there is room for another piece.
    pub(super) fn has_room(&self) -> bool {
        self.left.is_empty() && self.gathered.len() < self.bytes_max
    }

    /// Whether there is nothing to append.
    pub(super) fn is_empty(&self) -> bool {
        self.tried.is_empty() && self.gathered.is_empty()
    }

    /// Whether the next one may begin, as the one that let the request in says.
    pub(super) fn may_append(&self) -> MayAppend {
        // What is tried again was counted, and the first one, when it was let in.
        (self.may_append)(self.last.is_some() && self.tried.is_empty())
    }

    /// Gathers a piece, for which there is room: of what is longer the rest has its place in what
    /// all bodies share.
    pub(super) fn push(&mut self, mut piece: Bytes, call: &Call) -> Result<(), ApiProblem> {
        let room = self.bytes_max - self.gathered.len();
        if piece.len() > room {
            let left = call.memory().bodies.take(&call.holders, piece.len() - room)?;
            self.left = left.hold(piece.split_off(room));
        }
        self.gathered.extend_from_slice(&piece);
        Ok(())
    }

    /// Begins the next one, which closes the stream if it `closes` and is the last one.
    pub(super) fn begin(&mut self, closes: bool) {
        let data = self.next_data();
        let closes = closes && self.gathered.is_empty();
        self.under_way = Some(self.target.append(data, closes, self.last));
    }

    /// Waits until that is done, if there is one. It may be dropped before, and asked again.
    pub(super) async fn done(&mut self) -> AppendOutcome {
        let Some(under_way) = &mut self.under_way else { return std::future::pending().await };
        let outcome = under_way.await;
        self.under_way = None;
        if let Ok(appended) = outcome {
            (self.last, self.tried) = (Some(appended), Bytes::new());
        }
        outcome
    }

    /// There are no more: what was not appended, and behind it `rest`, as a body.
    pub(super) fn end(mut self, rest: Body) -> Body {
        self.is_over = true;
        let gathered = mem::take(&mut self.gathered).freeze();
        let pieces = [mem::take(&mut self.tried), gathered, mem::take(&mut self.left)];
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).map(Ok);
        Body::from_stream(stream::iter(pieces).chain(rest.into_data_stream()))
    }

    fn next_data(&mut self) -> Bytes {
        if self.tried.is_empty() {
            self.tried = mem::take(&mut self.gathered).freeze();
            let next = self.left.split_to(self.left.len().min(self.bytes_max));
            self.gathered.extend_from_slice(&next);
        }
        self.tried.clone()
    }
}

impl AppendTarget {
    /// Appends behind `last`, if that was appended.
    fn append(
        &self,
        data: Bytes,
        closes: bool,
        last: Option<Appended>,
    ) -> BoxFuture<'static, AppendOutcome> {
        let AppendTarget { streams, path, content_type } = self.clone();
        let content_type = Some(String::from(&*content_type));
        let fields = WriteFields { closes, producer: None, sequence: None, content_type };
        let asked = AskedAppend { fields, body: data, behind: last.map(|last| last.next) };
        Box::pin(async move {
            match streams.append(&path, asked).await? {
                Written::Done(appended) => Ok(appended),
                // Of what is no JSON nothing is asked.
                Written::NoJson(_) => Err(Undone::Refused(Refusal::BadOffset)),
            }
        })
    }
}

/// What has come of a client that has gone is appended, as if it had come a little earlier. What
/// was under way is so anyway.
impl Drop for Appends {
    fn drop(&mut self) {
        let Some(under_way) = self.under_way.take().filter(|_| !self.is_over) else { return };
        if self.gathered.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let data = mem::take(&mut self.gathered).freeze();
        let (target, may_append) = (self.target.clone(), Arc::clone(&self.may_append));
        runtime.spawn(async move {
            let Ok(appended) = under_way.await else { return };
            if matches!(may_append(true), MayAppend::Now) {
                // Nobody waits for what becomes of it.
                let _ = target.append(data, false, Some(appended)).await;
            }
        });
    }
}
