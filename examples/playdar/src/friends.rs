//! Queries to friends, over Encke's graph.
//!
//! Everybody's daemon listens to its own name on a shared Encke. A query of `alice` is an event
//! about `alice`: whoever follows her hears it, as far as the server stores it, and nobody else. A
//! follower that has the song answers by an event about the id that the query names. Only her
//! daemon listens to that id, and the song is played from the follower's own `/sid/`.
//!
//! | event about | heard by | says |
//! | --- | --- | --- |
//! | `alice` | who follows alice, and she | `rq`: the query, and where to answer |
//! | `alice` | who follows alice, and she | `listening`, `listened`: a song, see [`listens`] |
//! | `playdar:alice:<random>` | alice | `results`: where to play, and the songs |
//!
//! That begins with her name so that a token which grants `alice` and `playdar:alice:*` keeps
//! answers to herself. Nor can a query make friends write to anybody but its asker. Queries of
//! friends go no further than to the LAN: friends of friends are not asked.

mod args;
mod encke;
mod message;
mod node;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use proto::ApiKey;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::listens;
use crate::model::new_id;
use crate::pipeline::Pipeline;
use crate::resolver::{Profile, Queue};
pub use args::FriendsArgs;
use encke::Encke;
pub use message::ServerUrl;
use node::{FriendsNode, Inputs};

/// Queries that wait to be posted.
const ASKED_MAX: usize = 64;

/// Events that were heard and wait for their turn; while they do, the stream is not read.
const HEARD_MAX: usize = 64;

/// Bytes of our name, which stands in the id of the answers too, of 255.
const NAME_BYTES_MAX: usize = 100;

/// Who our friends are, and how they reach us.
#[derive(Clone, Debug)]
pub struct FriendsConfig {
    /// The shared Encke's public port.
    pub streams: ServerUrl,
    /// Its API.
    pub api: ServerUrl,
    /// Who we are there.
    pub name: String,
    /// What its API is shown; a key of the scope `send` is enough.
    pub key: Option<ApiKey>,
    /// The file with what its streams are shown; read for each connection, so that it may change.
    pub token_file: Option<PathBuf>,
    /// Where friends reach our `/sid/`. Without it we ask, and answer nobody.
    pub base: Option<ServerUrl>,
    /// How long a connect, or an answer, may take.
    pub answer_timeout: Duration,
}

/// The friends, as long as they are listened to.
pub struct Friends {
    listens: mpsc::Sender<Value>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// Begins to listen to friends, and to ask them what `pipeline` is asked. An Encke that is away is
/// tried again and again, and friends are not asked meanwhile.
///
/// # Errors
/// The name is none, or TLS is wanted and the system trusts nobody; the message says what to do.
pub fn start(config: FriendsConfig, pipeline: &Pipeline) -> Result<Friends> {
    let name = &config.name;
    // With ':' the answers to `alice:x` would be those that a token of alice grants.
    let is_id = |c: char| !c.is_control() && !c.is_whitespace() && !"/?#:".contains(c);
    ensure!(
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_id),
        "--name is no id of Encke: give 1 to {NAME_BYTES_MAX} bytes without white space, '/', '?', \
         '#' and ':'"
    );
    let encke = Arc::new(Encke::new(&config)?);
    let inbox = message::inbox(name, &new_id());
    let stop = CancellationToken::new();
    let (sender, asked) = mpsc::channel(ASKED_MAX);
    let (heard, heard_by_us) = mpsc::channel(HEARD_MAX);
    let (listens, listened) = mpsc::channel(listens::WAITING_MAX);
    pipeline.add(Arc::new(Queue { profile: profile(), sender }));
    let mut tasks = JoinSet::new();
    let ids = [name.clone(), inbox.clone()];
    tasks.spawn(encke::listen(encke.clone(), ids, heard, stop.clone()));
    tasks.spawn(encke::tell(encke.clone(), name.clone(), listened, stop.clone()));
    let node = FriendsNode::new(config, pipeline.clone(), encke, inbox);
    tasks.spawn(node.run(Inputs { asked, heard: heard_by_us }, stop.clone()));
    Ok(Friends { listens, stop, tasks })
}

impl Friends {
    /// Takes what is told whoever follows us of the songs that we listen to.
    pub fn listens(&self) -> mpsc::Sender<Value> {
        self.listens.clone()
    }

    /// Ends.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.join_all().await;
    }
}

/// The friends as the pipeline sees them: weight and time of the old daemon's own protocol. Local
/// only: a friend's query would else go on to ours, who have not chosen to hear it.
fn profile() -> Profile {
    Profile {
        name: "friends".to_owned(),
        weight: 60,
        target_time: Duration::from_secs(1),
        is_local_only: true,
        preference: 60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_would_hear_the_answers_of_another_is_refused() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "alice:x", "a b", "a/b", "a?", "a#", "a\n", &long] {
            let url: ServerUrl = "http://127.0.0.1:1".parse().unwrap();
            let (streams, api, name) = (url.clone(), url, name.to_owned());
            let (key, token_file, base, answer_timeout) = (None, None, None, Duration::ZERO);
            let config =
                FriendsConfig { streams, api, name, key, token_file, base, answer_timeout };
            let refused = start(config, &Pipeline::new()).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("--name is no id"), "{refused}");
        }
    }
}
