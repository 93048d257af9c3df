//! Messages between nodes that nobody stores: counts, beats, questions. What is not heard now is
//! not heard.
//!
//! Names of subjects are given without their beginning, which is `encke.<cluster>.`.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{StatusCode, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::{NatsClient, Shared};
use crate::limits::CORE_TIMEOUT;
use crate::state::count;

/// A message from another node, or from this one: whoever publishes hears itself.
#[derive(Clone, Debug)]
pub struct CoreMessage {
    /// Under which subject, without its beginning.
    pub subject: String,
    /// What was published.
    pub bytes: Bytes,
    /// Where the answer goes, of a question.
    reply: Option<Subject>,
}

/// There is no connection, or it is blocked: the message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no connection to NATS: the message was not sent")]
pub struct NotSent;

/// Messages of one subject, or of those that a pattern covers.
pub struct Subscription {
    messages: mpsc::Receiver<CoreMessage>,
}

impl Subscription {
    /// The next message; none when the connection has ended for good. May be dropped and called
    /// again.
    pub async fn next(&mut self) -> Option<CoreMessage> {
        self.messages.recv().await
    }
}

impl NatsClient {
    /// Publishes to all who are subscribed to `subject` now.
    pub async fn publish_core(&self, subject: &str, bytes: Bytes) -> Result<(), NotSent> {
        let subject = self.shared.subject(subject);
        self.shared.send(self.shared.client.publish(subject, bytes)).await
    }

    /// Subscribes to `subject`, in which `*` stands for one part and `>` for all that follow. At
    /// most `waiting_max` messages wait for their reader; those that come then are dropped and
    /// counted ([`Counts::dropped`](crate::Counts::dropped)). It holds over reconnects.
    pub async fn subscribe_core(
        &self,
        subject: &str,
        waiting_max: usize,
    ) -> Result<Subscription, NotSent> {
        let shared = &self.shared;
        let subscribed = shared.client.subscribe(shared.subject(subject));
        let mut incoming = match timeout(CORE_TIMEOUT, subscribed).await {
            Ok(Ok(incoming)) => incoming,
            _ => return Err(NotSent),
        };
        let beginning = shared.subject("");
        let (sender, messages) = mpsc::channel(waiting_max.max(1));
        let shared = Arc::downgrade(shared);
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = incoming.next() => message,
                    () = sender.closed() => return,
                };
                let Some(message) = message else { return };
                let subject = message.subject.as_str();
                let subject = subject.strip_prefix(&beginning).unwrap_or(subject).to_owned();
                let (bytes, reply) = (message.payload, message.reply);
                match sender.try_send(CoreMessage { subject, bytes, reply }) {
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Full(_)) => match shared.upgrade() {
                        Some(shared) => count(&shared.counters.dropped),
                        None => return,
                    },
                    Err(mpsc::error::TrySendError::Closed(_)) => return,
                }
            }
        });
        Ok(Subscription { messages })
    }

    /// Asks all who are subscribed to `subject`, and gives the answers that come within `wait`, or
    /// all up to the one of which `is_enough` says that no further one is needed. Nobody there: no
    /// answers, at once.
    pub async fn ask(
        &self,
        subject: &str,
        bytes: Bytes,
        wait: Duration,
        mut is_enough: impl FnMut(&Bytes) -> bool,
    ) -> Result<Vec<Bytes>, NotSent> {
        let mut heard = Vec::new();
        let hear = |answer| {
            let ends = is_enough(&answer);
            heard.push(answer);
            ends
        };
        self.ask_each(subject, bytes, wait, hear).await?;
        Ok(heard)
    }

    /// As [`NatsClient::ask`], and keeps no answer: `hear` has each as it comes, and says whether
    /// no further one is needed.
    pub async fn ask_each(
        &self,
        subject: &str,
        bytes: Bytes,
        wait: Duration,
        mut hear: impl FnMut(Bytes) -> bool,
    ) -> Result<(), NotSent> {
        let end = Instant::now() + wait;
        let client = &self.shared.client;
        let inbox = client.new_inbox();
        // Where the connection is gone, its commands wait for another one.
        let subscribed = timeout_at(end, client.subscribe(inbox.clone())).await;
        let mut answers = subscribed.map_err(|_| NotSent)?.map_err(|_| NotSent)?;
        let subject = self.shared.subject(subject);
        self.shared.send(client.publish_with_reply(subject, inbox, bytes)).await?;
        while let Ok(Some(answer)) = timeout_at(end, answers.next()).await {
            if answer.status == Some(StatusCode::NO_RESPONDERS) || hear(answer.payload) {
                break;
            }
        }
        Ok(())
    }

    /// Answers a question. What is none is passed over.
    pub async fn answer(&self, question: &CoreMessage, bytes: Bytes) -> Result<(), NotSent> {
        match question.reply.clone() {
            Some(reply) => self.shared.send(self.shared.client.publish(reply, bytes)).await,
            None => Ok(()),
        }
    }
}

impl Shared {
    fn subject(&self, rest: &str) -> String {
        format!("encke.{}.{rest}", self.cluster)
    }

    /// Sends, if it can be done now.
    async fn send<E>(&self, sending: impl Future<Output = Result<(), E>>) -> Result<(), NotSent> {
        if self.is_connected() && matches!(timeout(CORE_TIMEOUT, sending).await, Ok(Ok(()))) {
            return Ok(());
        }
        count(&self.counters.unsent);
        Err(NotSent)
    }
}
