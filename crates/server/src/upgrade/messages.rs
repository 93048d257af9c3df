//! What the two servers of an upgrade say to each other, and to who asks for one.
//!
//! One version apart can talk. The first word has the versions that its speaker knows. Fields that
//! are unknown are skipped, those that are missing have a value that means nothing, and a word that
//! is unknown is passed over. What changes its meaning gets a new name.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use auth::tokens::RevocationLine;
use dispatch::idempotency::KeysPart;
use engine::Predecessor;
use serde::{Deserialize, Serialize};
use topics::TopicsPart;

use crate::api::{ApiPast, HubRest};

/// The versions of the conversation, and of all that is written down in it, that this program
/// knows: its own and those before.
pub(crate) const VERSIONS: &[u32] = &[1, 2, 3, 4, 5];

/// From here on lines of events may have a name and several subjects.
pub(crate) const EVENT_PARTS_VERSION: u32 = 2;

/// From here on they may say who sent them.
pub(crate) const EVENT_SENDER_VERSION: u32 = 3;

/// From here on an event may leave out two connections.
pub(crate) const EVENT_TWO_LEFT_OUT_VERSION: u32 = 4;

/// From here on streams of the hub go over, and what it knows of topics.
pub(crate) const HUB_VERSION: u32 = 5;

/// The first word to a server that serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum FirstMessage {
    /// Of a server that is to take over.
    Hello(Hello),
    /// Of who asks that one be started.
    Ask(Ask),
    #[serde(other)]
    Unknown,
}

/// Who wants to take over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Hello {
    pub(crate) versions: Vec<u32>,
    /// Its process id, as it knows it itself.
    pub(crate) pid: u32,
    /// The version of the program.
    pub(crate) encke: String,
}

/// What is to be started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ask {
    pub(crate) versions: Vec<u32>,
    /// Another program than the one that the server was started from.
    pub(crate) binary: Option<PathBuf>,
    /// Another file of settings.
    pub(crate) config: Option<PathBuf>,
}

/// What the server that serves says to the one that takes over. Secrets are in it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum ServingMessage {
    /// The first one.
    Facts(Box<Facts>),
    /// There is no upgrade; the last word.
    Refuse(UpgradeRefusal),
    /// How far it is; said now and then.
    Copying(Copying),
    /// A part of the history follows, as bytes.
    History(HistoryPart),
    /// A part of what the hub knows of topics.
    Hub(TopicsPart),
    /// Some of the idempotency keys that are remembered.
    Keys(KeysPart),
    /// The API's ports follow, as descriptors.
    Listeners(Listeners),
    /// All that is left; nothing is sent any more, and the store is free.
    Rest(Box<Rest>),
    /// All is yours. The point of no return.
    Yours,
    /// Ports beside those of streams and of the API are free.
    Left,
    #[serde(other)]
    Unknown,
}

/// Which word it is, and nothing of what it says.
impl fmt::Debug for ServingMessage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            ServingMessage::Facts(_) => "facts",
            ServingMessage::Refuse(_) => "refuse",
            ServingMessage::Copying(_) => "copying",
            ServingMessage::History(_) => "history",
            ServingMessage::Hub(_) => "hub",
            ServingMessage::Keys(_) => "keys",
            ServingMessage::Listeners(_) => "listeners",
            ServingMessage::Rest(_) => "rest",
            ServingMessage::Yours => "yours",
            ServingMessage::Left => "left",
            ServingMessage::Unknown => "a word of another version",
        })
    }
}

/// What the server that takes over says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum SuccessorMessage {
    /// It cannot be; the last word.
    Refuse(UpgradeRefusal),
    /// Workers wait for connections.
    Ready(Ready),
    /// All is here.
    Have(Have),
    /// It serves.
    Live(Live),
    #[serde(other)]
    Unknown,
}

/// What who asks is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum StarterMessage {
    Progress(Step),
    Done(Done),
    Refuse(UpgradeRefusal),
    #[serde(other)]
    Unknown,
}

/// Why not, as a sentence.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UpgradeRefusal {
    pub(crate) why: String,
}

/// What the successor must know before anything moves.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    /// The version in which both go on.
    pub(crate) version: u32,
    pub(crate) encke: String,
    /// When the upgrade began, by the machine's monotonic clock.
    pub(crate) begun_ms: u64,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) tls_listen: Option<SocketAddr>,
    pub(crate) api: Option<SocketAddr>,
    pub(crate) tls_api: Option<SocketAddr>,
    pub(crate) workers: usize,
    pub(crate) connections: u64,
    pub(crate) connections_of_a_worker: u64,
    /// Under what clients' addresses are known.
    pub(crate) address_keys: [u64; 2],
    pub(crate) has_tokens: bool,
    pub(crate) backlog_bytes_max: usize,
    /// What is kept for clients now.
    pub(crate) buffered_bytes: u64,
    pub(crate) epoch: EpochFacts,
    pub(crate) live: LiveFacts,
}

impl Facts {
    /// What the engine must know of it.
    pub(crate) fn predecessor(&self) -> Predecessor {
        Predecessor {
            listen: self.listen,
            tls_listen: self.tls_listen,
            workers: self.workers,
            address_keys: self.address_keys,
        }
    }
}

/// The run of event numbers that goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EpochFacts {
    pub(crate) tag: u64,
    pub(crate) base: u64,
    pub(crate) until: u64,
}

/// By what dashboards listen.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LiveFacts {
    pub(crate) id: String,
    pub(crate) token: String,
}

/// Where the successor's workers wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ready {
    /// A directory in the data directory.
    pub(crate) dir: String,
    pub(crate) workers: usize,
}

/// How many connections have been copied.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Copying {
    pub(crate) copied: u64,
    pub(crate) of: u64,
}

/// A part of the history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HistoryPart {
    /// How many events it has.
    pub(crate) events: usize,
}

/// Which of the API's ports there are, in the order in which they come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Listeners {
    pub(crate) api: bool,
    pub(crate) tls_api: bool,
}

/// What is known once nothing is sent any more.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rest {
    /// When clients began to wait, by the machine's monotonic clock.
    pub(crate) paused_ms: u64,
    /// Connections that were written down.
    pub(crate) connections: u64,
    pub(crate) epoch: EpochFacts,
    /// The last number of an event.
    pub(crate) last: u64,
    /// Events that were sent and are not remembered any more.
    #[serde(rename = "oblivion")]
    pub(crate) evicted_range: EvictedRange,
    /// What the workers have counted, by name.
    pub(crate) totals: Vec<(String, u64)>,
    pub(crate) api: ApiPast,
    /// Tokens that are refused, also those that could not be written to the disk.
    pub(crate) revoked: Vec<RevocationLine<'static>>,
    /// What is known of the hub; `None` where none is served, or by a version that hands none over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hub: Option<HubRest>,
}

/// See [`hub::EvictedRange`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EvictedRange {
    pub(crate) floor: u64,
    pub(crate) evicted_floor: u64,
    pub(crate) evicted: Vec<(u64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<EvictedRule>,
}

/// See [`hub::EvictedRule`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EvictedRule {
    pub(crate) pattern: String,
    pub(crate) evicted_floor: u64,
    pub(crate) last: u64,
}

/// How many connections the successor has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Have {
    pub(crate) connections: u64,
}

/// The successor serves, and how long clients waited.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Live {
    pub(crate) pause_ms: u64,
}

/// How far an upgrade is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// As a sentence.
    pub text: String,
    /// Connections that have been copied.
    pub copied: u64,
    /// How many there are.
    pub of: u64,
}

/// What an upgrade has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// The process that serves now, where its number is known here.
    pub pid: u32,
    /// The version of the program that serves now.
    pub version: String,
    /// Connections that it took over.
    pub connections: u64,
    /// How long all of it took.
    pub milliseconds: u64,
    /// How long clients heard nothing.
    pub pause_milliseconds: u64,
    /// It has everything, and was not heard to serve: why.
    pub lost: Option<String>,
    /// Because it has ended: nobody serves.
    pub ended: bool,
}

/// The latest version that both know.
pub(crate) fn common_version(theirs: &[u32]) -> Option<u32> {
    VERSIONS.iter().copied().filter(|version| theirs.contains(version)).max()
}

#[cfg(test)]
mod tests;
