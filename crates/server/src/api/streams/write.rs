//! Creating, appending, closing and deleting.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use httpd::body::{Pieces, read_bytes};
use httpd::problem::ApiProblem;
use streams::{
    Create, Created, Fork, JsonFault, Lifetime, Refusal, Store, Teller, is_json, messages,
};

use super::answers::{appended_answer, nothing_to_append, push_head, value};
use super::asked::{AskedAppend, WriteFields, Written};
use super::fork::ForkFields;
use super::long::{self, is_long};
use super::{Call, fields};

/// The longest body of one request.
pub(in crate::api) const BODY_BYTES_MAX: usize = 8 << 20;

/// The type of a stream that is created without one.
const TYPE_DEFAULT: &str = "application/octet-stream";

/// `PUT`.
pub(super) async fn create(call: Call, body: Body) -> Result<Response, ApiProblem> {
    let headers = &call.head.headers;
    let fork = ForkFields::of(headers)?;
    let (lifetime, closed) = (fields::lifetime(headers)?, fields::closes(headers));
    let content_type = fields::text(headers, "content-type")?.filter(|text| !text.is_empty());
    let content_type = content_type.map(str::to_owned);
    let bytes = read(&call, body).await?;
    let (path, data) = (call.path.clone(), bytes.clone());
    let work = move |store: &Store, teller: Option<&dyn Teller>| match fork {
        Some(fork) => {
            let lifetime = Some(lifetime).filter(|lifetime| *lifetime != Lifetime::Unbounded);
            let wanted = (content_type.as_deref(), lifetime, closed);
            fork_in(store, (&path, &fork), wanted, &data, teller)
        }
        None => {
            let content_type = content_type.as_deref().unwrap_or(TYPE_DEFAULT);
            create_in(store, &path, (content_type, lifetime, closed), &data, teller)
        }
    };
    match call.streams.change(&call.path, work).await {
        Ok(Written::Done(created)) => Ok(created_answer(&call, &created)),
        Ok(Written::NoJson(fault)) => Err(no_json(fault)),
        Err(undone) => call.undone(undone, bytes).await,
    }
}

fn create_in(
    store: &Store,
    path: &str,
    (content_type, lifetime, closed): (&str, Lifetime, bool),
    body: &[u8],
    teller: Option<&dyn Teller>,
) -> Result<Written<Created>, Refusal> {
    let data = match data_of(content_type, body) {
        Ok(data) => data,
        Err(fault) => return Ok(Written::NoJson(fault)),
    };
    let create = Create { content_type, lifetime, closed, data: &data };
    store.create(path, &create, teller).map(Written::Done)
}

/// Makes a fork, of the source's type unless the request says one.
fn fork_in(
    store: &Store,
    (path, asked): (&str, &ForkFields),
    (content_type, lifetime, closed): (Option<&str>, Option<Lifetime>, bool),
    body: &[u8],
    teller: Option<&dyn Teller>,
) -> Result<Written<Created>, Refusal> {
    let ForkFields { source, at, sub_offset } = asked;
    let inherited = match content_type {
        Some(_) => None,
        None => {
            // A fork that exists may have outlived its source.
            let head = store.head(path).or_else(|_| store.head(source));
            Some(head.map_err(Refusal::of_path)?.content_type)
        }
    };
    let content_type = content_type.or(inherited.as_deref()).unwrap_or(TYPE_DEFAULT);
    let data = match data_of(content_type, body) {
        Ok(data) => data,
        Err(fault) => return Ok(Written::NoJson(fault)),
    };
    let (at, sub_offset) = (*at, *sub_offset);
    let fork = Fork { source, at, sub_offset, content_type, lifetime, closed, data: &data };
    store.fork(path, &fork, teller).map(Written::Done)
}

/// What is stored of the body with which a stream of this type is created.
pub(super) fn data_of<'b>(content_type: &str, body: &'b [u8]) -> Result<Cow<'b, [u8]>, JsonFault> {
    if !is_json(content_type) || body.is_empty() {
        return Ok(body.into());
    }
    match messages(body) {
        // An empty stream.
        Err(JsonFault::Empty) => Ok(Cow::Borrowed(&[])),
        data => data.map(Cow::Owned),
    }
}

fn created_answer(call: &Call, created: &Created) -> Response {
    let status = if created.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = status.into_response();
    let answer = response.headers_mut();
    push_head(answer, &created.head);
    if created.is_new {
        answer.insert(header::LOCATION, location(call));
    }
    response
}

/// The address of the stream as it was asked for.
fn location(call: &Call) -> HeaderValue {
    let path = call.head.uri.path();
    let host = call.head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or(call.head.uri.authority().map(|authority| authority.as_str()));
    let scheme = call.head.uri.scheme_str().unwrap_or("http");
    let whole = host.map(|host| format!("{scheme}://{host}{path}"));
    let whole = whole.and_then(|whole| HeaderValue::try_from(whole).ok());
    whole.unwrap_or_else(|| value(path))
}

/// `POST`.
pub(super) async fn append(call: Call, body: Body) -> Result<Response, ApiProblem> {
    let asked = WriteFields::of(&call.head.headers)?;
    if is_long(&call, &asked, &body) {
        return long::append(call, asked, body).await;
    }
    let bytes = read(&call, body).await?;
    if bytes.is_empty() && !asked.closes {
        return Err(nothing_to_append());
    }
    if !bytes.is_empty() && asked.content_type.is_none() {
        let detail = "A body needs a Content-Type, the one of its stream.";
        return Err(ApiProblem::bad_request(detail));
    }
    let asked = AskedAppend { fields: asked, body: bytes.clone(), behind: None };
    let tells = asked.tells();
    match call.streams.append(&call.path, asked).await {
        Ok(Written::Done(appended)) => Ok(appended_answer(&appended, tells)),
        Ok(Written::NoJson(fault)) => Err(no_json(fault)),
        Err(undone) => call.undone(undone, bytes).await,
    }
}

/// `DELETE`.
pub(super) async fn delete(call: Call) -> Result<Response, ApiProblem> {
    let path = call.path.clone();
    let work = move |store: &Store, teller: Option<&dyn Teller>| store.delete(&path, teller);
    match call.streams.change(&call.path, work).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(undone) => call.undone(undone, Bytes::new()).await,
    }
}

async fn read(call: &Call, body: Body) -> Result<Bytes, ApiProblem> {
    let mut room = call.memory().bodies.room(&call.holders);
    let pieces = Pieces::of_whole(body, &call.idle_limit);
    let bytes = read_bytes(pieces, call.body_bytes_max, |len| room.grow(len)).await?;
    Ok(room.hold(bytes))
}

fn no_json(fault: JsonFault) -> ApiProblem {
    ApiProblem::bad_request(match fault {
        JsonFault::Invalid => "The body is not valid JSON, which this stream is of.",
        JsonFault::Empty => "An empty array appends nothing. Send a message, or an array of some.",
    })
}
