//! Who asks the server that runs for an upgrade: `encke upgrade`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use tokio::net::UnixStream;

use super::conversation::{Broken, Conversation};
use super::messages::{Ask, Done, FirstMessage, StarterMessage, Step, VERSIONS};
use super::socket;

/// How long the server may say nothing: longer than any step may take in which nothing moves.
const SILENT_MAX: Duration = Duration::from_secs(150);

/// Why there was no upgrade, or why nobody knows. The text says what to do.
#[derive(Debug, Error)]
pub enum UpgradeError {
    /// Nobody answers.
    #[error(
        "no server runs with the data in {0}: give --data as it was given to the server, or start \
         one with encke serve"
    )]
    NoServer(PathBuf),
    /// The socket cannot be reached.
    #[error("the server's socket in {0} cannot be reached: {1}; be the server's user, or root")]
    Socket(PathBuf, std::io::Error),
    /// Who answers is not whom to believe.
    #[error(
        "a process of another user answers in {0}: it is not the server's, and nothing was asked \
         of it"
    )]
    Foreign(PathBuf),
    /// The server goes on as it was.
    #[error("{0}; the server goes on as before")]
    Refused(String),
    /// It said no last word.
    #[error(
        "the server stopped telling how the upgrade goes ({0}): its log says what became of it"
    )]
    Unknown(String),
}

/// An upgrade that was asked for.
pub struct Upgrade {
    server: Conversation,
}

/// What is heard of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpgradeProgress {
    /// It goes on.
    Step(Step),
    /// The new program serves.
    Done(Done),
}

impl Upgrade {
    /// Asks the server that runs with `data` to start `binary`, or else what it was started from,
    /// with the file of settings `config`, or else its own, and to leave everything to that.
    pub async fn ask(
        data: &Path,
        binary: Option<PathBuf>,
        config: Option<PathBuf>,
    ) -> Result<Upgrade, UpgradeError> {
        let stream: Option<UnixStream> = socket::connect(data)
            .await
            .map_err(|error| UpgradeError::Socket(data.to_owned(), error))?;
        let stream = stream.ok_or_else(|| UpgradeError::NoServer(data.to_owned()))?;
        let mut server = Conversation::new(stream);
        let peer = server.peer().and_then(|peer| socket::may_answer(data, peer));
        match peer.map_err(|error| UpgradeError::Socket(data.to_owned(), error))? {
            true => {}
            false => return Err(UpgradeError::Foreign(data.to_owned())),
        }
        let ask = Ask { versions: VERSIONS.to_vec(), binary, config };
        server.say(&FirstMessage::Ask(ask)).await.map_err(unknown)?;
        Ok(Upgrade { server })
    }

    /// Waits until something is heard of it. Nothing comes behind [`UpgradeProgress::Done`].
    pub async fn next(&mut self) -> Result<UpgradeProgress, UpgradeError> {
        loop {
            match self.server.hear_within(SILENT_MAX).await.map_err(unknown)? {
                StarterMessage::Progress(step) => return Ok(UpgradeProgress::Step(step)),
                StarterMessage::Done(done) => return Ok(UpgradeProgress::Done(done)),
                StarterMessage::Refuse(refusal) => return Err(UpgradeError::Refused(refusal.why)),
                StarterMessage::Unknown => {}
            }
        }
    }
}

fn unknown(error: Broken) -> UpgradeError {
    UpgradeError::Unknown(error.to_string())
}
