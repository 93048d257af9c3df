//! A stream of Server-Sent Events.

use std::collections::VecDeque;

use anyhow::{Error, anyhow};
use axum::body::Body;
use client::{Event, SseDecoder, StreamError};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::{Loss, StreamItem, Wanted, ask, request};

/// A stream of Server-Sent Events.
pub(super) struct EventStream {
    body: Incoming,
    decoder: SseDecoder,
    /// The connection lasts as long as this.
    _sender: SendRequest<Body>,
}

impl EventStream {
    /// Opens it at `place`. Where it begins stands in its head; if that is behind a gap, the notice
    /// of it must come first.
    pub(super) async fn open(
        wanted: &Wanted,
        place: Option<&str>,
        heard: &mut VecDeque<StreamItem>,
    ) -> Result<EventStream, Loss> {
        let mut sender = wanted.url.connect().await?;
        let request = request(wanted, place)?;
        let response = ask((&mut sender, false), request, &wanted.url, "text/event-stream").await?;
        let field = |name| response.headers().get(name)?.to_str().ok();
        if field("encke-gap").is_none() {
            heard.extend(field("encke-next").map(|next| StreamItem::Place(next.to_owned())));
        }
        let (body, decoder) = (response.into_body(), SseDecoder::default());
        Ok(EventStream { body, decoder, _sender: sender })
    }

    pub(super) async fn read(&mut self, heard: &mut VecDeque<StreamItem>) -> Result<(), Loss> {
        let frame = match self.body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                return Err(Error::new(error).context("the stream broke off").into());
            }
            None => return Err(anyhow!("the server ended the stream").into()),
        };
        let bytes = frame.data_ref().map_or(&[][..], |bytes| bytes);
        let read = self.decoder.feed(bytes, &mut |event| hear(event, heard));
        Ok(read.map_err(StreamError::from)?)
    }
}

fn hear(event: Event<'_>, heard: &mut VecDeque<StreamItem>) {
    if event.name == b"gap" {
        heard.push_back(StreamItem::Gap);
    } else if event.name != b"next" && !event.is_position() {
        heard.push_back(StreamItem::Event(event.data.to_vec()));
    }
    // Behind its event: who is cut off in between has not heard it.
    if let Some(Ok(id)) = event.id.map(str::from_utf8) {
        heard.push_back(StreamItem::Place(id.to_owned()));
    }
}
