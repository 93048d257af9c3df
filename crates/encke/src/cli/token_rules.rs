//! The options that say which tokens are good: those of a server, and of `encke token check`, which
//! says what a server with the same ones would.

use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::tokens::{JwksSource, SigningKey, TokenRules};
use clap::Args;

use super::signer::TokenClaimsArgs;
use crate::units::parse_seconds;

/// Which tokens are good.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tokens")]
pub(crate) struct TokenRulesArgs {
    /// File with a key that verifies tokens.
    ///
    /// A secret of at least 32 bytes, a public key or certificate in PEM (RSA, P-256, Ed25519), a
    /// JWK or a set of them. A server reads it again when it changes, and on SIGHUP. Repeat the
    /// option for several keys.
    #[arg(long, value_name = "FILE")]
    token_key: Vec<PathBuf>,
    /// Set of public keys (JWKS) that may change: a file, or the URL of the issuer.
    #[arg(long, value_name = "FILE|URL")]
    token_jwks: Option<JwksSource>,
    /// Accept only tokens of this issuer (`iss`).
    #[arg(long, value_name = "TEXT")]
    token_issuer: Option<String>,
    /// Accept only tokens for this audience (`aud`).
    ///
    /// Repeat the option to accept several. Without it, a token that has an audience is refused.
    #[arg(long, value_name = "TEXT")]
    token_audience: Vec<String>,
    /// Seconds by which the clock of the issuer may differ, at most 600.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    token_leeway: Duration,
    /// Accept tokens that never expire (without `exp`), too.
    #[arg(long)]
    token_without_exp: bool,
}

impl TokenRulesArgs {
    /// Whether some tokens that are verified are not taken.
    pub(crate) fn restricts(&self) -> bool {
        self.token_issuer.is_some() || !self.token_audience.is_empty()
    }

    /// Whether tokens are asked for at all.
    pub(crate) fn asks(&self) -> bool {
        !self.token_key.is_empty() || self.token_jwks.is_some()
    }

    /// With what options a command of this program signs tokens that are taken, if one of the keys
    /// is for that, too.
    pub(crate) fn signing(&self) -> Option<Vec<String>> {
        // A pipe is read once, and has been.
        let is_file = |path: &Path| path.metadata().is_ok_and(|found| found.is_file());
        let mut keys = self.token_key.iter().filter(|path| is_file(path));
        let key = keys.find(|path| SigningKey::read(path).is_ok())?;
        let claims = TokenClaimsArgs {
            token_issuer: self.token_issuer.clone(),
            token_audience: self.token_audience.first().cloned().into_iter().collect(),
        };
        let key = ["--token-key".to_owned(), key.display().to_string()];
        Some(key.into_iter().chain(claims.options()).collect())
    }

    /// The rules, if there is any key.
    pub(crate) fn rules(self) -> Option<TokenRules> {
        self.asks().then_some(TokenRules {
            keys: self.token_key,
            jwks: self.token_jwks,
            issuer: self.token_issuer,
            audiences: self.token_audience,
            leeway: self.token_leeway,
            exp_required: !self.token_without_exp,
            ..TokenRules::default()
        })
    }
}
