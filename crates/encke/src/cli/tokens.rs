//! `--token-…` and `--open`: who may listen.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use server::StreamAccess;
use server::tokens::{JwksSource, TokenRules};

use crate::units::parse_seconds;

/// The options about tokens.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tokens of streams")]
pub(crate) struct TokenArgs {
    /// A key by which tokens (JWT) of streams are verified: a file with a secret, a public key or a
    /// certificate (PEM), or a JWK or a set of them. May be repeated.
    #[arg(long, value_name = "FILE")]
    token_key: Vec<PathBuf>,
    /// A set of keys (JWKS) for the same, a file or a URL, that is looked at again and again.
    #[arg(long, value_name = "FILE|URL")]
    token_jwks: Option<JwksSource>,
    /// Take tokens of this issuer (iss) alone.
    #[arg(long, value_name = "ISS")]
    token_issuer: Option<String>,
    /// Take tokens for this audience (aud) alone. May be repeated: one of them is enough.
    #[arg(long, value_name = "AUD")]
    token_audience: Vec<String>,
    /// By how much the clocks of those who sign tokens may differ from this one, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    token_leeway: Duration,
    /// Take tokens without an expiry (exp), too.
    #[arg(long)]
    token_without_exp: bool,
    /// The cookie in which a token may come, from pages that may connect.
    #[arg(long, value_name = "NAME", default_value = "encke_token", value_parser = parse_cookie)]
    pub(crate) token_cookie: String,
    /// Let anybody listen as anybody. Without tokens and without this, streams are for this machine
    /// alone.
    #[arg(long)]
    open: bool,
}

impl TokenArgs {
    /// Who may listen.
    pub(crate) fn access(&self) -> Result<StreamAccess> {
        let has_keys = !self.token_key.is_empty() || self.token_jwks.is_some();
        if self.open && has_keys {
            bail!(
                "--open lets anybody listen as anybody: leave it out, or --token-key and --token-jwks"
            );
        }
        let restricts = self.token_issuer.is_some() || !self.token_audience.is_empty();
        if restricts && !has_keys {
            bail!(
                "--token-issuer and --token-audience say which tokens are taken, but nothing says \
                 how they are verified: add --token-key or --token-jwks"
            );
        }
        Ok(match (has_keys, self.open) {
            (true, _) => StreamAccess::Tokens(self.rules()),
            (false, true) => StreamAccess::Open,
            (false, false) => StreamAccess::Unsaid,
        })
    }

    fn rules(&self) -> TokenRules {
        TokenRules {
            keys: self.token_key.clone(),
            jwks: self.token_jwks.clone(),
            issuer: self.token_issuer.clone(),
            audiences: self.token_audience.clone(),
            leeway: self.token_leeway,
            exp_required: !self.token_without_exp,
        }
    }
}

/// A token of RFC 9110, which is what a cookie may be called (RFC 6265, section 4.1.1).
fn parse_cookie(text: &str) -> Result<String, String> {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !text.is_empty() && text.bytes().all(may) {
        true => Ok(text.to_owned()),
        false => Err("a cookie's name has letters, digits and -_. alone".into()),
    }
}
