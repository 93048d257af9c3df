//! The consumer under a follower: made in memory on one server, and asked for records before those
//! that were asked for have run out.

use std::fmt;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use tokio::time::timeout;

use crate::api::ApiError;
use crate::limits::{
    API_TIMEOUT, CONSUMER_IDLE_MAX, CONSUMER_TIMEOUT, IDLE_HEARTBEAT, PULL_EXPIRES, PULL_RECORDS,
};
use crate::log::{Log, nanoseconds};

/// Why a consumer is used no more.
pub(crate) enum End {
    /// Another one may do better at once.
    Again,
    /// Another one may do better after a pause.
    Later,
    /// All is said, or nobody listens.
    Over,
}

/// One consumer and what is under way from it.
pub(crate) struct Consumer {
    pub(crate) messages: Subscriber,
    inbox: String,
    /// Its name, which is the last part of `inbox` too.
    name: String,
    /// Records that were asked for and have not come.
    pub(crate) asked: usize,
    /// How many it has delivered.
    pub(crate) delivered: u64,
    /// Over which connection it is heard.
    pub(crate) connects: u64,
}

impl Consumer {
    /// Makes a consumer, in memory on one server, and asks it for records.
    pub(crate) async fn make(log: &Log, start: u64, connects: u64) -> Result<Consumer, ApiError> {
        let Log { shared, stream, .. } = log;
        let silence = |error: &dyn fmt::Display| ApiError::Silence(error.to_string());
        let inbox = shared.client.new_inbox();
        let name = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        let messages = timeout(API_TIMEOUT, shared.client.subscribe(inbox.clone())).await;
        let messages = messages.map_err(|e| silence(&e))?.map_err(|e| silence(&e))?;
        let body = serde_json::json!({
            "stream_name": stream,
            "config": {
                "name": name,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": start,
                "ack_policy": "none",
                "replay_policy": "instant",
                "inactive_threshold": nanoseconds(CONSUMER_IDLE_MAX),
                "num_replicas": 1,
                "mem_storage": true,
            },
        });
        let what = format!("CONSUMER.CREATE.{stream}.{name}");
        let _: serde_json::Value = shared.ask_api(&what, &body, CONSUMER_TIMEOUT).await?;
        let mut consumer = Consumer { messages, inbox, name, asked: 0, delivered: 0, connects };
        consumer.ask(log).await?;
        Ok(consumer)
    }

    /// Asks for as many records as there may be under way.
    pub(crate) async fn ask(&mut self, log: &Log) -> Result<(), ApiError> {
        let Log { shared, stream, .. } = log;
        debug_assert!(self.asked < PULL_RECORDS, "a request for nothing is refused");
        let batch = PULL_RECORDS - self.asked;
        let body = format!(
            r#"{{"batch":{batch},"expires":{},"idle_heartbeat":{}}}"#,
            nanoseconds(PULL_EXPIRES),
            nanoseconds(IDLE_HEARTBEAT)
        );
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", self.name);
        if !shared.is_connected() {
            return Err(ApiError::Offline);
        }
        let inbox = self.inbox.clone();
        let sent = shared.client.publish_with_reply(subject, inbox, body.into());
        match timeout(API_TIMEOUT, sent).await {
            Ok(Ok(())) => self.asked = PULL_RECORDS,
            Ok(Err(error)) => return Err(ApiError::Silence(error.to_string())),
            Err(error) => return Err(ApiError::Silence(error.to_string())),
        }
        Ok(())
    }

    /// What the server says besides records (ADR-13 and ADR-9 of NATS).
    pub(crate) fn told(&mut self, status: u16, message: &Message) -> Result<(), End> {
        let headers = message.headers.as_ref();
        let number = |name: &str| headers?.get(name)?.as_str().parse::<u64>().ok();
        match status {
            // A heartbeat, which says how many records it should be by now.
            100 => match number("Nats-Last-Consumer") {
                Some(delivered) if delivered != self.delivered => Err(End::Again),
                _ => Ok(()),
            },
            // A request has run out, with so many records not sent.
            404 | 408 | 409 if number("Nats-Pending-Messages").is_some() => {
                let left = number("Nats-Pending-Messages").unwrap_or_default();
                let left = usize::try_from(left).unwrap_or(usize::MAX);
                self.asked = self.asked.saturating_sub(left);
                Ok(())
            }
            // Its consumer is gone, or moved, or nobody knows it.
            _ => Err(End::Later),
        }
    }

    /// Deletes it. If this does not arrive, JetStream forgets it by itself.
    pub(crate) async fn delete(&self, log: &Log) {
        if log.shared.is_connected() {
            let subject = format!("$JS.API.CONSUMER.DELETE.{}.{}", log.stream, self.name);
            drop(timeout(API_TIMEOUT, log.shared.client.publish(subject, Bytes::new())).await);
        }
    }
}
