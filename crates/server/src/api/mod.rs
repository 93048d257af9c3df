//! The API: the private port, through which applications send events and keep the graph.
//!
//! JSON over HTTP/1.1 and HTTP/2, described by `endpoints/openapi.json`. It holds no state of its
//! own but counts, sessions of the dashboard and idempotency keys of late sends: everything else
//! is asked of the [router](engine::Router) and of the [graph](graph::Graph). Who may call it is
//! decided in [`access`]: with keys, who brings one; without any, everybody on this machine.
//!
//! Whatever happens here, connected users keep their streams: these handlers run on the control
//! plane's threads, never on a worker's.

mod access;
mod append_at_once;
mod at_once;
mod dashboard;
mod dashboards;
mod endpoints;
mod lane_answers;
mod mercure;
mod mercure_subscriptions;
mod monitoring;
mod past;
mod public;
mod public_url;
mod pusher;
mod readings;
mod router;
mod session;
mod state;
mod stream_requests;
mod streams;
mod upgraded;

pub(crate) use self::mercure::KnownPublishers;
pub(crate) use append_at_once::AppendHead;
pub(crate) use at_once::{AnswerAtOnce, AtOnce, RequestAtOnce};
pub(crate) use dashboard::live;
pub(crate) use endpoints::event::push_answer;
pub(crate) use endpoints::events::query_of;
pub use endpoints::graph::stats_json as graph_stats_json;
pub(crate) use past::{ApiPast, HubRest};
pub(crate) use public::routes as public_routes;
pub use public_url::PublicUrl;
pub(crate) use router::routes;
pub(crate) use state::{Api, ApiParts};
pub use streams::StreamsConfig;
pub(crate) use streams::{AppendTexts, PostedAppend, SHORT_BYTES_MAX, Streams};
pub(crate) use upgraded::Figures;

/// The API of `parts`. It refuses new work once their `stop` is cancelled.
pub(crate) fn open(parts: ApiParts) -> anyhow::Result<Api> {
    Api::new(parts, router::needs())
}
