//! Which path leads to which handler, and what is told to requests that lead nowhere.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::extract::rejection::QueryRejection;
use axum::http::request::Parts;
use axum::routing::{MethodRouter, get, post};
use graph::OwnedId;
use hub::IdText;
use percent_encoding::percent_decode_str;

use super::origin::DemoPort;
use super::problem::Problem;
use super::{Api, dashboard, lookup, metrics, openapi, origin, send, stats, subscriptions, tune};

/// The whole API; a demo page at the port `demo` may use a small part of it.
pub(crate) fn routes(api: Arc<Api>, demo: DemoPort) -> Router {
    let mut router = Router::new();
    for (path, methods) in paths() {
        router = router.route(path, methods);
    }
    router
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(axum::middleware::from_fn_with_state(demo, origin::guard))
        .with_state(api)
}

/// Every path; `openapi.json` describes each of them.
pub(super) fn paths() -> Vec<(&'static str, MethodRouter<Arc<Api>>)> {
    vec![
        ("/", get(dashboard::page)),
        ("/dashboard.js", get(dashboard::script)),
        ("/dashboard.css", get(dashboard::style)),
        ("/icon.svg", get(dashboard::icon)),
        ("/dashboard.json", get(dashboard::facts)),
        ("/send", post(send::send)),
        ("/logout/{id}", post(send::logout)),
        // `add` and `remove` are ids too, whose subscriptions may be asked for.
        ("/subscriptions/add", post(subscriptions::add).get(lookup::subscriptions)),
        ("/subscriptions/remove", post(subscriptions::remove).get(lookup::subscriptions)),
        ("/subscribers/{id}", get(lookup::subscribers)),
        ("/subscriptions/{id}", get(lookup::subscriptions)),
        ("/connections/{id}", get(lookup::connections)),
        ("/stats", get(stats::stats)),
        ("/metrics", get(metrics::metrics)),
        ("/healthz", get(stats::healthz)),
        ("/readyz", get(stats::readyz)),
        ("/tune.json", get(tune::tune)),
        ("/openapi.json", get(openapi::openapi)),
    ]
}

/// The id that a path ends with, decoded and checked.
pub(super) struct PathId(pub(super) OwnedId);

impl<S: Sync> FromRequestParts<S> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<PathId, Problem> {
        let path = parts.uri.path();
        let last = path.rsplit_once('/').map_or(path, |(_, last)| last);
        let text = percent_decode_str(last).decode_utf8().map_err(|_| not_utf8())?;
        Ok(PathId(IdText::parse(&text)?.into()))
    }
}

fn not_utf8() -> Problem {
    Problem::bad_request("The id in the path is not UTF-8. Percent-encode the bytes of its UTF-8.")
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::bad_request(format!("{}.", rejection.body_text()))
    }
}
