//! `GET /`: a plain page with the server's figures, until the dashboard takes its place.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;

use super::Api;
use super::problem::Problem;

pub(super) async fn page(State(api): State<Arc<Api>>) -> Result<Html<String>, Problem> {
    let whole = api.snapshot()?.whole();
    Ok(Html(format!("<!doctype html>{}", whole.connections_open)))
}
