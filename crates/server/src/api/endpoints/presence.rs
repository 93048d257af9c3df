//! `GET /presence`: who comes and who goes, as a stream that does not end by itself.
//!
//! A stream keeps nothing of what is told: all read the same batches, each at its own pace. One
//! that falls behind by all that is kept for the slowest is told `{"lost":true}`, and ended. Its
//! key is looked at before each batch, so that a stream ends with it. A client that takes nothing
//! at all is cut off by its socket's time-out. By HTTP/2 it could keep its place for ever: who has
//! who has a key that reads is no foreign client, and there are only so many streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use dispatch::presence::{Batch, Kind, Notification, Subscriber};
use futures_util::stream;
use httpd::origin;
use httpd::problem::ApiProblem;
use proto::Format;
use proto::request::preferred_format;
use tokio::time::timeout;

use crate::api::access::Permission;
use crate::api::state::Api;

/// The silence after which a sign of life is sent. A client that has left is noticed by the second
/// one that it does not take, since one that has only closed its own side may still listen; so its
/// place is free again within ten seconds.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// How a stream is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Ndjson,
    Sse,
}

impl Form {
    /// What the client takes most, as at the public port: lines, unless it prefers what browsers'
    /// `EventSource` does.
    fn of(headers: &HeaderMap) -> Form {
        let lines = headers.get_all(header::ACCEPT).into_iter().map(HeaderValue::as_bytes);
        match preferred_format(lines) {
            Some(Format::Sse) => Form::Sse,
            _ => Form::Ndjson,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Form::Ndjson => "application/x-ndjson",
            Form::Sse => "text/event-stream",
        }
    }

    fn of_batch(self, batch: &Batch) -> Bytes {
        match self {
            Form::Ndjson => batch.lines(),
            Form::Sse => batch.sse(),
        }
    }

    fn keepalive(self) -> Bytes {
        Bytes::from_static(match self {
            Form::Ndjson => b"\n",
            Form::Sse => b":\n\n",
        })
    }
}

/// One stream.
struct Listening {
    api: Arc<Api>,
    permission: Permission,
    form: Form,
    subscriber: Subscriber,
    /// Whether nothing has been sent yet.
    is_new: bool,
    is_over: bool,
}

pub(crate) async fn presence(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let permission = Permission::of(request.extensions())?;
    if origin::is_of_another_page(request.headers()) {
        return Err(ApiProblem::foreign_origin());
    }
    let form = Form::of(request.headers());
    let subscriber = api.presence.listen(Kind::Api).ok_or_else(|| {
        let detail = "As many listen to presence as may. End another such stream, or try again \
                      when one has ended.";
        ApiProblem::unavailable(detail)
    })?;
    let listening = Listening { api, permission, form, subscriber, is_new: true, is_over: false };
    let body = stream::unfold(listening, Listening::next);
    let fields = [
        (header::CONTENT_TYPE, form.media_type()),
        (header::CACHE_CONTROL, "no-store"),
        // Or nginx keeps what is told until it has much of it.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((fields, Body::from_stream(body)).into_response())
}

impl Listening {
    /// What is sent next.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Listening)> {
        if self.is_over {
            return None;
        }
        if std::mem::take(&mut self.is_new) {
            // Who has read this hears of all that happens after it.
            return Some((Ok(self.form.keepalive()), self));
        }
        let notification = timeout(KEEPALIVE, self.subscriber.recv()).await;
        if self.api.access.check(&self.permission).is_err() {
            return None;
        }
        let bytes = match notification {
            Ok(Notification::Batch(batch)) => self.form.of_batch(&batch),
            Ok(Notification::Behind) => {
                self.is_over = true;
                self.form.of_batch(&Batch::lost())
            }
            Ok(Notification::Over) => return None,
            Err(_) => self.form.keepalive(),
        };
        Some((Ok(bytes), self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_what_the_client_takes() {
        for (accept, form) in [
            ("*/*", Form::Ndjson),
            ("application/x-ndjson", Form::Ndjson),
            ("text/event-stream", Form::Sse),
            ("application/json, Text/Event-Stream;q=0.5", Form::Sse),
            ("text/event-streams", Form::Ndjson),
            ("text/event-stream;q=0, application/x-ndjson", Form::Ndjson),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(Form::of(&headers), form, "{accept}");
        }
        assert_eq!(Form::of(&HeaderMap::new()), Form::Ndjson);
    }
}
