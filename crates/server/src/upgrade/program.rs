//! The program that is to take over: what it is started as, and that it is heard of when it ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

/// What a server was started as, so that it can be started again.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program. What stands there when it is started is what runs, so a file that was replaced
    /// is the new version.
    pub binary: PathBuf,
    /// The words behind it.
    pub args: Vec<OsString>,
}

/// The option by which a server takes over.
const TAKE_OVER: &str = "--take-over";

/// Its first name, which all versions know: a successor may be an earlier one.
const INHERIT: &str = "--inherit";

/// In the environment of a successor: its command line is no user's, who would be warned of an old
/// name there.
pub const SUCCESSOR: &str = "ENCKE_SUCCESSOR";

/// The option that names a file of settings.
const CONFIG: &str = "--config";

impl Program {
    /// Starts it in order to take over, perhaps as another `binary`, or with another `config`. Its
    /// standard streams are ours.
    pub(super) fn start(&self, binary: Option<&Path>, config: Option<&Path>) -> io::Result<Child> {
        let mut command = Command::new(binary.unwrap_or(&self.binary));
        command.args(successor_args(&self.args, config)).env(SUCCESSOR, "1");
        command.spawn()
    }
}

/// The words of a server that takes over from one with these, perhaps with another `config`.
fn successor_args(args: &[OsString], config: Option<&Path>) -> Vec<OsString> {
    let mut words = Vec::with_capacity(args.len() + 2);
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        match config.is_some() && is_option(word, CONFIG) {
            // Its value is the next word, unless it stands in the same.
            true if word == CONFIG => drop(rest.next()),
            true => {}
            false if word == INHERIT || word == TAKE_OVER => {}
            false => words.push(word.clone()),
        }
    }
    if let Some(config) = config {
        words.extend([CONFIG.into(), config.into()]);
    }
    words.push(INHERIT.into());
    words
}

/// Whether `word` is the option `name`, with its value or without.
fn is_option(word: &OsStr, name: &str) -> bool {
    let word = word.as_encoded_bytes();
    word.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
}

/// Ends a program that is not wanted any more, if it does not do so by itself in time.
pub(super) async fn end(mut child: Child, patience: Duration) {
    if timeout(patience, child.wait()).await.is_err() {
        // Fails where it has ended.
        let _ = child.kill().await;
    }
}

/// What became of a program that has ended, as a part of a sentence.
pub(super) fn ended(status: &ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn successor(args: &[&str], config: Option<&str>) -> Vec<String> {
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        let words = successor_args(&args, config.map(Path::new));
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn successor_is_started_as_the_one_before_and_told_to_take_over() {
        let args = ["serve", "--data=d", "--config", "a.toml"];
        assert_eq!(successor(&args, None), [&args[..], &["--inherit"]].concat());
        let again = [&args[..], &["--inherit"]].concat();
        assert_eq!(successor(&again, None), again, "of one that took over itself");
        let by_hand = [&args[..], &["--take-over"]].concat();
        assert_eq!(successor(&by_hand, None), again, "of one that somebody else had started");
        let other = ["serve", "--data=d", "--config", "b.toml", "--inherit"];
        assert_eq!(successor(&args, Some("b.toml")), other);
        let joined = ["--config=a.toml", "serve", "--data=d", "--inherit"];
        assert_eq!(successor(&joined, Some("b.toml")), other);
    }
}
