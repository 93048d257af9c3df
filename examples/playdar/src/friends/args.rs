//! The options of friends on the command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use proto::ApiKey;

use super::{FriendsConfig, ServerUrl};
use crate::sending::ANSWER_TIMEOUT;

/// More than a key has.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Who the friends are and how they reach us.
#[derive(Debug, Args)]
pub struct FriendsArgs {
    /// Ask those who follow `--name` on this Encke, and answer those whom it follows: the
    /// addresses of its streams and of its API, with a comma between them.
    #[arg(long, value_name = "STREAMS,API", env = "PLAYDAR_FRIENDS", requires = "name")]
    #[arg(value_parser = parse_pair)]
    friends: Option<(ServerUrl, ServerUrl)>,
    /// The file with the key that Encke's API is shown; one of the scope `send` is enough.
    #[arg(long, value_name = "FILE", env = "PLAYDAR_KEY_FILE", requires = "friends")]
    key_file: Option<PathBuf>,
    /// The file with the token that Encke's streams are shown, which grants `NAME` and
    /// `playdar:NAME:*`. It is read anew for each connection.
    #[arg(long, value_name = "FILE", env = "PLAYDAR_TOKEN_FILE", requires = "friends")]
    token_file: Option<PathBuf>,
    /// Where friends reach this daemon to play its songs, as `http://alice.example:60210`. Without
    /// it friends are asked and not answered.
    #[arg(long, value_name = "URL", env = "PLAYDAR_PUBLIC_URL", requires = "friends")]
    #[arg(value_parser = ServerUrl::plain)]
    public_url: Option<ServerUrl>,
}

impl FriendsArgs {
    /// What they say, for a daemon that is called `name`; nothing where there are no friends.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn config(self, name: &str) -> Result<Option<FriendsConfig>> {
        let Some((streams, api)) = self.friends else { return Ok(None) };
        let key = self.key_file.as_deref().map(key).transpose()?;
        let (name, token_file, base) = (name.to_owned(), self.token_file, self.public_url);
        let answer_timeout = ANSWER_TIMEOUT;
        Ok(Some(FriendsConfig { streams, api, name, key, token_file, base, answer_timeout }))
    }
}

fn parse_pair(text: &str) -> Result<(ServerUrl, ServerUrl), String> {
    let (streams, api) = text.split_once(',').ok_or_else(|| {
        "give two addresses, of Encke's streams and of its API, as \
         http://encke.example:8000,http://encke.example:8001"
            .to_owned()
    })?;
    Ok((streams.parse()?, api.parse()?))
}

/// The key in a file. No message shows it.
fn key(path: &Path) -> Result<ApiKey> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let key = read().with_context(|| format!("cannot read --key-file {}", path.display()))?;
    let key = ApiKey::from(key);
    ensure!(
        key.authorization().is_some(),
        "--key-file {} holds no key: put one there as `encke key new` printed it",
        path.display()
    );
    Ok(key)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        friends: FriendsArgs,
    }

    fn config(line: &str) -> Result<Option<FriendsConfig>> {
        let cli = Cli::try_parse_from(line.split(' '))?;
        cli.friends.config(&cli.name.unwrap_or_default())
    }

    #[test]
    fn friends_take_two_addresses_and_a_name() {
        assert!(config("playdar").unwrap().is_none());
        let given = config("playdar --name alice --friends http://a.test:8000,https://a.test");
        let given = given.unwrap().unwrap();
        assert_eq!((given.name.as_str(), given.base), ("alice", None));
        assert_eq!(given.api.to_string(), "https://a.test");
        for (wrong, why) in [
            ("playdar --name alice --friends http://a.test:8000", "two addresses"),
            ("playdar --name alice --friends a.test,b.test", "http://"),
            ("playdar --friends http://a.test,http://b.test", "--name"),
            ("playdar --name alice --public-url http://a.test", "--friends"),
        ] {
            let error = config(wrong).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{wrong}: {error:#}");
        }
    }

    #[test]
    fn key_is_read_from_its_file_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |path: &Path| {
            let path = path.display();
            format!("playdar --name a --friends http://a.test,http://b.test --key-file {path}")
        };
        std::fs::write(file.path(), "encke_a_secret\n").unwrap();
        let given = config(&line(file.path())).unwrap().unwrap();
        let key = given.key.clone().unwrap();
        assert_eq!(key.authorization().unwrap(), "Bearer encke_a_secret");
        assert!(!format!("{given:?}").contains("secret"));
        std::fs::write(file.path(), "a secret\nof two lines").unwrap();
        let error = format!("{:#}", config(&line(file.path())).unwrap_err());
        assert!(error.contains("holds no key") && !error.contains("two lines"), "{error}");
        assert!(config(&line(Path::new("/nowhere/key"))).is_err());
    }
}
