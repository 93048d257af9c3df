//! Long polls on one connection, each of which goes on where the answer before it ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use axum::body::Body;
use hyper::client::conn::http1::SendRequest;
use serde_json::value::RawValue;

use super::{Loss, StreamItem, Wanted, ask, authorized, path};
use crate::client::read_answer;

/// How long a poll waits for an event when nothing else is asked: the server's own default.
const WAIT_MAX_SECONDS: u64 = 25;

/// Long polls.
pub(super) struct Polls {
    sender: SendRequest<Body>,
    wanted: Wanted,
    place: Option<String>,
    wait_seconds: u64,
    was_answered: bool,
}

impl Polls {
    /// Polls once, without a wait: then the way is known to be open, and the place where the next
    /// poll goes on.
    pub(super) async fn open(
        wanted: &Wanted,
        place: Option<&str>,
        heard: &mut VecDeque<StreamItem>,
    ) -> Result<Polls, Loss> {
        let (sender, wanted) = (wanted.url.connect().await?, wanted.clone());
        let wait_seconds = wait_seconds(wanted.silence);
        let place = place.map(str::to_owned);
        let mut polls = Polls { sender, wanted, place, wait_seconds, was_answered: false };
        polls.poll(0, heard).await?;
        Ok(polls)
    }

    pub(super) async fn read(&mut self, heard: &mut VecDeque<StreamItem>) -> Result<(), Loss> {
        let start = Instant::now();
        self.sender.ready().await.context("the server ended the connection")?;
        let told = self.poll(self.wait_seconds, heard).await?;
        // The server stops, or something on the way answers for it: not at full speed, then.
        if told == 0 && start.elapsed() < Duration::from_secs(self.wait_seconds) / 2 {
            return Err(anyhow!("the server ended the poll").into());
        }
        Ok(())
    }

    /// One request and its answer; returns how many events came, and a gap counts as one.
    async fn poll(&mut self, wait: u64, heard: &mut VecDeque<StreamItem>) -> Result<usize, Loss> {
        let (url, wait) = (&self.wanted.url, wait.to_string());
        let after = self.place.as_deref().map(|place| ("after", place));
        let last = self.wanted.last.filter(|_| after.is_none()).map(|last| last.to_string());
        let from = after.or(last.as_deref().map(|last| ("last", last)));
        let parameters: Vec<_> = [("wait", &*wait)].into_iter().chain(from).collect();
        let request = authorized(&self.wanted, &path("/poll/", &self.wanted.ids, &parameters))?;
        let sender = (&mut self.sender, self.was_answered);
        let response = ask(sender, request, url, "application/json").await?;
        self.was_answered = true;
        let field = |name| response.headers().get(name)?.to_str().ok();
        let next = field("encke-next").map(str::to_owned);
        let gap = field("encke-gap") == Some("true");
        let answer = read_answer(response, url).await?;
        let events: Vec<&RawValue> = serde_json::from_slice(&answer).map_err(|error| {
            anyhow!("the answer of {url} to a poll is no JSON ({error}); is it the public port?")
        })?;
        heard.extend(gap.then_some(StreamItem::Gap));
        heard.extend(events.iter().map(|event| StreamItem::Event(event.get().into())));
        heard.extend(next.clone().map(StreamItem::Place));
        // One that is told again with the same place leads nowhere.
        let is_on = next.is_some() && next != self.place;
        self.place = next.or(self.place.take());
        Ok(events.len() + usize::from(gap && is_on))
    }
}

/// How long a poll may wait such that an answer comes well before the silence is too long.
fn wait_seconds(silence: Option<Duration>) -> u64 {
    silence.map_or(WAIT_MAX_SECONDS, |silence| (silence.as_secs() / 3).clamp(1, WAIT_MAX_SECONDS))
}
