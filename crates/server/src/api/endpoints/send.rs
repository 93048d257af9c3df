//! `POST /send`: one event, or as many as a stream holds.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::event::{EventBody, Posted, push_answer};
use super::send_stream::SendStream;
use crate::api::access::Grant;
use crate::api::idempotency::IdempotencyKey;
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
    let (head, body) = request.into_parts();
    let key = IdempotencyKey::of(&head.headers)?;
    let grant = Grant::of(&head.extensions)?;
    match BodyKind::of(&head.headers)? {
        BodyKind::Json => send_one(&api, &grant, body, key).await,
        BodyKind::Ndjson if key.is_some() => Err(ApiProblem::key_of_stream()),
        BodyKind::Ndjson => {
            let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
            Ok((content_type, SendStream::new(api, grant, body).into_body()).into_response())
        }
    }
}

async fn send_one(
    api: &Arc<Api>,
    grant: &Grant,
    body: Body,
    key: Option<IdempotencyKey<'_>>,
) -> Result<Response, ApiProblem> {
    let bytes = read_whole(body, EVENT_BODY_BYTES_MAX, &api.idle_limit).await?;
    let Object(mut body): Object<EventBody<'_>> =
        serde_json::from_slice(&bytes).map_err(|error| ApiProblem::bad_json(&error))?;
    api.access.check_about(grant, &body.about.0)?;
    let member = body.key.take().map(String::from).map(IdempotencyKey::new).transpose()?;
    let key = match (key, member) {
        (Some(field), Some(member)) if field != member => return Err(ApiProblem::two_keys()),
        (field, member) => field.or(member),
    };
    let mut text = Vec::with_capacity(64);
    if let Some(key) = key {
        let answer = api.post_once(grant, &body, &key).await?.answer().await?;
        push_answer(&mut text, &answer);
    } else {
        let Posted { delivery, accepted } = api.post(&body).await?;
        let delivered = delivery.answer().await?;
        api.durations.record(accepted, Instant::now());
        push_answer(&mut text, &delivered);
    }
    text.push(b'\n');
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
