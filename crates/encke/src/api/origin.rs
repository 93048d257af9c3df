//! No page but the API's own may use it.
//!
//! A browser on a host that can reach the API would otherwise let any page send to it: a simple
//! POST needs no leave (Fetch Standard, section 3.2), only its answer stays hidden. Browsers name
//! the page's origin in every such request, and programs that are no browsers name none.

use axum::extract::Request;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;

/// Refuses requests that come from a page of another origin.
pub(super) async fn own_only(request: Request, next: Next) -> Result<Response, Problem> {
    if is_foreign(request.uri(), request.headers()) {
        return Err(Problem::foreign_origin());
    }
    Ok(next.run(request).await)
}

fn is_foreign(uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    // HTTP/2 has the host in the target.
    let host = host.or(uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    !origin.to_str().is_ok_and(|origin| proto::request::is_own_origin(origin, host))
}
