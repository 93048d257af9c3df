//! What every request passes: the peer, the host that it names, and the page that it comes from.
//!
//! The daemon stands on a person's machine, where any page in a browser can reach it. So a request
//! must call it by a name that is its own, or a page could make a name of its own lead here (DNS
//! rebinding); and what comes from a page of another origin, by `Origin`, by `Sec-Fetch-Site` or as
//! JSONP, needs a token where it asks or changes something. Programs of this machine need none, as
//! ever.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::listener::HttpPeer;
use super::reply;
use super::{App, Parameters};

/// Turns away who may not come in, and marks what goes out.
pub(super) async fn pass(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let may = may_pass(&app, &request);
    let mut response = match may {
        Ok(()) => next.run(request).await,
        Err(refusal) => *refusal,
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert("server", HeaderValue::from_static("Playdar"));
    // With `no-referrer` a browser would send our own forms with `Origin: null`.
    headers.insert("referrer-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Whether the caller may ask: a page by its token, a program of this machine anyway.
pub(super) fn is_let_in(app: &App, parameters: &Parameters, needs_token: bool) -> bool {
    !needs_token || parameters.get("auth").is_some_and(|token| app.parts.auth.is_good(token))
}

fn may_pass(app: &App, request: &Request) -> Result<(), Box<Response>> {
    let refuse = |status, what: &str| Err(Box::new(reply::refuse(status, what)));
    let Some(peer) = request.extensions().get::<HttpPeer>() else {
        return refuse(StatusCode::FORBIDDEN, "the peer is not known");
    };
    let path = request.uri().path();
    if !peer.is_own() && !path.starts_with("/sid/") {
        let what = "from another machine only songs can be played: ask on the daemon's own";
        return refuse(StatusCode::FORBIDDEN, what);
    }
    let Some(host) = host(request.headers()) else {
        return refuse(StatusCode::BAD_REQUEST, "name the host once, as HTTP says");
    };
    if !app.parts.hosts.include(host) {
        let what = "the daemon is not called so: call it 127.0.0.1, or start it with --host NAME";
        return refuse(StatusCode::FORBIDDEN, what);
    }
    Ok(())
}

/// What the request calls us. Hosts of two names are no hosts.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Whether a page of another origin sent the request, as far as its browser tells: with `Origin`,
/// or, where that is left out (images, scripts), with `Sec-Fetch-Site` (Fetch Metadata).
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    let own = host(headers).map(|host| format!("http://{host}"));
    let of_page = |origin: &HeaderValue| {
        own.as_deref().is_none_or(|own| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()))
    };
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    headers.get(ORIGIN).is_some_and(of_page)
        || site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
}
