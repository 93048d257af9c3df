//! Which path leads to which handler, and what is told to requests that lead nowhere.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use proto::request::Hosts;

use super::dashboard;
use super::endpoints::{health, logout, lookup, openapi, send, subscriptions, tune};
use super::monitoring::{metrics, stats};
use super::state::Api;
use crate::http::host;
use crate::http::origin::{self, DemoPort};
use crate::http::problem::ApiProblem;

/// The whole API, which is called by `hosts`; a demo page at the port `demo` may use a small part
/// of it.
pub(crate) fn routes(api: Arc<Api>, hosts: Hosts, demo: DemoPort) -> Router {
    let mut router = Router::new();
    for (path, methods) in paths() {
        router = router.route(path, methods);
    }
    router
        .fallback(async || ApiProblem::not_found())
        .method_not_allowed_fallback(async || ApiProblem::method_not_allowed())
        .layer(axum::middleware::from_fn_with_state(demo, origin::guard))
        .layer(axum::middleware::from_fn_with_state(Arc::new(hosts), host::guard))
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
        ("/logout/{id}", post(logout::logout)),
        // `add` and `remove` are ids too, whose subscriptions may be asked for.
        ("/subscriptions/add", post(subscriptions::add).get(lookup::subscriptions)),
        ("/subscriptions/remove", post(subscriptions::remove).get(lookup::subscriptions)),
        ("/subscribers/{id}", get(lookup::subscribers)),
        ("/subscriptions/{id}", get(lookup::subscriptions)),
        ("/connections/{id}", get(lookup::connections)),
        ("/stats", get(stats::stats)),
        ("/metrics", get(metrics::metrics)),
        ("/healthz", get(health::healthz)),
        ("/readyz", get(health::readyz)),
        ("/tune.json", get(tune::tune)),
        ("/openapi.json", get(openapi::openapi)),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn document_describes_every_path_and_no_other() {
        let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
        let described = document["paths"].as_object().unwrap().keys().map(String::as_str);
        let served = paths().into_iter().map(|(path, _)| path);
        assert_eq!(described.collect::<BTreeSet<_>>(), served.collect());
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
