//! No page but the API's own may use it, and the demo page a small part of it.
//!
//! A browser on a host that can reach the API would otherwise let any page send to it. A simple
//! POST needs no leave (Fetch Standard, section 3.2), only its answer stays hidden. Browsers name
//! the page's origin in every such request, and programs that are no browsers name none.
//!
//! The API's own origin is whatever page calls it by one of its names: [`super::host`] has refused
//! all other names before.
//!
//! The demo page stands at the public port, so it is of another origin. While it is served, a page
//! from that port of the same host may look users up and send, and nothing else.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use proto::request::{is_origin_at_port, is_own_origin};

use super::host::host;
use super::problem::ApiProblem;

/// How long a browser may remember what the demo page may do, in seconds.
const MAX_AGE: &str = "600";

/// The public port, while the demo page is served there.
pub type DemoPort = Option<u16>;

/// Refuses requests that come from a page of another origin.
pub async fn guard(
    State(demo): State<DemoPort>,
    request: Request,
    next: Next,
) -> Result<Response, ApiProblem> {
    let Some(origin) = foreign_origin(request.uri(), request.headers()) else {
        return Ok(next.run(request).await);
    };
    if asks_of_a_stream(&request) {
        return Ok(next.run(request).await);
    }
    let origin = origin.clone();
    let preflight = preflight_method(&request);
    let method = preflight.as_ref().unwrap_or(request.method());
    let is_demo = is_demo_page(&origin, request.uri(), request.headers(), demo);
    if !is_demo || !demo_may_call(method, request.uri().path()) {
        return Err(ApiProblem::foreign_origin());
    }
    let mut response = match &preflight {
        Some(method) => allow(method),
        None => next.run(request).await,
    };
    let fields = response.headers_mut();
    fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    fields.append(header::VARY, HeaderValue::from_static("Origin"));
    Ok(response)
}

/// Whether a request says that it comes from a page of the API's own origin.
pub fn is_own(uri: &Uri, headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) && foreign_origin(uri, headers).is_none()
}

/// Whether a browser says that another page than the API's own asks, as it does where it names no
/// origin: for an image (Fetch Metadata, section 2.3). What ends by itself needs no such look.
pub fn is_of_another_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    !matches!(site, None | Some(b"same-origin" | b"none"))
}

/// The page's origin, if it is not the API's own.
fn foreign_origin<'r>(uri: &Uri, headers: &'r HeaderMap) -> Option<&'r HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let own = |origin: &str| is_own_origin(origin, host(uri, headers));
    (!origin.to_str().is_ok_and(own)).then_some(origin)
}

fn is_demo_page(origin: &HeaderValue, uri: &Uri, headers: &HeaderMap, demo: DemoPort) -> bool {
    let Some(port) = demo else { return false };
    origin.to_str().is_ok_and(|origin| is_origin_at_port(origin, host(uri, headers), port))
}

/// Whether it only asks what a durable stream lets it do. The answer names no origin, so a browser
/// lets its page do nothing.
fn asks_of_a_stream(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.uri().path().starts_with("/v1/stream/")
}

/// What the demo page does: it sends, and looks up who follows whom and who is online.
fn demo_may_call(method: &Method, path: &str) -> bool {
    const LOOK_UPS: [&str; 3] = ["/subscriptions/", "/subscribers/", "/connections/"];
    match *method {
        Method::GET => LOOK_UPS.iter().any(|prefix| path.starts_with(prefix)),
        Method::POST => path == "/send",
        _ => false,
    }
}

/// The method that a browser asks leave for before it lets a page use it (Fetch Standard, section
/// 3.2.2).
fn preflight_method(request: &Request) -> Option<Method> {
    let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    let is_options = request.method() == Method::OPTIONS;
    is_options.then(|| Method::from_bytes(asked.as_bytes()).ok())?
}

/// The answer to such a question.
fn allow(method: &Method) -> Response {
    let fields = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, method.as_str()),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type"),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    (StatusCode::NO_CONTENT, fields).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_page_may_look_up_and_send_and_nothing_else() {
        for (method, path) in [
            (Method::GET, "/subscriptions/1"),
            (Method::GET, "/subscriptions/add"),
            (Method::GET, "/subscribers/1"),
            (Method::GET, "/connections/1"),
            (Method::POST, "/send"),
        ] {
            assert!(demo_may_call(&method, path), "{method} {path}");
        }
        for (method, path) in [
            (Method::POST, "/subscriptions/add"),
            (Method::POST, "/subscriptions/remove"),
            (Method::POST, "/logout/1"),
            (Method::POST, "/connections/1"),
            (Method::PUT, "/send"),
            (Method::DELETE, "/subscriptions/1"),
            (Method::GET, "/"),
            (Method::GET, "/stats"),
            (Method::GET, "/metrics"),
            (Method::GET, "/send"),
        ] {
            assert!(!demo_may_call(&method, path), "{method} {path}");
        }
    }
}
