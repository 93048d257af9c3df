//! The new program is started, and heard of.

use std::process;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::conversation::Conversation;
use super::super::messages::{Ask, Hello, common_version};
use super::super::program;
use super::{Stage, UNDER_WAY, Upgrades, other_versions};

/// How long a new program may take until it is heard of.
const HELLO_MAX: Duration = Duration::from_secs(60);

/// Why no program is being started.
pub(super) enum NotStarted {
    /// Another one is, or was.
    Busy(&'static str),
    Failed(String),
}

/// With this process its PID namespace ends.
const FIRST_PROCESS: u32 = 1;

const CONTAINER: &str = "this server is the first process of its container, which would end with \
                         it: start the new version in a container of its own with encke serve \
                         --take-over, on the same data (docs/upgrade.md)";

pub(super) const OVER: &str = "another program has taken over from this one: ask again, and where \
                               nobody answers then its log says why";

impl Upgrades {
    pub(super) async fn start_program(
        &self,
        ask: &Ask,
    ) -> Result<(Child, Conversation, Hello), NotStarted> {
        let (sender, hello) = oneshot::channel();
        {
            let mut stage = self.stage();
            match &*stage {
                Stage::Nothing => {}
                Stage::Started(_) | Stage::UnderWay => return Err(NotStarted::Busy(UNDER_WAY)),
                Stage::Over => return Err(NotStarted::Busy(OVER)),
            }
            *stage = Stage::Started(sender);
        }
        self.start_and_hear(ask, hello).await.map_err(NotStarted::Failed)
    }

    async fn start_and_hear(
        &self,
        ask: &Ask,
        hello: oneshot::Receiver<(Conversation, Hello)>,
    ) -> Result<(Child, Conversation, Hello), String> {
        if let Some(why) = self.obstacle() {
            return Err(why);
        }
        if common_version(&ask.versions).is_none() && !ask.versions.is_empty() {
            return Err(other_versions(&ask.versions));
        }
        if process::id() == FIRST_PROCESS {
            return Err(CONTAINER.to_owned());
        }
        let program = self.program.as_ref().ok_or("nobody knows what to start here")?;
        let binary = ask.binary.as_deref().unwrap_or(&program.binary);
        let started = program.start(ask.binary.as_deref(), ask.config.as_deref());
        let mut child = started.map_err(|error| {
            let binary = binary.display();
            format!("cannot start {binary}: {error}; name the new program with --binary")
        })?;
        let heard = tokio::select! {
            heard = timeout(HELLO_MAX, hello) => match heard {
                Ok(Ok(heard)) => Ok(heard),
                Ok(Err(_)) => Err("the new program is not awaited any more".to_owned()),
                Err(_) => Err(format!(
                    "the new program ({}) has said nothing within {} s",
                    binary.display(),
                    HELLO_MAX.as_secs()
                )),
            },
            ended = child.wait() => {
                let ended = ended.map_or_else(|_| "ended".to_owned(), |it| program::ended(&it));
                Err(format!(
                    "the new program ({}) {ended} before it said a word: what it has written to \
                     standard error says why; one that knows no --inherit, as --take-over was \
                     called, is too old",
                    binary.display()
                ))
            }
            () = self.ending.cancelled() => Err("the server is ending".to_owned()),
        };
        match heard {
            Ok((successor, hello)) => Ok((child, successor, hello)),
            Err(why) => {
                // Fails where it has ended.
                let _ = child.kill().await;
                Err(why)
            }
        }
    }
}
