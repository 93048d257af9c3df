//! `GET /.well-known/mercure/subscriptions…`: who is subscribed at the hub.
//!
//! The token must grant the path that is asked for, as it stands there. An answer has the id of the
//! hub's last update: whoever listens from there on hears each change of it.
//!
//! Cost: the list, of which texts are shared, and its text in pieces, which are made as its client
//! takes them. One that takes too long is cut off.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{LetIn, refused_by_hub};
use futures_util::stream;
use httpd::problem::ApiProblem;
use mercure::{
    Claims, Dialect, HubUrl, Refusal, SubscriptionPath, Topic, collection, etag,
    subscriptions_content_type,
};
use proto::Problem;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::yield_now;
use tokio::time::timeout;
use topics::{HeldKind, ListedSubscription, subscriber_number, subscriber_text};

use super::mercure::{NoToken, Purpose, claims_of};
use super::state::Api;
use crate::subscription_list::{Answer, AnswerBody, ListPart, ListRequest, NoAnswer, subscription};

/// All of them.
pub(super) const PATH: &str = "/.well-known/mercure/subscriptions";

/// Those of a selector, and one.
pub(super) const BELOW: &str = "/.well-known/mercure/subscriptions/{*path}";

/// Bytes of a piece of an answer, about.
const PIECE_BYTES: usize = 64 * 1024;

/// How long a client has to take a long answer: it holds a place, and memory.
const TAKE_MAX: Duration = Duration::from_secs(30);

/// Answers a request of a backend.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let peer = api.access.client(&request);
    api.access.check_pace(peer)?;
    let (head, _) = request.into_parts();
    let hub = api.hub.as_ref().ok_or_else(ApiProblem::not_found)?;
    match claims_of(hub, &head, None, Purpose::Subscribe).await {
        Ok((claims, url)) => api.subscriptions((&claims, &url), &head, false).await,
        Err(NoToken { problem, is_guess }) => {
            if is_guess {
                api.access.signed_wrong(peer).await;
            }
            Err(problem)
        }
    }
}

/// Answers a request of the public port, which a worker has let in.
pub(super) async fn list_publicly(
    api: Arc<Api>,
    let_in: &LetIn,
    request: Request,
) -> Result<Response, ApiProblem> {
    let (head, _) = request.into_parts();
    let hub = api.hub.as_ref().ok_or_else(ApiProblem::not_found)?;
    let claims = claims_of(hub, &head, Some(let_in), Purpose::Subscribe).await;
    let (claims, url) = claims.map_err(|no| no.problem)?;
    api.subscriptions((&claims, &url), &head, true).await
}

impl Api {
    async fn subscriptions(
        &self,
        (claims, url): (&Claims, &HubUrl),
        head: &Parts,
        is_public: bool,
    ) -> Result<Response, ApiProblem> {
        let list = self.subscription_list.as_ref().ok_or_else(ApiProblem::not_found)?;
        let dialect = claims.dialect();
        let path = SubscriptionPath::parse(dialect, head.uri.path());
        let path = path.ok_or_else(ApiProblem::not_found)?;
        if !claims.subscribe().opens(&Topic::new(&path.to_string())) {
            return Err(match dialect {
                Dialect::Old => not_granted(),
                Dialect::V1 => refused_by_hub(&Refusal::NoGrant, dialect, url).into(),
            });
        }
        let known = head.headers.get(header::IF_NONE_MATCH);
        let request = ListRequest {
            dialect,
            kinds: HeldKind::of(dialect, path.match_type()),
            part: part(&path).ok_or_else(ApiProblem::not_found)?,
            known: known.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            is_head: head.method == Method::HEAD,
            is_public,
        };
        let Answer { last_id, body } = list.answer(request).await.map_err(no_answer)?;
        let body = match body {
            AnswerBody::Known => None,
            AnswerBody::Omitted => Some(Body::empty()),
            AnswerBody::Short(listed) => Some(short(&path, &last_id, &listed)),
            AnswerBody::Long(listed, place) => Some(long(&path, &last_id, listed, place)),
        };
        let kind = [(header::CONTENT_TYPE, subscriptions_content_type(dialect))];
        let mut response = match body {
            None => StatusCode::NOT_MODIFIED.into_response(),
            Some(body) => (kind, body).into_response(),
        };
        let fields = response.headers_mut();
        // The id may be a publisher's, of any letters.
        let value = |text: String| HeaderValue::from_bytes(text.as_bytes()).ok();
        fields.extend(value(etag(dialect, &last_id)).map(|tag| (header::ETAG, tag)));
        if dialect == Dialect::V1 {
            fields.extend(value(link(url, &last_id)).map(|link| (header::LINK, link)));
        }
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        Ok(response)
    }
}

/// What a path asks for; `None` if it names a subscriber as none is called.
fn part(path: &SubscriptionPath<'_>) -> Option<ListPart> {
    Some(match (path.text(), path.subscriber()) {
        (None, _) => ListPart::All,
        (Some(selector), None) => ListPart::Of(selector.to_owned()),
        (Some(selector), Some(who)) => ListPart::One(selector.to_owned(), subscriber_number(who)?),
    })
}

/// The document, or a collection of a few.
fn short(path: &SubscriptionPath<'_>, last_id: &str, listed: &[ListedSubscription]) -> Body {
    if let (Some(_), Some(one)) = (path.subscriber(), listed.first()) {
        let name = subscriber_text(one.subscriber);
        return Body::from(subscription(one, path.dialect(), &name, true).answer(last_id));
    }
    let (mut text, foot) = collection(path, last_id);
    for (n, one) in listed.iter().enumerate() {
        push(&mut text, one, path.dialect(), n == 0);
    }
    text.push_str(foot);
    Body::from(text)
}

/// One more of a collection.
fn push(text: &mut String, one: &ListedSubscription, dialect: Dialect, is_first: bool) {
    text.push_str(if is_first { "" } else { "," });
    let name = subscriber_text(one.subscriber);
    text.push_str(&subscription(one, dialect, &name, true).listed());
}

/// A collection in pieces, of which one is made ahead. What is left of it, and its place, go once
/// [`TAKE_MAX`] is over.
fn long(
    path: &SubscriptionPath<'_>,
    last_id: &str,
    listed: Vec<ListedSubscription>,
    place: OwnedSemaphorePermit,
) -> Body {
    let (mut piece, foot) = collection(path, last_id);
    let dialect = path.dialect();
    let (sender, receiver) = mpsc::channel(1);
    let make = async move {
        let _place = place;
        for (n, one) in listed.into_iter().enumerate() {
            push(&mut piece, &one, dialect, n == 0);
            if piece.len() >= PIECE_BYTES {
                // It fails once the client has gone.
                let is_last = false;
                if sender.send((std::mem::take(&mut piece), is_last)).await.is_err() {
                    return;
                }
                // To wait for the client is not enough: sockets are looked at once all have waited.
                yield_now().await;
            }
        }
        piece.push_str(foot);
        let _ = sender.send((piece, true)).await;
    };
    tokio::spawn(timeout(TAKE_MAX, make));
    Body::from_stream(stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        Some(match receiver.recv().await {
            Some((piece, is_last)) => (Ok(Bytes::from(piece)), (!is_last).then_some(receiver)),
            // An end would look as if the list were whole.
            None => (Err(io::Error::from(io::ErrorKind::TimedOut)), None),
        })
    }))
}

/// Where in the hub's updates an answer of 1.0 stands. The id may be a publisher's.
fn link(hub: &HubUrl, last_id: &str) -> String {
    let quoted = last_id.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "<{}>; rel=\"mercure\"; last-event-id=\"{quoted}\"; type=\"mercure\"; \
         content-type=\"application/json\"",
        hub.as_str()
    )
}

fn not_granted() -> ApiProblem {
    let detail = "The token does not grant this path: its claim `subscribe` must have it.";
    Problem { challenge: Some("Bearer".into()), ..Problem::new(401, detail) }.into()
}

fn no_answer(no: NoAnswer) -> ApiProblem {
    ApiProblem::unavailable(match no {
        NoAnswer::Nothing => return ApiProblem::not_found(),
        NoAnswer::Busy => "Too many lists of subscriptions are being read. Retry in a moment.",
        NoAnswer::TooMany => {
            "There are more subscriptions than are listed. Listen to their updates instead."
        }
    })
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::Value;
    use tokio::sync::Semaphore;

    use super::*;

    /// A long answer, and the only place there is, which it has.
    fn answer(count: u128) -> (Body, Arc<Semaphore>) {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let of = |n: u128| ListedSubscription {
            kind: HeldKind::Plain,
            selector: n.to_string().into(),
            subscriber: n,
            payload: None,
        };
        let listed = (0..count).map(of).collect();
        let path = SubscriptionPath::all(Dialect::Old);
        (long(&path, "earliest", listed, place), places)
    }

    #[tokio::test]
    async fn long_answer_has_all_in_their_order() {
        for count in [0, 1, 10_000] {
            let (body, places) = answer(count);
            let text = to_bytes(body, usize::MAX).await.unwrap();
            let list: Value = serde_json::from_slice(&text).unwrap();
            let listed = list["subscriptions"].as_array().unwrap();
            let topics = listed.iter().map(|one| one["topic"].as_str().unwrap());
            assert!(topics.eq((0..count).map(|n| n.to_string())));
            drop(places.acquire().await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_answer_that_is_not_taken_is_cut_off_and_leaves_its_place() {
        let (body, places) = answer(10_000);
        assert!(places.try_acquire().is_err());
        drop(places.acquire().await.unwrap());
        assert!(to_bytes(body, usize::MAX).await.is_err(), "its end is no end of a list");
    }
}
