//! `--token-key` of clients: tokens for themselves, signed as an application would do it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::Args;
use server::tokens::{NewGrant, NewToken, SigningKey};

/// How long a token is good for: longer than most runs. It is kept nowhere, and who signs it can
/// sign the next one.
const LIFETIME_SECONDS: u64 = 7 * 86_400;

/// The option.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenKeyArg {
    /// Sign tokens with what this file holds, if streams need them: the secret of the server's
    /// --token-key, or the private key of P-256 or Ed25519 (PEM) to a public one.
    #[arg(long, value_name = "FILE")]
    token_key: Option<PathBuf>,
}

impl TokenKeyArg {
    /// What signs, if tokens are to be signed.
    pub(crate) fn signer(&self) -> Result<Option<Signer>> {
        self.token_key.as_deref().map(Signer::read).transpose()
    }
}

/// Signs tokens.
#[derive(Clone, Debug)]
pub(crate) struct Signer(Arc<SigningKey>);

impl Signer {
    /// Signs with what the file at `path` holds.
    pub(crate) fn read(path: &Path) -> Result<Signer> {
        let key = SigningKey::read(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        Ok(Signer(Arc::new(key)))
    }

    /// A token for `id`, about which it is, and for `more`.
    pub(crate) fn token(&self, id: &str, more: &[String]) -> String {
        self.sign(Some(id.to_owned()), more.to_vec())
    }

    /// A token for every id.
    pub(crate) fn token_for_all(&self) -> String {
        self.sign(None, vec!["*".to_owned()])
    }

    fn sign(&self, sub: Option<String>, ids: Vec<String>) -> String {
        let now = sys::clock::unix_ms() / 1000;
        self.0.sign(&NewToken {
            sub,
            iat: Some(now),
            exp: Some(now + LIFETIME_SECONDS),
            encke: NewGrant { ids, ..NewGrant::default() },
            ..NewToken::default()
        })
    }
}
