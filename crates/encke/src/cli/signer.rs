//! `--token-key` of clients, and what goes with it: tokens for themselves, signed as an application
//! would do it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use auth::tokens::{NewGrant, NewToken, SigningKey};
use clap::Args;

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
    #[command(flatten)]
    claims: TokenClaimsArgs,
}

/// What tokens say that are signed, beside the ids. The options are those of a server, so that one
/// file of settings is right for both.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TokenClaimsArgs {
    /// The issuer (`iss`) of tokens that --token-key signs, if the server takes one issuer's only.
    #[arg(long, value_name = "TEXT")]
    pub(crate) token_issuer: Option<String>,
    /// For whom they are (`aud`), if the server takes those for an audience only.
    ///
    /// Of several it is the first.
    #[arg(long, value_name = "TEXT")]
    pub(crate) token_audience: Vec<String>,
}

impl TokenClaimsArgs {
    /// As options for a server that asks for them.
    pub(crate) fn options(&self) -> impl Iterator<Item = String> {
        let issuer = self.token_issuer.iter().map(|text| format!("--token-issuer={text}"));
        issuer.chain(self.token_audience.iter().map(|text| format!("--token-audience={text}")))
    }
}

impl TokenKeyArg {
    /// What signs, if tokens are to be signed.
    pub(crate) fn signer(&self) -> Result<Option<Signer>> {
        let read = |path: &PathBuf| Signer::read(path, self.claims.clone());
        self.token_key.as_ref().map(read).transpose()
    }
}

/// Signs tokens.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    key: Arc<SigningKey>,
    claims: TokenClaimsArgs,
}

impl Signer {
    /// Signs with what the file at `path` holds.
    pub(crate) fn read(path: &Path, claims: TokenClaimsArgs) -> Result<Signer> {
        let key = SigningKey::read(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        Ok(Signer { key: Arc::new(key), claims })
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
        self.key.sign(&NewToken {
            sub,
            iss: self.claims.token_issuer.clone(),
            aud: self.claims.token_audience.first().cloned(),
            iat: Some(now),
            exp: Some(now + LIFETIME_SECONDS),
            encke: NewGrant { ids, ..NewGrant::default() },
            ..NewToken::default()
        })
    }
}
