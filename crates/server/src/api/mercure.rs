//! `POST /.well-known/mercure`: publishes an update of the Mercure protocol.
//!
//! It needs no key of the API: its token says on which topics it may publish, and which dialect of
//! the protocol it speaks. On the API port, a client that shows a wrong one is slowed down by
//! address, as with wrong keys. On the public port it waits for a place to have it verified. The
//! answer is the update's id alone, and its head says how many connections have heard it.
//!
//! Cost: the library's way of a request, the token, and a send; of most requests of backends the
//! [way of a lane](crate::lane), which costs a third of that.

mod at_once;

use std::sync::Arc;
use std::time::Instant;

use auth::tokens::Checked;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use dispatch::barrier::WritePermit;
use dispatch::outcome::Delivered;
use dispatch::posting::Delivery;
use engine::{LetIn, refused_by_hub};
use httpd::body::read_whole;
use httpd::host::host;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;
use hub::{Draft, Grant, LeftOut, SUBJECTS_MAX, TokenRefusal};
use mercure::{
    Claims, Dialect, HubUrl, Presented, PresentedBy, Refusal, TokenFields, Topic, Update,
};
use proto::{Problem, is_form};
use tokio::task::spawn_blocking;
use topics::id_of_topic;

pub(crate) use self::at_once::KnownPublishers;
use super::pusher::AT_LEAST;
use super::state::Api;
use crate::mercure_hub::Hub;
use crate::updates;

/// Where it is.
pub(super) const PATH: &str = mercure::PATH;

/// Where its metadata are.
pub(super) use engine::METADATA_PATH;

/// How much longer a form may be than the text in it: each byte of that may take three.
const ESCAPED: usize = 3;

/// What a form may have beside its text: topics, an id, a type.
const AROUND_BYTES_MAX: usize = 256 * 1024;

/// Why an update cannot be about an id.
const OF_IDS: &str = "Topics that begin with encke: stand for ids, and updates have none of them. \
                      Send events about an id with POST /send.";

/// After how many seconds a token may be shown again that nobody could verify.
const BUSY_SECONDS: u32 = 1;

/// Says how many connections have heard an update.
pub(super) const DELIVERED: &str = "encke-delivered";

/// Answers a request of a backend, where the protocol is served.
pub(super) async fn publish(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let Some(hub) = api.hub.clone() else { return Err(ApiProblem::not_found()) };
    let peer = api.access.client(&request);
    api.access.check_pace(peer)?;
    let (head, body) = request.into_parts();
    let answer = match Publisher::of(&hub, &head, None).await {
        Ok(publisher) => api.accept(publisher, head, body, &api.idle_limit).await,
        Err(NoToken { problem, is_guess }) => {
            if is_guess {
                api.access.signed_wrong(peer).await;
            }
            Err(problem)
        }
    };
    counted(&hub, answer)
}

/// Counts what became of an update.
fn counted(hub: &Hub, answer: Result<Response, ApiProblem>) -> Result<Response, ApiProblem> {
    let status = match &answer {
        Ok(response) => response.status().as_u16(),
        Err(problem) => problem.status().as_u16(),
    };
    hub.count_publish(status);
    answer
}

/// Says what the hub takes (RFC 9728).
pub(super) async fn metadata(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let hub = api.hub.as_ref().ok_or_else(ApiProblem::not_found)?;
    let url = url(hub, request.uri(), request.headers())?;
    let json = hub.config().metadata_at(METADATA_PATH, &url).ok_or_else(ApiProblem::not_found)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// The address of the hub, as a client has called it.
fn url(hub: &Hub, uri: &Uri, headers: &HeaderMap) -> Result<HubUrl, ApiProblem> {
    Ok(hub.config().hub_of(Some(host(uri, headers)))?)
}

/// Answers a request of the public port, which a worker has let in.
pub(super) async fn publish_publicly(
    api: Arc<Api>,
    let_in: &LetIn,
    idle_limit: &IdleLimit,
    request: Request,
) -> Result<Response, ApiProblem> {
    let Some(hub) = api.hub.clone() else { return Err(ApiProblem::not_found()) };
    let (head, body) = request.into_parts();
    let answer = match Publisher::of(&hub, &head, Some(let_in)).await {
        Ok(publisher) => api.accept(publisher, head, body, idle_limit).await,
        Err(no) => Err(no.problem),
    };
    counted(&hub, answer)
}

/// Why a request has no token that counts.
pub(super) struct NoToken {
    pub(super) problem: ApiProblem,
    /// The token may be a try: who goes on like that is slowed down. One that has expired is none.
    pub(super) is_guess: bool,
}

/// What a token is shown for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To publish, which no page of others may do with a cookie.
    Publish,
    /// To read what subscribers may.
    Subscribe,
}

/// Whether a token that is refused so may be a try.
fn is_guess(refusal: TokenRefusal) -> bool {
    matches!(
        refusal,
        TokenRefusal::Malformed
            | TokenRefusal::Header
            | TokenRefusal::Algorithm
            | TokenRefusal::UnknownKey
            | TokenRefusal::Signature
    )
}

/// What the token of a request grants, and the address by which it has called the hub. One of the
/// public port was `let_in`: such a one may be of a page, and have its token in a cookie.
pub(super) async fn claims_of(
    hub: &Hub,
    head: &Parts,
    let_in: Option<&LetIn>,
    purpose: Purpose,
) -> Result<(Claims, HubUrl), NoToken> {
    let url = url(hub, &head.uri, &head.headers)
        .map_err(|problem| NoToken { problem, is_guess: false })?;
    let (token, dialect) = token(head, let_in, purpose).map_err(|(refusal, dialect)| NoToken {
        problem: refused_by_hub(&refusal, dialect, &url).into(),
        is_guess: false,
    })?;
    let no = |refusal: Refusal, is_guess| NoToken {
        problem: refused_by_hub(&refusal, dialect, &url).into(),
        is_guess,
    };
    let keys = match purpose {
        Purpose::Publish => hub.publish(),
        Purpose::Subscribe => hub.subscribe(),
    };
    let no_key = || no(Refusal::BadToken("this hub knows no key of such tokens".into()), false);
    let keys = keys.ok_or_else(no_key)?;
    let verified: Result<Arc<Grant>, _> = match keys.check_now(&token) {
        Checked::Granted(grant) => Ok(grant),
        Checked::Refused(refusal) => Err(refusal),
        Checked::Ask => {
            let place = hub.verifying(let_in.is_some()).acquire_owned().await;
            let keys = Arc::clone(keys);
            let verify = move || {
                // Until it is done, though its client may have gone.
                let _place = place;
                keys.verify(&token)
            };
            spawn_blocking(verify).await.unwrap_or(Err(TokenRefusal::Busy))
        }
    };
    let verified = verified.map_err(|refusal| match refusal {
        // As a node of a cluster that cannot know what is revoked.
        TokenRefusal::Busy => {
            NoToken { problem: Problem::tokens_busy(BUSY_SECONDS).into(), is_guess: false }
        }
        _ => no(Refusal::BadToken(refusal.to_string().into()), is_guess(refusal)),
    })?;
    let claims = hub.config().read_claims(verified.claims.as_deref(), &url);
    let claims = claims.map_err(|refusal| no(refusal, false))?;
    Ok((claims, url))
}

/// Who publishes.
struct Publisher {
    claims: Claims,
    /// The address of the hub, as it has called that.
    url: HubUrl,
    /// Whether it came to the public port.
    is_public: bool,
}

impl Publisher {
    /// Whoever has the token of a request, which was `let_in` if it came to the public port.
    async fn of(hub: &Hub, head: &Parts, let_in: Option<&LetIn>) -> Result<Publisher, NoToken> {
        let (claims, url) = claims_of(hub, head, let_in, Purpose::Publish).await?;
        Ok(Publisher { claims, url, is_public: let_in.is_some() })
    }

    /// What it is told where it is refused.
    fn refused(&self, refusal: &Refusal) -> ApiProblem {
        refused_by_hub(refusal, self.claims.dialect(), &self.url).into()
    }

    /// The update in the body of its request.
    fn read(&self, body: &[u8]) -> Result<Update, ApiProblem> {
        let update = Update::parse(body, self.claims.dialect(), &self.url);
        let update = update.map_err(|refusal| self.refused(&refusal))?;
        if update.topics.len() > SUBJECTS_MAX {
            let detail = format!("An update has at most {SUBJECTS_MAX} topics. Send several.");
            return Err(ApiProblem::bad_request(detail));
        }
        if update.topics.iter().any(|topic| id_of_topic(topic).is_some()) {
            return Err(ApiProblem::new(StatusCode::FORBIDDEN, OF_IDS));
        }
        Ok(update)
    }

    /// Whether each topic of the update is granted.
    fn may_publish(&self, update: &Update) -> bool {
        let topics: Vec<Topic<'_>> = update.topics.iter().map(|topic| Topic::new(topic)).collect();
        self.claims.publish().covers(&topics)
    }
}

/// The token of a request, and of which dialect it says it is; or why there is none, and in which
/// dialect that is told.
fn token(
    head: &Parts,
    let_in: Option<&LetIn>,
    purpose: Purpose,
) -> Result<(String, Dialect), (Refusal, Dialect)> {
    let authorization = values(&head.headers, &header::AUTHORIZATION);
    // Cookies are for pages, which publish on the public port.
    let cookie = let_in.map(|_| values(&head.headers, &header::COOKIE)).unwrap_or_default();
    let origin = head.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let fields =
        TokenFields { authorization: &authorization, cookie: &cookie, origin, referer: None };
    let presented = Presented::find(fields, head.uri.query().unwrap_or_default(), None);
    checked(presented, fields, let_in, purpose)
}

/// The token that was found, if it may stand where it stood.
fn checked(
    presented: Result<Option<Presented<'_>>, Refusal>,
    fields: TokenFields<'_>,
    let_in: Option<&LetIn>,
    purpose: Purpose,
) -> Result<(String, Dialect), (Refusal, Dialect)> {
    // Who has none yet is told where to get one, which only 1.0 has words for.
    let presented = presented.and_then(|presented| presented.ok_or(Refusal::NoToken));
    let presented = presented.map_err(|refusal| (refusal, Dialect::V1))?;
    let dialect = Dialect::of_unverified(&presented.token);
    presented.check(dialect).map_err(|refusal| (refusal, Dialect::V1))?;
    let origin = match purpose {
        Purpose::Publish => {
            presented.origin_of_publish(fields).map_err(|refusal| (refusal, dialect))?
        }
        // A page of another origin that is not listed cannot read the answer.
        Purpose::Subscribe => {
            let by_cookie = matches!(presented.by, PresentedBy::Cookie(_));
            fields.origin.filter(|_| by_cookie).map(str::to_owned)
        }
    };
    if let Some(origin) = origin {
        let known = let_in.and_then(|let_in| let_in.origin.as_ref());
        if !known.is_some_and(|(known, credentials)| *known == origin && *credentials) {
            return Err((Refusal::ForeignOrigin(origin), dialect));
        }
    }
    Ok((presented.token.into_owned(), dialect))
}

fn values<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Vec<&'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
}

/// The id of an update to which its publisher gave none.
pub(super) fn own_id(delivered: &Delivered) -> String {
    format!("#{}", String::from_utf8_lossy(&delivered.id))
}

impl Api {
    /// Publishes what `publisher` sends.
    async fn accept(
        &self,
        publisher: Publisher,
        head: Parts,
        body: Body,
        idle_limit: &IdleLimit,
    ) -> Result<Response, ApiProblem> {
        let dialect = publisher.claims.dialect();
        let kind = head.headers.get(header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| is_form(kind.as_bytes())) {
            return Err(publisher.refused(&Refusal::NotForm));
        }
        // Subscribers have tokens of the same key: what they send is not kept.
        if publisher.claims.publish().is_empty() {
            return Err(publisher.refused(&Refusal::NoGrant));
        }
        let most = ESCAPED * self.backlog_bytes_max + AROUND_BYTES_MAX;
        let bytes = read_whole(body, most, idle_limit).await?;
        let update = publisher.read(&bytes)?;
        if !publisher.may_publish(&update) {
            return Err(publisher.refused(&Refusal::NoGrant));
        }
        let permit = match self.sender.barrier.enter().await {
            Ok(permit) => permit,
            // The successor's API takes no cookies.
            Err(_) if publisher.is_public => return Err(ApiProblem::starting_or_stopping()),
            Err(moved) => return moved.answer(head, Body::from(bytes)).await,
        };
        let accepted = Instant::now();
        let delivery = self.publish(&permit, &update).await?;
        drop(permit);
        let delivered = delivery.answer().await?;
        self.durations.record(accepted, Instant::now());
        let id = update.id.unwrap_or_else(|| own_id(&delivered));
        let fields = [
            (header::CONTENT_TYPE, dialect.id_content_type().to_owned()),
            (header::HeaderName::from_static(DELIVERED), delivered.count.to_string()),
        ];
        let at_least = delivered.at_least.then_some([(AT_LEAST, "true")]);
        Ok((fields, at_least, id).into_response())
    }

    /// Hands an update to the mailboxes of all workers that have listeners of it.
    pub(crate) async fn publish(
        &self,
        permit: &WritePermit<'_>,
        update: &Update,
    ) -> Result<Delivery, ApiProblem> {
        let fits = |draft: &Draft| self.check_fits(draft);
        let delivery = updates::post(&self.sender, permit, update, LeftOut::NOBODY, fits).await?;
        self.count_event();
        Ok(delivery)
    }
}
