//! A listener: one stream of events from the public port, as Server-Sent Events.

use anyhow::{Context, Result, anyhow};
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, StatusCode, header};
use proto::client::SseDecoder;

use super::{ServerUrl, escape, read_answer};

/// An open stream.
pub(crate) struct Listener {
    body: Incoming,
    decoder: SseDecoder,
    /// The connection lasts as long as this.
    _sender: SendRequest<Body>,
}

/// What came of the attempt to open a stream.
pub(crate) enum Opening {
    Open(Listener),
    /// The server has no place now; trying again may help.
    Busy(anyhow::Error),
}

impl Listener {
    /// Opens a stream at `url` under all of `ids`.
    pub(crate) async fn open(url: &ServerUrl, ids: &[String]) -> Result<Opening> {
        let (first, more) = ids.split_first().context("name at least one id")?;
        let mut path = format!("/stream/{}", escape(first));
        for (number, id) in more.iter().enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            path += &format!("{mark}id={}", escape(id));
        }
        let mut sender = url.connect().await?;
        let request = url
            .request(Method::GET, &path)
            .header(header::ACCEPT, "text/event-stream")
            .body(Body::empty())?;
        let broke_off = || format!("the server at {url} did not answer");
        let response = sender.send_request(request).await.with_context(broke_off)?;
        match response.status() {
            StatusCode::OK => {
                let decoder = SseDecoder::default();
                Ok(Opening::Open(Listener { body: response.into_body(), decoder, _sender: sender }))
            }
            status => {
                let error = read_answer(response).await.err();
                let error = error.unwrap_or_else(|| anyhow!("the server answered {status}"));
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    Ok(Opening::Busy(error))
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Waits for the next events and hands each one's JSON to `on_event`. `false` when the stream
    /// has ended.
    pub(crate) async fn next(&mut self, mut on_event: impl FnMut(&[u8])) -> bool {
        let Some(Ok(frame)) = self.body.frame().await else { return false };
        let Some(bytes) = frame.data_ref() else { return true };
        self.decoder.feed(bytes, &mut |event| on_event(event.data)).is_ok()
    }
}
