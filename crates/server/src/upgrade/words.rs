//! What the two servers of an upgrade say to each other, and to who asks for one.
//!
//! One version apart can talk: the first word has the versions that its speaker knows, fields that
//! are unknown are skipped, those that are missing have a value that means nothing, and a word that
//! is unknown is passed over. What changes its meaning gets a new name.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::{ApiPast, KeysPart};
use crate::tokens::RevocationLine;

/// The versions of the conversation, and of all that is written down in it, that this program
/// knows: its own and the one before.
pub(super) const VERSIONS: &[u32] = &[1];

/// The first word to a server that serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(super) enum FirstWord {
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
pub(super) struct Hello {
    pub(super) versions: Vec<u32>,
    /// Its process id, as it knows it itself.
    pub(super) pid: u32,
    /// The version of the program.
    pub(super) encke: String,
}

/// What is to be started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ask {
    pub(super) versions: Vec<u32>,
    /// Another program than the one that the server was started from.
    pub(super) binary: Option<PathBuf>,
    /// Another file of settings.
    pub(super) config: Option<PathBuf>,
}

/// What the server that serves says to the one that takes over. Secrets are in it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(super) enum ServingWord {
    /// The first one.
    Facts(Box<Facts>),
    /// There is no upgrade; the last word.
    Refuse(Refusal),
    /// How far it is; said now and then.
    Copying(Copying),
    /// A part of the history follows, as bytes.
    History(HistoryPart),
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
impl fmt::Debug for ServingWord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            ServingWord::Facts(_) => "facts",
            ServingWord::Refuse(_) => "refuse",
            ServingWord::Copying(_) => "copying",
            ServingWord::History(_) => "history",
            ServingWord::Keys(_) => "keys",
            ServingWord::Listeners(_) => "listeners",
            ServingWord::Rest(_) => "rest",
            ServingWord::Yours => "yours",
            ServingWord::Left => "left",
            ServingWord::Unknown => "a word of another version",
        })
    }
}

/// What the server that takes over says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(super) enum HeirWord {
    /// It cannot be; the last word.
    Refuse(Refusal),
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
pub(super) enum StarterWord {
    Progress(Step),
    Done(Done),
    Refuse(Refusal),
    #[serde(other)]
    Unknown,
}

/// Why not, as a sentence.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) why: String,
}

/// What the heir must know before anything moves.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    /// The version in which both go on.
    pub(super) version: u32,
    pub(super) encke: String,
    /// When the upgrade began, by the machine's monotonic clock.
    pub(super) begun_ms: u64,
    pub(super) listen: Option<SocketAddr>,
    pub(super) tls_listen: Option<SocketAddr>,
    pub(super) api: Option<SocketAddr>,
    pub(super) tls_api: Option<SocketAddr>,
    pub(super) workers: usize,
    pub(super) connections: u64,
    pub(super) connections_of_a_worker: u64,
    /// Under what clients' addresses are known.
    pub(super) address_keys: [u64; 2],
    pub(super) has_tokens: bool,
    pub(super) backlog_bytes_max: usize,
    /// What is kept for clients now.
    pub(super) buffered_bytes: u64,
    pub(super) epoch: EpochFacts,
    pub(super) live: LiveFacts,
}

/// The run of event numbers that goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct EpochFacts {
    pub(super) tag: u64,
    pub(super) base: u64,
    pub(super) until: u64,
}

/// By what dashboards listen.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LiveFacts {
    pub(super) id: String,
    pub(super) token: String,
}

/// Where the heir's workers wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ready {
    /// A directory in the data directory.
    pub(super) dir: String,
    pub(super) workers: usize,
}

/// How many connections have been copied.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Copying {
    pub(super) copied: u64,
    pub(super) of: u64,
}

/// A part of the history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HistoryPart {
    /// How many events it has.
    pub(super) events: usize,
}

/// Which of the API's ports there are, in the order in which they come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Listeners {
    pub(super) api: bool,
    pub(super) tls_api: bool,
}

/// What is known once nothing is sent any more.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Rest {
    /// When clients began to wait, by the machine's monotonic clock.
    pub(super) paused_ms: u64,
    /// Connections that were written down.
    pub(super) connections: u64,
    pub(super) epoch: EpochFacts,
    /// The last number of an event.
    pub(super) last: u64,
    /// Events that were sent and are not remembered any more.
    pub(super) oblivion: Oblivion,
    /// What the workers have counted, by name.
    pub(super) totals: Vec<(String, u64)>,
    pub(super) api: ApiPast,
    /// Tokens that are refused, also those that could not be written to the disk.
    pub(super) revoked: Vec<RevocationLine<'static>>,
}

/// See [`hub::Oblivion`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Oblivion {
    pub(super) floor: u64,
    pub(super) evicted_floor: u64,
    pub(super) evicted: Vec<(u64, u64)>,
}

/// How many connections the heir has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Have {
    pub(super) connections: u64,
}

/// That it serves, and how long clients waited.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Live {
    pub(super) pause_ms: u64,
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
pub(super) fn common_version(theirs: &[u32]) -> Option<u32> {
    VERSIONS.iter().copied().filter(|version| theirs.contains(version)).max()
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, from_str, from_value, json, to_value};

    use super::super::history::Event;
    use super::*;

    /// What version 1 has said in an upgrade, and by whom; all that may be said at all.
    const VERSION_1: &str = include_str!("words-1.ndjson");

    fn heard<W: DeserializeOwned + Serialize + Debug>(word: Value) -> Value {
        to_value(from_value::<W>(word).unwrap()).unwrap()
    }

    /// A later version may know more, but has all that was said, with its meaning.
    fn assert_kept(said: &Value, heard: &Value) {
        match (said, heard) {
            (Value::Object(said), Value::Object(heard)) => {
                said.iter().for_each(|(name, value)| assert_kept(value, &heard[name]));
            }
            (Value::Array(said), Value::Array(heard)) => {
                assert_eq!(said.len(), heard.len());
                said.iter().zip(heard).for_each(|(said, heard)| assert_kept(said, heard));
            }
            _ => assert_eq!(said, heard),
        }
    }

    #[test]
    fn what_version_1_has_said_is_understood() {
        for line in VERSION_1.lines() {
            let (speaker, said): (String, Value) = from_str(line).unwrap();
            let heard = match &*speaker {
                "first" => heard::<FirstWord>(said.clone()),
                "serving" => heard::<ServingWord>(said.clone()),
                "heir" => heard::<HeirWord>(said.clone()),
                "starter" => heard::<StarterWord>(said.clone()),
                _ => heard::<Vec<Event>>(said.clone()),
            };
            assert_kept(&said, &heard);
        }
    }

    #[test]
    fn what_a_later_version_says_besides_is_passed_over() {
        let word = json!({ "word": "hello", "versions": [1, 9], "pid": 7, "new": { "a": [1] } });
        let FirstWord::Hello(hello) = from_value(word).unwrap() else { panic!("no hello") };
        assert_eq!((hello.pid, hello.encke.as_str()), (7, ""));
        assert_eq!(common_version(&hello.versions), Some(1));
        assert_eq!(common_version(&[2, 3]), None);
        let word = json!({ "word": "sing", "song": "none" });
        assert!(matches!(from_value(word.clone()).unwrap(), FirstWord::Unknown));
        assert!(matches!(from_value(word.clone()).unwrap(), ServingWord::Unknown));
        assert!(matches!(from_value(word).unwrap(), HeirWord::Unknown));
    }

    #[test]
    fn every_word_may_come_without_its_fields() {
        for word in ["facts", "refuse", "copying", "history", "listeners", "rest", "yours", "left"]
        {
            from_value::<ServingWord>(json!({ "word": word })).unwrap();
        }
        for word in ["refuse", "ready", "have", "live"] {
            from_value::<HeirWord>(json!({ "word": word })).unwrap();
        }
        for word in ["progress", "done", "refuse"] {
            from_value::<StarterWord>(json!({ "word": word })).unwrap();
        }
        from_value::<FirstWord>(json!({ "word": "ask" })).unwrap();
    }
}
