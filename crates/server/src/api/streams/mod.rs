//! `/v1/stream/{path}`: Durable Streams, for who may call the API, and on the
//! [public](super::public) port.
//!
//! The protocol is Durable Streams, draft 1.0; its rules and its files are those of the crate
//! [`streams`]. Here is its HTTP. What waits for a disk runs on threads of its own, with a write
//! permit, so that the files are one process' at any moment. At an upgrade live readers end and
//! come back to the new version, and what is asked meanwhile is passed on to it. What is appended
//! can be heard as [`events`], too.

mod answers;
mod events;
mod fields;
mod kept;
mod live;
mod memory;
mod places;
mod read;
mod write;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use engine::LetIn;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;

use self::answers::{ID, refused};
pub(crate) use self::kept::Streams;
pub use self::kept::StreamsConfig;
use self::kept::Undone;
use self::memory::{Holder, Holders, StreamsMemory};
use super::state::Api;

/// Where streams are.
pub(super) const PATH: &str = "/v1/stream/{*path}";

/// The methods that a stream has.
const METHODS: &str = "GET, HEAD, PUT, POST, DELETE";

/// A request about a stream.
struct Call {
    streams: Arc<Streams>,
    /// Whether only who has a key may read, or a token.
    is_private: bool,
    /// Whether it came to the public port.
    is_public: bool,
    /// The longest body, and how long its client may be silent.
    body_bytes_max: usize,
    idle_limit: IdleLimit,
    /// Whose share of the memory it takes.
    holders: Holders,
    path: Arc<str>,
    head: Parts,
}

impl Call {
    /// What it may hold.
    fn memory(&self) -> &StreamsMemory {
        if self.is_public { &self.streams.public_memory } else { &self.streams.api_memory }
    }

    /// The answer to what was not done; to who came too late, with `body`, what the successor says.
    async fn undone(self, undone: Undone, body: Bytes) -> Result<Response, ApiProblem> {
        match undone {
            Undone::Refused(refusal) => Ok(refused(&refusal)),
            Undone::Unusable(why) => {
                let detail = format!("The streams of this server cannot be used: {why}.");
                Err(ApiProblem::unavailable(detail))
            }
            // The successor's API does not know who was let in here.
            Undone::NoPermit(_) if self.is_public => Err(ApiProblem::starting_or_stopping()),
            Undone::NoPermit(no_permit) => no_permit.answer(self.head, Body::from(body)).await,
        }
    }
}

/// Every request about a stream.
pub(super) async fn serve(State(api): State<Arc<Api>>, request: Request) -> Response {
    let mut response = match answer(api, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    dress(response.headers_mut());
    response
}

/// Serves a request of the public port that was let in there.
pub(super) async fn serve_let_in(
    api: &Api,
    let_in: &LetIn,
    idle_limit: &IdleLimit,
    request: Request,
) -> Result<Response, ApiProblem> {
    let Some(streams) = api.streams().cloned() else { return Err(ApiProblem::not_found()) };
    let path = fields::path(request.uri().path())?;
    let id = streams.id_of(&path);
    let (head, body) = request.into_parts();
    let call = Call {
        idle_limit: idle_limit.clone(),
        streams,
        holders: Holder::all_of(let_in),
        is_private: let_in.holder.is_some(),
        is_public: true,
        body_bytes_max: let_in.limits.payload_bytes_max,
        path: path.into(),
        head,
    };
    let answer = match call.head.method {
        Method::GET => read::get(call).await,
        Method::HEAD => read::head(call).await,
        Method::POST => write::append(call, body).await,
        _ => Err(ApiProblem::method_not_allowed()),
    };
    answer.map(|response| with_id(response, id))
}

/// What each answer says.
pub(super) fn dress(fields: &mut HeaderMap) {
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    fields.insert(policy, HeaderValue::from_static("cross-origin"));
    // Whoever writes streams chooses their type. A page among them is none of the API's: it runs no
    // script, and has nothing of the dashboard's session.
    fields.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

async fn answer(api: Arc<Api>, request: Request) -> Result<Response, ApiProblem> {
    use super::access::Permission;
    let is_method = METHODS.split(", ").any(|method| method == request.method().as_str());
    if !is_method && request.method() != Method::OPTIONS {
        let mut response = ApiProblem::method_not_allowed().into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
        return Ok(response);
    }
    let Some(streams) = api.streams().cloned() else { return Err(ApiProblem::not_found()) };
    if request.method() == Method::OPTIONS {
        let fields = [
            (header::ALLOW, METHODS),
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, If-None-Match, Last-Event-ID"),
        ];
        return Ok((StatusCode::NO_CONTENT, fields).into_response());
    }
    let permission = Permission::of(request.extensions())?;
    let is_private = matches!(permission, Permission::Key(_));
    let path = fields::path(request.uri().path())?;
    if !request.method().is_safe() {
        api.access.check_about(&permission, [path.as_str()].into_iter())?;
    }
    let id = streams.id_of(&path);
    let (head, body) = request.into_parts();
    let call = Call {
        idle_limit: api.idle_limit.clone(),
        streams,
        // Whoever calls the API is trusted with its memory.
        holders: [].into(),
        is_private,
        is_public: false,
        body_bytes_max: write::BODY_BYTES_MAX,
        path: path.into(),
        head,
    };
    let answer = match call.head.method {
        Method::GET => read::get(call).await,
        Method::HEAD => read::head(call).await,
        Method::PUT => write::create(call, body).await,
        Method::POST => write::append(call, body).await,
        Method::DELETE => write::delete(call).await,
        _ => Err(ApiProblem::method_not_allowed()),
    };
    answer.map(|response| with_id(response, id))
}

/// The answer, which says about which id the stream's appends are events.
fn with_id(mut response: Response, id: Option<HeaderValue>) -> Response {
    let status = response.status();
    if let Some(id) = id.filter(|_| status.is_success() || status == StatusCode::NOT_MODIFIED) {
        response.headers_mut().insert(ID, id);
    }
    response
}
