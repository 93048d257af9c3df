//! `POST /logout/{id}`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::api::state::Api;
use crate::http::path::PathId;
use crate::http::problem::ApiProblem;

/// Ends all connections of an id.
pub(crate) async fn logout(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
) -> Result<Response, ApiProblem> {
    let closed = api.finish(&mut api.router.logout(id.as_text())).await?.await;
    Ok(axum::Json(serde_json::json!({ "closed": closed })).into_response())
}
