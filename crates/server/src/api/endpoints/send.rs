//! `POST /send`: one event, or as many as a stream holds.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use dispatch::barrier::WritePermit;
use dispatch::idempotency::{IdempotencyKey, KeyHolder};
use dispatch::outcome::Delivered;
use dispatch::traces::{Marks, SendTrace};
use httpd::body::{BodyKind, read_whole};
use httpd::object::Object;
use httpd::problem::ApiProblem;

use super::event::{Posted, push_answer};
use super::event_body::EventBody;
use super::event_once::Known;
use super::send_stream::SendStream;
use crate::api::access::Permission;
use crate::api::state::Api;

/// The largest body with one event.
const EVENT_BODY_BYTES_MAX: usize = 1 << 20;

/// Sends one event, or as many as a stream holds.
pub(crate) async fn send(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let (head, body) = request.into_parts();
    let mut trace = api.traces.as_ref().and_then(|traces| traces.begin(&head.headers));
    let answer = answer(&api, head, body, &mut trace).await;
    if let (Err(problem), Some(trace)) = (&answer, trace) {
        trace.end_one(Err(problem.status()));
    }
    answer
}

/// The answer. With a good one goes `trace`, if there is one.
async fn answer(
    api: &Arc<Api>,
    head: Parts,
    body: Body,
    trace: &mut Option<SendTrace>,
) -> Result<Response, ApiProblem> {
    let permission = Permission::of(&head.extensions)?;
    match BodyKind::of(&head.headers)? {
        BodyKind::Json => {
            let bytes = read_whole(body, EVENT_BODY_BYTES_MAX, &api.idle_limit).await?;
            let permit = match api.sender.barrier.enter().await {
                Ok(permit) => permit,
                Err(refused) => return refused.answer(head, Body::from(bytes)).await,
            };
            let marks = trace.as_ref().map(SendTrace::marks);
            let key = IdempotencyKey::of(&head.headers)?;
            let delivered = send_one(api, permit, &permission, &bytes, key, marks).await?;
            if let Some(trace) = trace.take() {
                trace.end_one(Ok(&delivered));
            }
            let mut text = Vec::with_capacity(64);
            push_answer(&mut text, &delivered);
            text.push(b'\n');
            Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
        }
        BodyKind::Ndjson => {
            if IdempotencyKey::of(&head.headers)?.is_some() {
                return Err(ApiProblem::key_of_stream());
            }
            let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
            let trace = trace.take().map(SendTrace::stream);
            let stream = SendStream::new(Arc::clone(api), head, permission, body, trace);
            Ok((content_type, stream.into_body()).into_response())
        }
    }
}

async fn send_one(
    api: &Arc<Api>,
    permit: WritePermit<'_>,
    permission: &Permission,
    bytes: &[u8],
    key: Option<IdempotencyKey<'_>>,
    marks: Option<&Arc<Marks>>,
) -> Result<Delivered, ApiProblem> {
    let Object(mut body): Object<EventBody<'_>> =
        serde_json::from_slice(bytes).map_err(|error| ApiProblem::bad_json(&error))?;
    api.access.check_about(permission, body.about.iter())?;
    let member = body.key.take().map(String::from).map(IdempotencyKey::new).transpose()?;
    let key = match (key, member) {
        (Some(field), Some(member)) if field != member => return Err(ApiProblem::two_keys()),
        (field, member) => field.or(member),
    };
    if let Some(key) = key {
        let known = Known::of(KeyHolder::Application(permission.key_id()), &key, &body);
        let once = api.post_once(&permit, known, body.outgoing()?, marks).await?;
        drop(permit);
        return once.answer().await;
    }
    let Posted { delivery, accepted } = api.post(&permit, body.outgoing()?, None, marks).await?;
    drop(permit);
    let delivered = delivery.answer().await?;
    api.durations.record(accepted, Instant::now());
    Ok(delivered)
}
