//! `GET /healthz` and `GET /readyz`, which probes ask.

use std::sync::Arc;

use axum::extract::State;
use httpd::json::Json;
use httpd::problem::ApiProblem;
use hub::Id;
use proto::ProblemKind;
use serde::Serialize;

use crate::api::state::Api;

/// What a probe is told when all is well.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    status: &'static str,
}

/// The process is alive.
pub(crate) async fn healthz() -> Json<Status> {
    Json(Status { status: "alive" })
}

/// The server takes work: clients can connect, it is not stopping, and its store can be read and
/// changed.
pub(crate) async fn readyz(State(api): State<Arc<Api>>) -> Result<Json<Status>, ApiProblem> {
    if api.stop.is_cancelled() {
        return Err(ApiProblem::stopping());
    }
    if api.sender.cluster.as_ref().is_some_and(|cluster| cluster.is_ending()) {
        let detail = "This node is ending, and its clients go to the others of its cluster.";
        return Err(ApiProblem::of(ProblemKind::NodeLeaving, detail).retry_after(1));
    }
    // First, since a node waits for its cluster with its ports for streams closed.
    if let Some(obstacle) = api.sender.cluster.as_ref().and_then(|cluster| cluster.obstacle()) {
        return Err(ApiProblem::unavailable(format!(
            "This node waits for its cluster: {obstacle}."
        )));
    }
    if !api.engine.try_read().is_ok_and(|engine| engine.is_open()) {
        return Err(ApiProblem::starting_or_stopping());
    }
    api.graph.usable()?;
    let any = Id::integer(0).expect("0 is an integer below 2^63");
    api.graph.page_followers(any, None, 1)?;
    Ok(Json(Status { status: "ready" }))
}
