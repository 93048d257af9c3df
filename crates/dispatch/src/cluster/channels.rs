//! Who hears channels, over all nodes: each node is asked, and answers with what it has, in as many
//! messages as it takes.
//!
//! One question is answered after the other, so a node walks over its names once at a time,
//! whoever asks.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use nats::{CoreMessage, NatsClient};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::status::{Membership, NodeStatus};
use crate::channels::{ChannelPiece, ChannelReader, ChannelsAsked, ChannelsFound, WhichChannels};

/// What is asked under.
const CHANNELS: &str = "channels";

/// How long the others may take to answer, of channels that are named, and where they are looked
/// for.
const WAIT: Duration = Duration::from_millis(250);
const WALK_WAIT: Duration = Duration::from_secs(2);

/// Questions that wait; further ones have no answer.
const WAITING_MAX: usize = 256;

/// Bytes of one message after which another one begins. With the longest piece, and if all of its
/// characters are escaped, it is half of what NATS takes by default.
const MESSAGE_BYTES: usize = 128 << 10;

/// One of the messages of a node's answer.
#[derive(Serialize, Deserialize)]
struct Part {
    node: String,
    /// How many there are of that node.
    parts: usize,
    pieces: Vec<ChannelPiece>,
}

/// Puts a node's answer into messages: one at least.
fn parts(node: &str, pieces: Vec<ChannelPiece>) -> Vec<Part> {
    let mut groups = vec![Vec::new()];
    let mut bytes = 0;
    for piece in pieces {
        if bytes > MESSAGE_BYTES {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += piece.bytes();
        groups.last_mut().expect("there is one").push(piece);
    }
    let parts = groups.len();
    let part = |pieces| Part { node: node.to_owned(), parts, pieces };
    groups.into_iter().map(part).collect()
}

/// What has come so far.
#[derive(Default)]
struct Heard {
    found: ChannelsFound,
    /// Messages that have come of each node whose answer is not whole.
    partly: HashMap<String, usize>,
    whole: usize,
}

impl Heard {
    /// Takes a message. Whoever is in NATS may answer, anything.
    fn take(&mut self, bytes: &[u8]) {
        let Ok(Part { node, parts, pieces }) = serde_json::from_slice(bytes) else { return };
        pieces.into_iter().for_each(|piece| self.found.add(piece));
        let heard = self.partly.entry(node).or_default();
        *heard += 1;
        self.whole += usize::from(*heard == parts);
    }
}

/// Asks all nodes, of which there are `members`; `None` where none has answered.
pub(super) async fn ask(
    nats: &NatsClient,
    asked: &ChannelsAsked,
    members: usize,
) -> Option<ChannelsFound> {
    let question = serde_json::to_vec(asked).expect("plain values").into();
    let wait = match asked.which {
        WhichChannels::Named { .. } => WALK_WAIT,
        WhichChannels::Keys(_) | WhichChannels::App(_) => WAIT,
    };
    let mut heard = Heard::default();
    let take = |bytes: &Bytes| {
        heard.take(bytes);
        heard.whole >= members.max(1)
    };
    nats.ask(CHANNELS, question, wait, take).await.ok()?;
    let Heard { mut found, partly, whole } = heard;
    found.at_least = whole < members.max(1);
    (!partly.is_empty()).then_some(found)
}

/// What a node answers with.
pub(super) struct ChannelAnswers {
    pub(super) node: String,
    pub(super) nats: NatsClient,
    pub(super) status: watch::Receiver<NodeStatus>,
    pub(super) reader: ChannelReader,
}

/// Answers for as long as the runtime lives.
pub(super) async fn answer(answers: ChannelAnswers) {
    loop {
        let Ok(mut questions) = answers.nats.subscribe_core(CHANNELS, WAITING_MAX).await else {
            tokio::time::sleep(nats::ACK_TIMEOUT).await;
            continue;
        };
        while let Some(question) = questions.next().await {
            answers.to(&question).await;
        }
        return;
    }
}

impl ChannelAnswers {
    async fn to(&self, question: &CoreMessage) {
        // The answer of one that is no member would stand in the place of a member's.
        if self.status.borrow().membership != Membership::Member {
            return;
        }
        let Ok(asked) = serde_json::from_slice(&question.bytes) else { return };
        for part in parts(&self.node, self.reader.pieces(asked).await) {
            let bytes = serde_json::to_vec(&part).expect("plain values");
            // Who asks does without it, and says so.
            let _ = self.nats.answer(question, bytes.into()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_any_length_comes_in_messages_that_nats_takes_and_is_whole_with_the_last_one() {
        let users: Vec<String> = (0..200).map(|n| format!("{n:\"<512}")).collect();
        let pieces: Vec<ChannelPiece> = (0..10)
            .map(|n| {
                let piece = serde_json::json!({ "key": format!("#c1:presence-{n}"),
                                                "connections": 2, "users": users });
                serde_json::from_value(piece).unwrap()
            })
            .collect();
        let all = parts("n1", pieces);
        assert!(all.len() > 2, "{}", all.len());
        let mut heard = Heard::default();
        for (at, part) in all.iter().enumerate() {
            let bytes = serde_json::to_vec(part).unwrap();
            assert!(bytes.len() < 1 << 20, "{}", bytes.len());
            heard.take(&bytes);
            assert_eq!(heard.whole, usize::from(at + 1 == all.len()));
        }
        heard.take(b"{}");
        let nothing = parts("n2", Vec::new());
        assert_eq!(nothing.len(), 1, "it has answered");
        heard.take(&serde_json::to_vec(&nothing[0]).unwrap());
        assert_eq!((heard.whole, heard.found.channels.len()), (2, 10));
        assert_eq!(heard.found.users("#c1:presence-9").count(), 200);
        assert_eq!(heard.found.connections("#c1:presence-0"), 2);
    }
}
