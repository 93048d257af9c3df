//! Who may listen at `encke serve`: whoever shows a token, or anybody.

use clap::Args;
use server::StreamAccess;

use super::UsageError;
use super::token_rules::TokenRulesArgs;

/// The options about who may listen.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    rules: TokenRulesArgs,
    /// Name of the cookie that may carry a token.
    ///
    /// It counts only for pages that may connect.
    #[arg(long, value_name = "NAME", default_value = "encke_token", value_parser = parse_cookie)]
    pub(crate) token_cookie: String,
    /// Let every client listen under every id.
    ///
    /// Without tokens and without this option, only this machine can open streams.
    #[arg(long)]
    open: bool,
}

/// What a listener needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ToListen {
    /// Nothing.
    Nothing,
    /// A token that it can sign by itself, with these options.
    Signing(Vec<String>),
    /// A token that somebody else signs.
    Token,
}

impl TokenArgs {
    /// What a listener on this machine needs.
    pub(crate) fn to_listen(&self) -> ToListen {
        if !self.rules.asks() {
            return ToListen::Nothing;
        }
        self.rules.signing().map_or(ToListen::Token, ToListen::Signing)
    }

    /// Who may listen.
    pub(crate) fn access(self) -> Result<StreamAccess, UsageError> {
        let restricts = self.rules.restricts();
        match (self.rules.rules(), self.open) {
            (Some(_), true) => Err(UsageError(
                "--open lets anybody listen as anybody: leave it out, or leave out --token-key and \
                 --token-jwks"
                    .into(),
            )),
            (Some(rules), false) => Ok(StreamAccess::Tokens(rules)),
            (None, _) if restricts => Err(UsageError(
                "--token-issuer and --token-audience say which tokens are taken, but nothing says \
                 how they are verified: add --token-key or --token-jwks"
                    .into(),
            )),
            (None, true) => Ok(StreamAccess::Open),
            (None, false) => Ok(StreamAccess::Unsaid),
        }
    }
}

/// A token of RFC 9110, which is what a cookie may be called (RFC 6265, section 4.1.1).
fn parse_cookie(text: &str) -> Result<String, String> {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !text.is_empty() && text.bytes().all(may) {
        true => Ok(text.to_owned()),
        false => Err("write a name of letters, digits, '-', '_' and '.' alone".into()),
    }
}
