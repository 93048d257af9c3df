//! `GET /openapi.json`: the description of the API, a document of its own beside this file.

use axum::http::header;
use axum::response::IntoResponse;

/// OpenAPI 3.1.
const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}
