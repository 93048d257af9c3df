//! Creating, appending, closing and deleting.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use httpd::body::{Pieces, read_bytes};
use httpd::problem::ApiProblem;
use streams::{
    Append, Appended, Create, Created, Head, JsonFault, Lifetime, Producer, Refusal, Store, Teller,
    is_json, messages,
};

use super::answers::{CLOSED, PRODUCER_EPOCH, PRODUCER_SEQ, TRUE, push_head, push_tail, value};
use super::{Call, fields};

/// The longest body of one request.
pub(in crate::api) const BODY_BYTES_MAX: usize = 8 << 20;

/// The type of a stream that is created without one.
const TYPE_DEFAULT: &str = "application/octet-stream";

/// What became of a write.
enum Written<T> {
    Done(T),
    /// It is JSON, and none.
    NoJson(JsonFault),
}

/// `PUT`.
pub(super) async fn create(call: Call, body: Body) -> Result<Response, ApiProblem> {
    let headers = &call.head.headers;
    if headers.contains_key("stream-forked-from") {
        let detail = "This server has no forks. Create the stream without Stream-Forked-From.";
        return Err(ApiProblem::new(StatusCode::NOT_IMPLEMENTED, detail));
    }
    let (lifetime, closed) = (fields::lifetime(headers)?, fields::closes(headers));
    let content_type = fields::text(headers, "content-type")?.filter(|text| !text.is_empty());
    let content_type = content_type.unwrap_or(TYPE_DEFAULT).to_owned();
    let bytes = read(&call, body).await?;
    let (path, data) = (call.path.clone(), bytes.clone());
    let work = move |store: &Store, teller: Option<&dyn Teller>| {
        create_in(store, &path, (&content_type, lifetime, closed), &data, teller)
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
    let json = match is_json(content_type) && !body.is_empty() {
        true => match messages(body) {
            Ok(data) => Some(data),
            // An empty stream.
            Err(JsonFault::Empty) => Some(Vec::new()),
            Err(fault) => return Ok(Written::NoJson(fault)),
        },
        false => None,
    };
    let data = json.as_deref().unwrap_or(body);
    store.create(path, &Create { content_type, lifetime, closed, data }, teller).map(Written::Done)
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

/// What a `POST` asks for, without its body.
struct WriteFields {
    closes: bool,
    producer: Option<(String, u64, u64)>,
    sequence: Option<String>,
    content_type: Option<String>,
}

impl WriteFields {
    fn of(headers: &HeaderMap) -> Result<WriteFields, ApiProblem> {
        let owned =
            |producer: Producer<'_>| (producer.id.to_owned(), producer.epoch, producer.sequence);
        let text = |name| Ok::<_, ApiProblem>(fields::text(headers, name)?.map(str::to_owned));
        Ok(WriteFields {
            closes: fields::closes(headers),
            producer: fields::producer(headers)?.map(owned),
            sequence: text("stream-seq")?,
            content_type: text("content-type")?,
        })
    }

    fn append<'b>(&'b self, data: &'b [u8]) -> Append<'b> {
        let producer = |(id, epoch, sequence): &'b (String, u64, u64)| Producer {
            id,
            epoch: *epoch,
            sequence: *sequence,
        };
        Append {
            closes: self.closes,
            producer: self.producer.as_ref().map(producer),
            sequence: self.sequence.as_deref(),
            data,
            content_type: self.content_type.as_deref(),
        }
    }
}

/// `POST`.
pub(super) async fn append(call: Call, body: Body) -> Result<Response, ApiProblem> {
    let asked = WriteFields::of(&call.head.headers)?;
    let bytes = read(&call, body).await?;
    if bytes.is_empty() && !asked.closes {
        let detail = "There is nothing to append. Send a body, or Stream-Closed: true to close.";
        return Err(ApiProblem::bad_request(detail));
    }
    if !bytes.is_empty() && asked.content_type.is_none() {
        let detail = "A body needs a Content-Type, the one of its stream.";
        return Err(ApiProblem::bad_request(detail));
    }
    let (path, data) = (call.path.clone(), bytes.clone());
    // One that only closes is answered as any other close.
    let tells = asked.producer.is_some() && !bytes.is_empty();
    let work = move |store: &Store, teller: Option<&dyn Teller>| {
        append_in(store, &path, &asked, &data, teller)
    };
    match call.streams.change(&call.path, work).await {
        Ok(Written::Done(appended)) => Ok(appended_answer(&appended, tells)),
        Ok(Written::NoJson(fault)) => Err(no_json(fault)),
        Err(undone) => call.undone(undone, bytes).await,
    }
}

fn append_in(
    store: &Store,
    path: &str,
    asked: &WriteFields,
    body: &[u8],
    teller: Option<&dyn Teller>,
) -> Result<Written<Appended>, Refusal> {
    let Head { content_type, closed, next, .. } = store.head(path)?;
    let asks_for_json = asked.content_type.as_deref().is_some_and(is_json);
    let json = match asks_for_json && !body.is_empty() {
        true => match messages(body) {
            Ok(data) => Some(data),
            // Told where the stream takes JSON at all; nothing but messages is ever stored as JSON.
            Err(_) if closed => return Err(Refusal::Closed(next)),
            Err(_) if !is_json(&content_type) => {
                return Err(Refusal::OtherType(content_type.as_ref().into()));
            }
            Err(fault) => return Ok(Written::NoJson(fault)),
        },
        false => None,
    };
    let data = json.as_deref().unwrap_or(body);
    store.append(path, &asked.append(data), teller).map(Written::Done)
}

/// The answer to what was taken; who appends as a producer is told whether it was by this request.
fn appended_answer(appended: &Appended, tells: bool) -> Response {
    let is_new = tells && !appended.repeated;
    let status = if is_new { StatusCode::OK } else { StatusCode::NO_CONTENT };
    let mut response = status.into_response();
    let answer = response.headers_mut();
    push_tail(answer, appended.next, false);
    if appended.closed {
        answer.insert(CLOSED, TRUE);
    }
    if let Some((epoch, sequence)) = appended.producer {
        answer.insert(PRODUCER_EPOCH, value(epoch));
        answer.insert(PRODUCER_SEQ, value(sequence));
    }
    response
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
