//! `GET /.well-known/mercure/subscriptions…`: who is subscribed at the hub.
//!
//! The token must grant the path that is asked for, as it stands there. An answer has the id of the
//! hub's last update: whoever listens from there on hears each change of it.
//!
//! Cost: the list, of which texts are shared, and its text in pieces.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::LetIn;
use futures_util::stream;
use httpd::problem::ApiProblem;
use mercure::{
    Claims, Dialect, SubscriptionPath, Topic, collection, etag, is_not_modified,
    subscriptions_content_type,
};
use proto::Problem;
use topics::subscriber_text;

use super::mercure::{NoToken, Purpose, claims_of};
use super::state::Api;
use crate::subscription_list::{Answer, NoAnswer, subscription};

/// All of them.
pub(super) const PATH: &str = "/.well-known/mercure/subscriptions";

/// Those of a selector, and one.
pub(super) const BELOW: &str = "/.well-known/mercure/subscriptions/{*path}";

/// Bytes of a piece of an answer, about.
const PIECE_BYTES: usize = 64 * 1024;

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
        Ok((claims, _)) => api.subscriptions(&claims, head.uri.path(), &head.headers).await,
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
    let (claims, _) = claims.map_err(|no| no.problem)?;
    api.subscriptions(&claims, head.uri.path(), &head.headers).await
}

impl Api {
    async fn subscriptions(
        &self,
        claims: &Claims,
        path: &str,
        fields: &HeaderMap,
    ) -> Result<Response, ApiProblem> {
        let dialect = claims.dialect();
        let list = self.subscription_list.as_ref().ok_or_else(ApiProblem::not_found)?;
        if dialect == Dialect::V1 {
            // Its documents have another form, of which there is none yet.
            return Err(ApiProblem::not_found());
        }
        let path = SubscriptionPath::parse(dialect, path).ok_or_else(ApiProblem::not_found)?;
        if !claims.subscribe().opens(&Topic::new(&path.to_string())) {
            return Err(not_granted());
        }
        let answer = list.answer(&path).await.map_err(no_answer)?;
        if path.subscriber().is_some() && answer.listed.is_empty() {
            return Err(ApiProblem::not_found());
        }
        let tag = etag(dialect, &answer.last_id);
        let known = fields.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let is_known = known.is_some_and(|tag| is_not_modified(tag, dialect, &answer.last_id));
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => {
                let kind = [(header::CONTENT_TYPE, subscriptions_content_type(dialect))];
                (kind, body(&path, answer)).into_response()
            }
        };
        let fields = response.headers_mut();
        fields.extend(tag.parse().ok().map(|tag| (header::ETAG, tag)));
        fields.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("private, no-cache"));
        Ok(response)
    }
}

/// The document, or the collection in pieces.
fn body(path: &SubscriptionPath<'_>, answer: Answer) -> Body {
    let Answer { last_id, listed, place } = answer;
    if let (Some(_), Some(one)) = (path.subscriber(), listed.first()) {
        let name = subscriber_text(one.subscriber);
        return Body::from(subscription(one, &name, true).answer(&last_id));
    }
    let (head, foot) = collection(path, &last_id);
    let mut listed = listed.into_iter().peekable();
    let mut head = Some(head);
    let pieces = std::iter::from_fn(move || {
        // Until the last piece is taken.
        let _place = &place;
        let mut piece = head.take().or_else(|| listed.peek().map(|_| String::new()))?;
        while piece.len() < PIECE_BYTES
            && let Some(one) = listed.next()
        {
            let name = subscriber_text(one.subscriber);
            piece.push_str(&subscription(&one, &name, true).listed());
            piece.push_str(if listed.peek().is_some() { "," } else { "" });
        }
        if listed.peek().is_none() {
            piece.push_str(foot);
        }
        Some(Ok::<_, std::convert::Infallible>(Bytes::from(piece)))
    });
    Body::from_stream(stream::iter(pieces))
}

fn not_granted() -> ApiProblem {
    let detail = "The token does not grant this path: its claim `subscribe` must have it.";
    Problem { challenge: Some("Bearer".into()), ..Problem::new(401, detail) }.into()
}

fn no_answer(no: NoAnswer) -> ApiProblem {
    ApiProblem::unavailable(match no {
        NoAnswer::Busy => "Too many lists of subscriptions are being read. Retry in a moment.",
        NoAnswer::TooMany => {
            "There are more subscriptions than are listed. Listen to their updates instead."
        }
    })
}
