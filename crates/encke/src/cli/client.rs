//! What the commands have in common that talk to a server's API.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use hub::{IdError, IdText};
use load::{Trust, Version};
use proto::ApiKey;
use serde::Serialize;
use serde_json::Value;

use crate::client::{ApiClient, ServerUrl};

/// Where the API is.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApiArgs {
    /// The server's API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8001")]
    api: ServerUrl,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    ca: CaArg,
}

/// Who vouches for a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct CaArg {
    /// File of certificates (PEM) to trust a server at https:// by, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

impl CaArg {
    /// Whom a load tool trusts that goes to `url`, if that takes trust, and the newest version of
    /// TLS that it speaks there.
    pub(crate) fn trust(&self, url: &str, newest: Version) -> Result<Option<Trust>> {
        if !url.starts_with("https://") {
            return Ok(None);
        }
        Ok(Some(Trust::new(server::roots(self.ca.as_deref())?, newest)?))
    }
}

/// What the API is shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArg {
    /// The key to show to the API, if it wants one (`encke key new`), or @ and the file that it
    /// stands in.
    ///
    /// Better as ENCKE_KEY or @FILE: others on this machine can see command lines.
    #[arg(long, value_name = "KEY|@FILE", value_parser = parse_key)]
    pub(crate) key: Option<ApiKey>,
}

impl ApiArgs {
    /// The server, with the key that it is shown.
    pub(crate) fn server(&self) -> Result<ServerUrl> {
        self.api.clone().with_ca(self.ca.ca.clone()).with_key(self.key.key.clone())
    }

    /// The server as a URL, a key, and whom a load tool trusts.
    pub(crate) fn parts(self) -> Result<(String, Option<ApiKey>, Option<Trust>)> {
        let url = self.api.to_string();
        let trust = self.ca.trust(&url, Version::Tls13)?;
        Ok((url, self.key.key.filter(|key| !key.is_empty()), trust))
    }
}

/// Reads a key, or the file that it stands in. No message shows a key.
fn parse_key(text: &str) -> Result<ApiKey, String> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned().into()) };
    let read = std::fs::read_to_string(path);
    let read = read.map_err(|error| {
        format!("cannot read the key in {path} ({error}); check its path, owner and mode")
    })?;
    Ok(read.into())
}

/// Reads an id. One that the server would refuse is wrong usage, told before anybody is asked.
pub(crate) fn parse_id(text: &str) -> Result<String, IdError> {
    IdText::parse(text).map(|_| text.to_owned())
}

/// The runtime of a command that is a client.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start; check the limit on descriptors (ulimit -n)")
}

/// The answer to `body` at `path`.
pub(crate) fn post(args: &ApiArgs, path: &str, body: &impl Serialize) -> Result<Value> {
    let server = args.server()?;
    runtime()?.block_on(async { ApiClient::connect(&server).await?.post(path, body).await })
}

/// The answer at `path`.
pub(crate) fn get(args: &ApiArgs, path: &str) -> Result<Value> {
    let server = args.server()?;
    runtime()?.block_on(async { ApiClient::connect(&server).await?.get(path).await })
}
