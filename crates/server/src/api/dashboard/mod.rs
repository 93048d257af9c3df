//! The dashboard: `GET /` and its files, and `GET /dashboard.json`, which tells the page where its
//! figures come from.
//!
//! They come over the server itself: [`live`] sends them as events about an id that nobody can
//! guess, and the page opens a stream of that id on the public port. Those of the last minutes come
//! with the facts ([`super::dashboards`]). Everything else the page asks of the API as any client
//! does.
//!
//! The page runs nothing but what the program carries, and talks to the two ports alone: the
//! browser is told so by a content security policy, which leaves no way in for an id or a payload.

pub(crate) mod live;
mod sample;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use httpd::exchange::Peer;
use httpd::host;
use httpd::json::Json;
use httpd::problem::ApiProblem;
use serde::Serialize;

use self::sample::Sample;
use crate::api::access::Permission;
use crate::api::dashboards::past::Columns;
use crate::api::public_url::PublicUrl;
use crate::api::state::Api;
use crate::web;

/// What the page is told first.
#[derive(Serialize)]
pub(super) struct DashboardFacts {
    version: &'static str,
    /// The id whose events are the figures. Another one after each start of the server.
    id: String,
    /// What the page shows to be let in there, where that is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The public port, as the browser that asks can reach it.
    public_url: String,
    /// Whether who asks has logged in by a page, and can log out.
    session: bool,
    /// The time from one event to the next.
    interval_seconds: f64,
    /// The last minutes.
    past: Columns,
    /// The figures of this moment.
    now: Sample,
}

pub(super) async fn page(State(api): State<Arc<Api>>, request: Request) -> Response {
    let policy = policy(&public_url(&api, &request));
    let mut response = web::answer(&web::DASHBOARD_PAGE, request.headers());
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

pub(super) async fn script(headers: HeaderMap) -> Response {
    web::answer(&web::DASHBOARD_SCRIPT, &headers)
}

pub(super) async fn style(headers: HeaderMap) -> Response {
    web::answer(&web::DASHBOARD_STYLE, &headers)
}

pub(super) async fn icon(headers: HeaderMap) -> Response {
    web::answer(&web::ICON, &headers)
}

pub(super) async fn facts(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Json<DashboardFacts>, ApiProblem> {
    let public_url = public_url(&api, &request).to_string();
    // Who is let in by a key and shows none has a cookie.
    let is_by_key = matches!(Permission::of(request.extensions())?, Permission::Key(_));
    let session = is_by_key && !request.headers().contains_key(header::AUTHORIZATION);
    let sockets = api.sockets.read().await;
    Ok(Json(DashboardFacts {
        version: env!("CARGO_PKG_VERSION"),
        id: api.live_id.clone(),
        token: api.tokens.as_ref().map(|tokens| tokens.own_token().to_owned()),
        public_url,
        session,
        interval_seconds: live::INTERVAL.as_secs_f64(),
        past: api.dashboards.past.columns(),
        now: Sample::take(&api, sockets, None)?,
    }))
}

/// The public port: where the operator says that it is, else as the client of this request reaches
/// it.
fn public_url(api: &Api, request: &Request) -> PublicUrl {
    let host = host::host(request.uri(), request.headers());
    // A page that came by TLS may open nothing that is plain (Mixed Content, section 3.5).
    let by_tls = |port: &SocketAddr| Peer::is_over_tls(request) || *port == api.listen;
    let tls = api.tls_listen.filter(by_tls);
    let given = api.public_url.clone();
    given.unwrap_or_else(|| PublicUrl::of(tls.unwrap_or(api.listen), host, tls.is_some()))
}

/// What the page may load, run and connect to (CSP Level 3).
fn policy(public: &PublicUrl) -> HeaderValue {
    let policy = format!(
        "default-src 'self'; connect-src 'self' {}; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        public.sources()
    );
    policy.try_into().expect("an authority is visible ASCII")
}
