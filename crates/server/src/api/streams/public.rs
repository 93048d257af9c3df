//! A request about a stream that came to the public port and was let in there.
//!
//! It is served as one of the API is. What differs: it has no key but perhaps a token, of which it
//! was looked at what it grants; pages of other origins may read the answer; an append is as long
//! as an event of a client may be, and as often. The connection ends with the answer: the next
//! request on it would be another one, which nobody has let in.

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

use super::super::state::Api;
use super::{Call, dress, fields, read, write};
use crate::token_rates::TokenRates;

/// What pages of other origins may read of an answer's head, beside what they always may.
const EXPOSED: &str = "ETag, Retry-After, Stream-Next-Offset, Stream-Closed, Stream-Up-To-Date, \
                       Stream-Cursor, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Expires-At, \
                       Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq";

/// The one request of a connection.
struct Public {
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
    let public = Arc::new(Public { let_in, rates, idle_limit, is_served });
    Router::new().fallback(move |request: Request| serve(api, public, request))
}

async fn serve(api: Arc<Api>, public: Arc<Public>, request: Request) -> Response {
    let mut response = match answer(api, &public, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let fields = response.headers_mut();
    dress(fields);
    public.push_cors(fields);
    fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn answer(api: Arc<Api>, public: &Public, request: Request) -> Result<Response, ApiProblem> {
    // Relaxed: a connection's requests come one after the other.
    let is_served = public.is_served.swap(true, Ordering::Relaxed);
    if is_served || request.uri().path() != public.let_in.path {
        let detail = "This connection is for one request. Send this one on another connection.";
        return Err(ApiProblem::bad_request(detail));
    }
    let Some(streams) = api.streams().cloned() else { return Err(ApiProblem::not_found()) };
    let path = fields::path(request.uri().path())?;
    let (head, body) = request.into_parts();
    let LetIn { holder, limits, .. } = &public.let_in;
    if let Some(holder) = holder.as_ref().filter(|_| head.method == Method::POST) {
        public.rates.take(holder, limits, Problem::sends_busy)?;
    }
    let call = Call {
        idle_limit: public.idle_limit.clone(),
        streams,
        is_private: holder.is_some(),
        is_public: true,
        body_bytes_max: limits.payload_bytes_max,
        path: path.into(),
        head,
    };
    match call.head.method {
        Method::GET => read::get(call).await,
        Method::HEAD => read::head(call).await,
        Method::POST => write::append(call, body).await,
        _ => Err(ApiProblem::method_not_allowed()),
    }
}

impl Public {
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
        let exposed = HeaderValue::from_static(EXPOSED);
        fields.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}
