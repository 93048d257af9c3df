//! The options of the Mercure protocol.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use server::HubConfig;

use super::UsageError;

/// Who may listen and publish by the Mercure protocol.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Mercure")]
pub(crate) struct MercureArgs {
    /// File with a key that verifies tokens of publishers and subscribers of the Mercure protocol.
    ///
    /// The same kinds of files as for --token-key. They are read again when they change, and on
    /// SIGHUP. The option serves the protocol at /.well-known/mercure. Repeat it for several keys.
    #[arg(long, value_name = "FILE")]
    mercure_key: Vec<PathBuf>,
    /// File with a key that verifies tokens of publishers only.
    #[arg(long, value_name = "FILE")]
    mercure_publish_key: Vec<PathBuf>,
    /// File with a key that verifies tokens of subscribers only.
    #[arg(long, value_name = "FILE")]
    mercure_subscribe_key: Vec<PathBuf>,
    /// Let clients without a token subscribe to public updates.
    #[arg(long)]
    mercure_open: bool,
    /// Issuer (iss) whose tokens of Mercure 1.0 are taken. Without the option, any issuer's are.
    ///
    /// Repeat it for several issuers. Each signs with the keys of --mercure-key and its like.
    #[arg(long, value_name = "ISSUER")]
    mercure_issuer: Vec<String>,
}

impl MercureArgs {
    /// The hub, if there is to be one.
    pub(crate) fn config(&self) -> Result<Option<HubConfig>> {
        let MercureArgs { mercure_key, mercure_open: is_open, .. } = self;
        let with = |own: &[PathBuf]| -> Vec<PathBuf> { [&mercure_key[..], own].concat() };
        let publish_keys = with(&self.mercure_publish_key);
        let subscribe_keys = with(&self.mercure_subscribe_key);
        let is_open = *is_open;
        let issuers = self.mercure_issuer.clone();
        if publish_keys.is_empty() && subscribe_keys.is_empty() {
            if !issuers.is_empty() {
                let why = "--mercure-issuer is about tokens that the key of --mercure-key \
                           verifies: give it such a key as well";
                return Err(UsageError(why.to_owned()).into());
            }
            if is_open {
                let why = "--mercure-open opens the hub of --mercure-key: give it a key of \
                           publishers as well, with --mercure-key or --mercure-publish-key";
                return Err(UsageError(why.to_owned()).into());
            }
            return Ok(None);
        }
        Ok(Some(HubConfig { publish_keys, subscribe_keys, is_open, issuers }))
    }
}
