//! `encke token`: makes tokens for tests and small installations, and says what one grants. No
//! server is asked.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use auth::tokens::{JwksRefresher, NewGrant, NewToken, Revocations, SigningKey, Verifier};
use clap::{Args, Subcommand};
use hub::{Grant, INFO_BYTES_MAX, IdError, IdPatterns, PATH_BYTES_MAX, TokenRefusal};
use serde_json::{Value, json};

use super::client::{parse_id, runtime};
use super::token_rules::TokenRulesArgs;
use crate::console::{say, tell};
use crate::system::random_digits;
use crate::units::{parse_lifetime, span, whole};

/// What is read of standard input: more than a token may have, with white space around it.
const INPUT_BYTES_MAX: u64 = 16 << 10;

/// Makes tokens of streams, and checks them.
///
/// In production whoever logs your users in signs their tokens, by any library of JWT.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  openssl rand -base64 48 > secret && chmod 600 secret
  encke token new --token-key secret --sub bob
  encke token new --token-key secret --sub bob --ids news 'room:*' --expires 8h
  encke token new --token-key secret --sub bob | encke token check --token-key secret")]
pub(crate) struct TokenCommandArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    New(Box<NewTokenArgs>),
    Check(Box<TokenCheckArgs>),
}

/// Makes a token and prints it.
///
/// It has a name (`jti`) by which it can be revoked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke token new --token-key secret --sub bob
  encke token new --token-key private.pem --sub bob --ids news 'room:*' --expires 8h
  encke token new --token-key secret --sub ann --ids room:7 --send room:7 --members room:7
  encke token new --token-key secret --ids '*' --expires 5m --max-connections 1
  curl -H \"Authorization: Bearer $(encke token new --token-key secret --sub bob)\" …")]
struct NewTokenArgs {
    /// What it is signed with: a secret as it is or as a JWK, or a private key of P-256 or Ed25519
    /// in PEM (PKCS#8).
    #[arg(long, value_name = "FILE")]
    token_key: PathBuf,
    /// The id that it is about, under which its bearer may log in.
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    #[arg(required_unless_present_any = ["ids", "send", "members", "history", "read", "write"])]
    sub: Option<String>,
    /// More ids under which its bearer may log in, or with * at the end all that begin so.
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_granted)]
    ids: Vec<String>,
    /// About which ids its bearer may send; a * as in --ids.
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_granted)]
    send: Vec<String>,
    /// Of which ids its bearer may ask who is logged in there; a * as in --ids.
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_granted)]
    members: Vec<String>,
    /// Of which ids its bearer may read what was sent about them; a * as in --ids.
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_granted)]
    history: Vec<String>,
    /// Which durable streams its bearer may read: paths, or with * at the end all that begin so.
    #[arg(long, value_name = "PATH", num_args = 1.., value_parser = parse_granted_path)]
    read: Vec<String>,
    /// To which durable streams its bearer may append; a * as in --read.
    #[arg(long, value_name = "PATH", num_args = 1.., value_parser = parse_granted_path)]
    write: Vec<String>,
    /// What others are told of its bearer where it is a member, at most 1 KiB.
    #[arg(long, value_name = "JSON", value_parser = parse_info)]
    info: Option<Value>,
    /// How long it is good for.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_lifetime)]
    expires: Duration,
    /// Under how many ids one connection may be logged in; as many as a server lets in unless
    /// given.
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    max_ids: Option<u32>,
    /// How many connections it is good for at one time; any number unless given.
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    max_connections: Option<u32>,
    /// The name of the key, where a server has several (`kid`).
    #[arg(long, value_name = "TEXT")]
    kid: Option<String>,
    /// By whom it says it is issued (`iss`).
    #[arg(long, value_name = "TEXT")]
    token_issuer: Option<String>,
    /// For whom it says it is (`aud`).
    #[arg(long, value_name = "TEXT")]
    token_audience: Option<String>,
    /// Print the token and what it says as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a token from standard input, and prints what it grants or why it is refused.
///
/// It is checked as a server with the same options would do it. What was revoked is known with
/// --data only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo \"$TOKEN\" | encke token check --token-key public.pem
  encke token check --token-jwks https://issuer.example/jwks.json --token-audience push < token
  encke token check --token-key secret --data /var/lib/encke --json < token")]
struct TokenCheckArgs {
    #[command(flatten)]
    rules: TokenRulesArgs,
    /// The data directory of the server, where it remembers what was revoked.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print what it grants, or why it is refused, as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: TokenCommandArgs) -> Result<()> {
    match args.command {
        TokenCommand::New(args) => new(*args),
        TokenCommand::Check(args) => check(*args),
    }
}

fn new(args: NewTokenArgs) -> Result<()> {
    let key = SigningKey::read(&args.token_key)
        .map_err(|error| anyhow!("{}: {error}", args.token_key.display()))?;
    let now = now();
    let encke = NewGrant {
        ids: args.ids,
        send: args.send,
        members: args.members,
        history: args.history,
        read: args.read,
        write: args.write,
        info: args.info,
        max_ids: args.max_ids,
        max_connections: args.max_connections,
    };
    let token = NewToken {
        sub: args.sub,
        iss: args.token_issuer,
        aud: args.token_audience,
        iat: Some(now),
        exp: Some(now + args.expires.as_secs()),
        // 96 random bits: nobody makes so many tokens that two were called the same.
        jti: Some(random_digits::<12>()?),
        encke,
    };
    let text = key.named(args.kid).sign(&token);
    if args.json {
        let mut line = serde_json::to_value(&token)?;
        line["token"] = text.into();
        return Ok(say(line.to_string())?);
    }
    say(text)?;
    let jti = token.jti.unwrap_or_default();
    tell(format!("token {jti}: expires in {}", span(args.expires.as_secs())));
    Ok(())
}

fn check(args: TokenCheckArgs) -> Result<()> {
    let rules = args.rules.rules();
    let rules = rules.context("say with which key: --token-key FILE or --token-jwks FILE|URL")?;
    let revocations = args.data.as_deref().map(Revocations::open).transpose()?.map(Arc::new);
    let verifier = Arc::new(Verifier::open(rules, revocations)?);
    let token = read_token()?;
    runtime()?.block_on(async {
        let refresher = JwksRefresher::new(Arc::clone(&verifier))?;
        if let Some(mut refresher) = refresher {
            refresher.look().await;
        }
        anyhow::Ok(())
    })?;
    match verifier.verify(&token) {
        Ok(grant) => say(if args.json { described(&grant).to_string() } else { words(&grant) })?,
        Err(refusal) => {
            if args.json {
                say(refused(refusal).to_string())?;
            }
            return Err(anyhow!("the token is refused ({}): {refusal}", refusal.as_str()));
        }
    }
    Ok(())
}

/// The token on standard input: an argument could be seen by others on the machine.
fn read_token() -> Result<String> {
    let mut text = String::new();
    let input = io::stdin().take(INPUT_BYTES_MAX).read_to_string(&mut text);
    input.context("cannot read the token from standard input; give it as text: echo TOKEN | …")?;
    let token = text.trim();
    ensure!(!token.is_empty(), "there is no token on standard input: echo \"$TOKEN\" | encke …");
    Ok(token.to_owned())
}

fn refused(refusal: TokenRefusal) -> Value {
    json!({ "granted": false, "refused": refusal.as_str(), "detail": refusal.to_string() })
}

/// A grant for programs.
fn described(grant: &Grant) -> Value {
    let talk = grant.talk.as_deref().cloned().unwrap_or_default();
    let info: Option<Value> = talk.info.and_then(|info| serde_json::from_str(info.json()).ok());
    json!({
        "granted": true, "sub": grant.subject, "ids": texts(&grant.ids), "send": texts(&talk.send),
        "members": texts(&talk.members), "history": texts(&talk.history), "info": info,
        "read": texts(&talk.read), "write": texts(&talk.write),
        "expires": grant.expires, "issued": grant.issued, "jti": grant.token,
        "max_ids": grant.ids_max, "max_connections": grant.connections_max,
    })
}

fn texts(list: &IdPatterns) -> Vec<String> {
    list.texts().map(String::from).collect()
}

/// A grant for people.
fn words(grant: &Grant) -> String {
    let subject = grant.subject.iter().map(|id| id.to_string());
    let ids: Vec<String> = subject.chain(texts(&grant.ids)).collect();
    let mut words = String::from("good:");
    if !ids.is_empty() {
        words += &format!(" may log in as {};", ids.join(", "));
    }
    let talk = grant.talk.as_deref().cloned().unwrap_or_default();
    let may = [
        ("send about", &talk.send),
        ("ask for the members of", &talk.members),
        ("read the history of", &talk.history),
        ("read the durable streams", &talk.read),
        ("append to the durable streams", &talk.write),
    ];
    for (what, list) in may.into_iter().filter(|(_, list)| !list.is_empty()) {
        words += &format!(" may {what} {};", texts(list).join(", "));
    }
    words.truncate(words.trim_end_matches(';').len());
    if let Some(most) = grant.ids_max {
        words += &format!("; at most {most} ids a connection");
    }
    if let Some(most) = grant.connections_max {
        words += &format!("; at most {most} connections");
    }
    if let Some(name) = &grant.token {
        words += &format!("; jti {name}");
    }
    words
        + &match grant.expires {
            Some(at) => {
                format!("; taken for {} more, leeway included", span(at.saturating_sub(now())))
            }
            None => "; never expires".into(),
        }
}

fn parse_granted(text: &str) -> Result<String, IdError> {
    match text.strip_suffix('*') {
        Some("") => Ok(text.to_owned()),
        Some(prefix) => parse_id(prefix).map(|_| text.to_owned()),
        None => parse_id(text),
    }
}

fn parse_granted_path(text: &str) -> Result<String> {
    let is_path = IdPatterns::parse_paths([text.into()]).is_ok();
    ensure!(
        is_path,
        "write the path of a durable stream: 1 to {PATH_BYTES_MAX} bytes, no control characters"
    );
    Ok(text.to_owned())
}

fn parse_info(text: &str) -> Result<Value> {
    ensure!(
        text.len() <= INFO_BYTES_MAX,
        "write {INFO_BYTES_MAX} bytes at most: these are {}",
        text.len()
    );
    let info: Value = serde_json::from_str(text).context("write JSON, such as '{\"seat\": 7}'")?;
    ensure!(!info.is_null(), "--info null has no effect: leave it out");
    Ok(info)
}

/// Seconds since 1970.
fn now() -> u64 {
    sys::clock::unix_ms() / 1000
}
