//! Which path leads to which handler, and what is told to requests that lead nowhere.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, any, get, post};
use httpd::host::{self, ApiHosts};
use httpd::origin::{self, DemoPort};
use httpd::problem::ApiProblem;

use super::access::{self, Need};
use super::dashboard;
use super::endpoints::{
    cluster, events, graph, health, logout, lookup, openapi, presence, send, subscriptions, tokens,
    tune,
};
use super::monitoring::{metrics, stats};
use super::pusher;
use super::session;
use super::state::Api;
use super::stream_requests;
use super::{mercure, mercure_subscriptions};

/// The whole API, which is called by `hosts`; a demo page at the port `demo` may use a small part
/// of it.
pub(crate) fn routes(api: Arc<Api>, hosts: ApiHosts, demo: DemoPort) -> Router {
    let mut router = Router::new();
    for (path, _, methods) in paths() {
        router = router.route(path, methods);
    }
    router
        .fallback(async || ApiProblem::not_found())
        .method_not_allowed_fallback(async || ApiProblem::method_not_allowed())
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&api.access), access::guard))
        .layer(axum::middleware::from_fn_with_state(demo, origin::guard))
        .layer(axum::middleware::from_fn_with_state(hosts, host::guard))
        .with_state(api)
}

/// Every path with what it needs; `openapi.json` describes each of them.
pub(super) fn paths() -> Vec<(&'static str, Need, MethodRouter<Arc<Api>>)> {
    use auth::keys::Scope::{Admin, Graph, Read, Send};
    let scope = Need::Scope;
    let own = vec![
        ("/", scope(Read), get(dashboard::page)),
        ("/dashboard.js", scope(Read), get(dashboard::script)),
        ("/dashboard.css", scope(Read), get(dashboard::style)),
        ("/icon.svg", scope(Read), get(dashboard::icon)),
        ("/dashboard.json", scope(Read), get(dashboard::facts)),
        ("/session", Need::Nothing, get(session::page).post(session::begin)),
        ("/session/end", Need::Nothing, post(session::end)),
        ("/send", scope(Send), post(send::send)),
        ("/logout/{id}", scope(Admin), post(logout::logout)),
        ("/tokens/revoke", scope(Admin), post(tokens::revoke)),
        // `add` and `remove` are ids too, whose subscriptions may be asked for.
        ("/subscriptions/add", scope(Graph), subscriptions_of(post(subscriptions::add))),
        ("/subscriptions/remove", scope(Graph), subscriptions_of(post(subscriptions::remove))),
        ("/subscribers/{id}", scope(Graph), get(lookup::subscribers)),
        ("/subscriptions/{id}", scope(Graph), get(lookup::subscriptions)),
        ("/graph/backup", scope(Graph), get(graph::backup)),
        ("/graph/export", scope(Graph), get(graph::export)),
        ("/graph/stats", scope(Graph), get(graph::stats)),
        ("/connections/{id}", scope(Read), get(lookup::connections)),
        ("/members/{id}", scope(Read), get(lookup::members)),
        ("/events/{id}", scope(Read), get(events::events)),
        ("/presence", scope(Read), get(presence::presence)),
        ("/cluster", scope(Read), get(cluster::cluster)),
        ("/stats", scope(Read), get(stats::stats)),
        ("/metrics", scope(Read), get(metrics::metrics)),
        ("/healthz", Need::Nothing, get(health::healthz)),
        ("/readyz", Need::Nothing, get(health::readyz)),
        ("/tune.json", scope(Read), get(tune::tune)),
        (stream_requests::PATH, Need::ByMethod, any(stream_requests::serve)),
        (mercure::PATH, Need::Token, post(mercure::publish)),
        (mercure_subscriptions::PATH, Need::Token, get(mercure_subscriptions::list)),
        (mercure_subscriptions::BELOW, Need::Token, get(mercure_subscriptions::list)),
        (mercure::METADATA_PATH, Need::Nothing, get(mercure::metadata)),
        ("/openapi.json", Need::Key, get(openapi::openapi)),
    ];
    own.into_iter().chain(pusher::paths()).collect()
}

fn subscriptions_of(methods: MethodRouter<Arc<Api>>) -> MethodRouter<Arc<Api>> {
    methods.get(lookup::subscriptions)
}

/// What each path needs.
pub(super) fn needs() -> HashMap<&'static str, Need> {
    paths().into_iter().map(|(path, need, _)| (path, need)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use auth::keys::Scope::{Read, Send};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn document_describes_every_path_and_no_other() {
        let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
        let described = document["paths"].as_object().unwrap().keys().map(String::as_str);
        // A parameter of more than one segment is named as any other there.
        let plain = |path: &str| path.replace("{*", "{");
        let served = paths().into_iter().map(|(path, ..)| plain(path));
        assert_eq!(described.map(str::to_owned).collect::<BTreeSet<_>>(), served.collect());
        for (path, need, _) in paths() {
            let operations = document["paths"][plain(path)].as_object().unwrap();
            for (method, operation) in operations {
                let described = operation.get("security").unwrap_or(&document["security"]);
                let expected = match need {
                    Need::Nothing | Need::Signature | Need::Token => json!([]),
                    Need::Key => json!([{ "key": [] }]),
                    Need::Scope(scope) => json!([{ "key": [scope.as_str()] }]),
                    Need::ByMethod if method == "get" || method == "head" => {
                        json!([{ "key": [Read.as_str()] }])
                    }
                    Need::ByMethod => json!([{ "key": [Send.as_str()] }]),
                };
                assert_eq!(described, &expected, "{method} {path}");
            }
        }
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
