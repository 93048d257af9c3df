//! A request about a durable stream, or an update of the Mercure protocol, that came to the public
//! port and was let in there.
//!
//! It is served as one of the API is. What differs: pages of other origins may read the answer. A
//! request about a stream has no key but perhaps a token, whose grants were looked at. An append is
//! as long as an event of a client may be, and as often. The connection ends with the answer: the
//! next request on it would be another one, which nobody has let in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use engine::LetIn;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;
use proto::Problem;
use sys::clock;

use super::state::Api;
use super::streams::MayAppend;
use super::{mercure, mercure_subscriptions, stream_requests};
use crate::token_rates::TokenRates;

/// What pages of other origins may read of the head of an answer of the hub.
const EXPOSED_OF_HUB: &str = "Encke-At-Least, Encke-Delivered, ETag, Link, Retry-After, \
                              WWW-Authenticate";

/// What pages of other origins may read of an answer's head, beside what they always may.
const EXPOSED: &str = "ETag, Retry-After, Stream-Next-Offset, Stream-Closed, Stream-Up-To-Date, \
                       Stream-Cursor, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Expires-At, \
                       Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, \
                       Encke-Id, WWW-Authenticate";

/// What a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PublicTarget {
    /// A durable stream.
    Stream,
    /// An update of the hub.
    Update,
    /// Who is subscribed at the hub.
    Subscriptions,
}

impl PublicTarget {
    fn of(path: &str) -> PublicTarget {
        let below = path.strip_prefix(mercure_subscriptions::PATH);
        match below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
            true => PublicTarget::Subscriptions,
            false if path == mercure::PATH => PublicTarget::Update,
            false => PublicTarget::Stream,
        }
    }

    /// What pages of other origins may read of the answer's head, beside what they always may.
    fn exposed(self) -> &'static str {
        match self {
            PublicTarget::Stream => EXPOSED,
            PublicTarget::Update | PublicTarget::Subscriptions => EXPOSED_OF_HUB,
        }
    }
}

/// The one request of a connection.
struct Public {
    target: PublicTarget,
    let_in: LetIn,
    rates: Arc<TokenRates>,
    idle_limit: IdleLimit,
    /// Whether it was served.
    is_served: AtomicBool,
}

/// What serves a connection of the public port, of which this request was let in.
/// Bodies are waited for as `idle_limit` says.
pub(crate) fn routes(
    api: Arc<Api>,
    let_in: LetIn,
    rates: Arc<TokenRates>,
    idle_limit: IdleLimit,
) -> Router {
    let is_served = AtomicBool::new(false);
    let target = PublicTarget::of(&let_in.path);
    let public = Arc::new(Public { target, let_in, rates, idle_limit, is_served });
    Router::new().fallback(move |request: Request| serve(api, public, request))
}

async fn serve(api: Arc<Api>, public: Arc<Public>, request: Request) -> Response {
    let mut response = match answer(api, &public, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let fields = response.headers_mut();
    stream_requests::dress(fields);
    public.push_cors(fields);
    fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn answer(
    api: Arc<Api>,
    public: &Arc<Public>,
    request: Request,
) -> Result<Response, ApiProblem> {
    // Relaxed: a connection's requests come one after the other.
    let is_served = public.is_served.swap(true, Ordering::Relaxed);
    if is_served || request.uri().path() != public.let_in.path {
        let detail = "This connection is for one request. Send this one on another connection.";
        return Err(ApiProblem::bad_request(detail));
    }
    let Public { let_in, idle_limit, .. } = &**public;
    match public.target {
        PublicTarget::Subscriptions => {
            mercure_subscriptions::list_publicly(api, let_in, request).await
        }
        PublicTarget::Update => mercure::publish_publicly(api, let_in, idle_limit, request).await,
        PublicTarget::Stream => {
            let appends = *request.method() == Method::POST;
            if let Some(holder) = let_in.holder.as_ref().filter(|_| appends) {
                public.rates.take(holder, &let_in.limits, Problem::sends_busy)?;
            }
            let (of, by) = (Arc::clone(&api), Arc::clone(public));
            let may_append = Arc::new(move |counts| by.may_append(&of, counts));
            stream_requests::serve_let_in(&api, let_in, idle_limit, may_append, request).await
        }
    }
}

impl Public {
    /// Whether a request that appends more than once may do it now: its token may have ended
    /// meanwhile. Each append `counts` for its rate, but for the first one, which was counted.
    fn may_append(&self, api: &Api, counts: bool) -> MayAppend {
        let Some(holder) = &self.let_in.holder else { return MayAppend::Now };
        let refused = |why| MayAppend::Never(Problem::token_refused(why).into());
        if holder.expires.is_some_and(|end| clock::unix_ms() / 1000 >= end) {
            return refused("it has expired");
        }
        if api.tokens().is_some_and(|tokens| tokens.revocations().covers(holder)) {
            return refused("it was revoked");
        }
        if !counts {
            return MayAppend::Now;
        }
        match self.rates.take(holder, &self.let_in.limits, Problem::sends_busy) {
            Ok(()) => MayAppend::Now,
            Err(problem) => MayAppend::Later(problem.into()),
        }
    }

    /// Lets the page read the answer that asked for it, where it may.
    fn push_cors(&self, fields: &mut HeaderMap) {
        let Some((origin, credentials)) = &self.let_in.origin else { return };
        let Ok(origin) = HeaderValue::try_from(origin) else { return };
        fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        fields.insert(header::VARY, HeaderValue::from_static("Origin"));
        if *credentials {
            let yes = HeaderValue::from_static("true");
            fields.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
        let exposed = HeaderValue::from_static(self.target.exposed());
        fields.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}
