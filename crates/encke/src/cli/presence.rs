//! The options of `encke serve` about ids that come and go.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use server::{PresenceConfig, WebhookSecret, WebhookUrl, WebhookUrlFault};

use super::UsageError;
use crate::units::{parse_seconds, whole};

/// The longest grace: what goes for longer has gone.
const GRACE_MAX: Duration = Duration::from_secs(3600);

/// Who is told that an id comes with its first connection, or has gone with its last one.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Presence")]
pub(crate) struct PresenceArgs {
    /// Time that an id must be gone before it is told offline, in seconds; 0 tells at once.
    ///
    /// If it comes back within that time, nothing is told.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_grace)]
    presence_grace: Duration,
    /// Members of an id that are listed where it is told who is there; 0 tells nobody.
    ///
    /// Of more, their count alone is told.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = whole(0..=usize::MAX))]
    members_max: usize,
    /// URL to post presence changes to, in signed batches of JSON.
    ///
    /// Each batch is repeated until the URL answers 2xx. Repeat the option, or give a list with
    /// commas.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        value_parser = webhook_url,
        requires = "webhook_secret_file"
    )]
    webhook: Vec<WebhookUrl>,
    /// File with the secret that batches are signed with, at least 16 bytes.
    ///
    /// The receiver has the same secret.
    #[arg(long, value_name = "FILE")]
    webhook_secret_file: Option<PathBuf>,
}

impl PresenceArgs {
    /// How many users of an id are listed.
    pub(crate) fn members_max(&self) -> usize {
        self.members_max
    }

    /// The settings; the secret is read where it is needed.
    pub(crate) fn config(self) -> Result<PresenceConfig> {
        let file = self.webhook_secret_file.filter(|_| !self.webhook.is_empty());
        let secret = file.as_deref().map(read_secret).transpose()?;
        let config = PresenceConfig::new(self.presence_grace, self.webhook, secret);
        config.map_err(|error| UsageError(error).into())
    }
}

fn webhook_url(text: &str) -> Result<WebhookUrl, String> {
    text.parse().map_err(|fault| match fault {
        WebhookUrlFault::HasPassword => format!("{fault} (--webhook-secret-file)"),
        WebhookUrlFault::NoUrl => fault.to_string(),
    })
}

fn read_secret(file: &Path) -> Result<WebhookSecret> {
    let text = fs::read_to_string(file).with_context(|| {
        format!("cannot read the secret in {}; check --webhook-secret-file", file.display())
    })?;
    text.parse().map_err(|error| anyhow!("{} holds no secret: {error}", file.display()))
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    let grace = parse_seconds(text)?;
    if grace > GRACE_MAX {
        return Err("write 3600 at most: that is an hour".into());
    }
    Ok(grace)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn secret_is_what_a_file_holds_and_no_error_shows_it() {
        let read = |content: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(content.as_bytes()).unwrap();
            read_secret(file.path())
        };
        assert!(read("0123456789abcdef\n").is_ok());
        let told = read("too-short").unwrap_err().to_string();
        assert!(told.contains("holds no secret") && !told.contains("too-short"), "{told}");
        let missing = read_secret(Path::new("/nowhere/secret")).unwrap_err();
        assert!(missing.to_string().contains("--webhook-secret-file"), "{missing}");
        let told = webhook_url("http://me:s3cret@a.example/").unwrap_err();
        assert!(told.contains("--webhook-secret-file") && !told.contains("s3cret"), "{told}");
        assert!(parse_grace("3601").is_err() && parse_grace("0").is_ok());
    }
}
