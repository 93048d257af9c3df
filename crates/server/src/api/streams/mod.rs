//! Durable Streams, of which [requests](super::stream_requests) are asked.
//!
//! The protocol is Durable Streams, draft 1.0; its rules and its files are those of the crate
//! [`streams`]. Here is its HTTP. What waits for a disk runs on threads of its own, with a write
//! permit, so that the files are one process' at any moment. At an upgrade live readers end and
//! come back to the new version, and what is asked meanwhile is passed on to it. What is appended
//! can be heard as [`events`], too.

mod answers;
mod appends;
mod asked;
mod at_once;
mod due;
mod events;
mod fields;
mod fork;
mod kept;
mod live;
mod long;
mod memory;
mod places;
mod read;
mod row;
mod write;

use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;

use self::answers::{ID, refused};
pub(crate) use self::asked::{AppendTexts, SHORT_BYTES_MAX};
pub(crate) use self::at_once::PostedAppend;
pub(super) use self::fields::path as path_of;
use self::fields::{LiveMode, ReadQuery};
pub(super) use self::fork::source_of;
pub(crate) use self::kept::Streams;
pub use self::kept::StreamsConfig;
use self::kept::Undone;
use self::memory::StreamsMemory;
pub(super) use self::memory::{Holder, Holders};
pub(super) use self::write::BODY_BYTES_MAX;

/// Whether a request that appends more than once may do it again.
#[derive(Debug)]
pub(super) enum MayAppend {
    Now,
    /// It appends too often.
    Later(ApiProblem),
    /// What it was let in by is good no more.
    Never(ApiProblem),
}

/// What is asked before each append of such a request, and before it closes its stream. It is told
/// whether that counts for a rate. What does not is never to be done later.
pub(super) type MayAppendCheck = Arc<dyn Fn(bool) -> MayAppend + Send + Sync>;

/// A request about a stream.
pub(super) struct Call {
    pub(super) streams: Arc<Streams>,
    /// Whether only who has a key may read, or a token.
    pub(super) is_private: bool,
    /// Whether it came to the public port, where streams are neither made nor deleted.
    pub(super) is_public: bool,
    /// The longest body, and how long its client may be silent.
    pub(super) body_bytes_max: usize,
    pub(super) idle_limit: IdleLimit,
    /// Whose share of the memory it takes.
    pub(super) holders: Holders,
    pub(super) may_append: MayAppendCheck,
    pub(super) path: Arc<str>,
    pub(super) head: Parts,
}

impl Call {
    /// The answer to it.
    pub(super) async fn answer(self, body: Body) -> Result<Response, ApiProblem> {
        let id = self.streams.id_of(&self.path);
        let is_public = self.is_public;
        let answer = match self.head.method {
            Method::GET => self.read().await,
            Method::HEAD => read::head(self).await,
            Method::POST => write::append(self, body).await,
            Method::PUT if !is_public => write::create(self, body).await,
            Method::DELETE if !is_public => write::delete(self).await,
            _ => Err(ApiProblem::method_not_allowed()),
        };
        answer.map(|response| with_id(response, id))
    }

    /// `GET`.
    async fn read(self) -> Result<Response, ApiProblem> {
        let wanted = ReadQuery::parse(&self.head.uri, &self.head.headers)?;
        match wanted.live {
            LiveMode::CatchUp => read::catch_up(self, wanted).await,
            LiveMode::LongPoll => read::poll(self, wanted).await,
            LiveMode::Sse => live::get(self, wanted).await,
        }
    }

    /// What it may hold.
    fn memory(&self) -> &StreamsMemory {
        if self.is_public { &self.streams.public_memory } else { &self.streams.api_memory }
    }

    /// The answer to what was not done; to who came too late, with `body`, what the successor says.
    async fn undone(self, undone: Undone, body: Bytes) -> Result<Response, ApiProblem> {
        match undone {
            Undone::Refused(refusal) => Ok(refused(&refusal, &self.path)),
            // Where the files are is for those alone who call the API.
            Undone::Unusable(why) => Err(ApiProblem::unavailable(match self.is_public {
                true => "The streams of this server cannot be used now.".to_owned(),
                false => format!("The streams of this server cannot be used: {why}."),
            })),
            // The successor's API does not know who was let in here.
            Undone::NoPermit(_) if self.is_public => Err(ApiProblem::starting_or_stopping()),
            Undone::NoPermit(no_permit) => no_permit.answer(self.head, Body::from(body)).await,
        }
    }
}

/// The answer, which says about which id the stream's appends are events.
fn with_id(mut response: Response, id: Option<HeaderValue>) -> Response {
    let status = response.status();
    if let Some(id) = id.filter(|_| status.is_success() || status == StatusCode::NOT_MODIFIED) {
        response.headers_mut().insert(ID, id);
    }
    response
}
