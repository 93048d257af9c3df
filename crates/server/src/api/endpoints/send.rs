//! `POST /send`: one event, or as many as a stream holds.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::event::{EventBody, Posted, push_answer};
use super::send_stream::SendStream;
use crate::api::state::Api;
use crate::http::body::{BodyKind, read_whole};
use crate::http::object::Object;
use crate::http::problem::ApiProblem;

/// The largest body with one event.
const EVENT_BODY_BYTES_MAX: usize = 1 << 20;

/// Sends one event, or as many as a stream holds.
pub(crate) async fn send(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let kind = BodyKind::of(request.headers())?;
    let body = request.into_body();
    match kind {
        BodyKind::Json => send_one(&api, body).await,
        BodyKind::Ndjson => {
            let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
            Ok((content_type, SendStream::new(api, body).into_body()).into_response())
        }
    }
}

async fn send_one(api: &Api, body: Body) -> Result<Response, ApiProblem> {
    let bytes = read_whole(body, EVENT_BODY_BYTES_MAX, &api.idle_limit).await?;
    let Object(body): Object<EventBody<'_>> =
        serde_json::from_slice(&bytes).map_err(|error| ApiProblem::bad_json(&error))?;
    let Posted { event, receipt, accepted } = api.post(&body).await?;
    let delivered = receipt.await;
    api.durations.record(accepted, Instant::now());
    let mut answer = Vec::with_capacity(64);
    push_answer(&mut answer, delivered, &event);
    Ok(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
}
