//! `/v1/stream/{path}`: requests about [durable streams](super::streams), of who may call the API,
//! and those that came to the [public](super::public) port.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::LetIn;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;

use super::access::Permission;
use super::state::Api;
use super::streams::{BODY_BYTES_MAX, Call, Holder, MayAppend, MayAppendCheck, path_of, source_of};

/// Where streams are.
pub(super) const PATH: &str = "/v1/stream/{*path}";

/// The methods that a stream has.
const METHODS: &str = "GET, HEAD, PUT, POST, DELETE";

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
    may_append: MayAppendCheck,
    request: Request,
) -> Result<Response, ApiProblem> {
    let Some(streams) = api.streams().cloned() else { return Err(ApiProblem::not_found()) };
    let path = path_of(request.uri().path())?;
    let (head, body) = request.into_parts();
    let call = Call {
        idle_limit: idle_limit.clone(),
        streams,
        holders: Holder::all_of(let_in),
        may_append,
        is_private: let_in.holder.is_some(),
        is_public: true,
        body_bytes_max: let_in.limits.payload_bytes_max,
        path: path.into(),
        head,
    };
    call.answer(body).await
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
    let path = path_of(request.uri().path())?;
    if !request.method().is_safe() {
        // A fork shows what its source has.
        let source = source_of(request.headers())?;
        let paths = [path.as_str()].into_iter().chain(source.as_deref());
        api.access.check_about(&permission, paths)?;
        if source.is_some() {
            api.access.check_read(&permission)?;
        }
    }
    let (head, body) = request.into_parts();
    let call = Call {
        idle_limit: api.idle_limit.clone(),
        streams,
        // Whoever calls the API is trusted with its memory.
        holders: [].into(),
        // A key may be revoked while its request goes on.
        may_append: Arc::new(move |_| match api.access.check(&permission) {
            Ok(()) => MayAppend::Now,
            Err(problem) => MayAppend::Never(problem),
        }),
        is_private,
        is_public: false,
        body_bytes_max: BODY_BYTES_MAX,
        path: path.into(),
        head,
    };
    call.answer(body).await
}
