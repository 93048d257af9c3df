//! The hub of the Mercure protocol: who may listen and who may publish, by the keys of their
//! tokens.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use auth::hub_tokens::HubTokens;
use auth::tokens::{Revocations, TokenRules};
use engine::{MercureConfig, TokenCheck, TokenQueue};
use mercure::{HubUrl, PATH};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What a server is told of the Mercure protocol.
#[derive(Clone, Debug, Default)]
pub struct HubConfig {
    /// Files with keys of those who publish.
    pub publish_keys: Vec<PathBuf>,
    /// Files with keys of those who listen.
    pub subscribe_keys: Vec<PathBuf>,
    /// Whether one without a token hears what is public.
    pub is_open: bool,
    /// By whom tokens of Mercure 1.0 are issued; anybody where none is named.
    pub issuers: Vec<String>,
}

/// The hub.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Nobody may publish where there is no key.
    publish: Option<Arc<HubTokens>>,
    subscribe: Option<Arc<HubTokens>>,
    /// What workers are told.
    config: MercureConfig,
    /// Room for signatures of publishers that take long to verify, of the API port and of the
    /// public one, where strangers may send what they like: backends do not wait for them.
    verifying: [Arc<Semaphore>; 2],
}

/// How many such signatures of one port are verified at one time.
const VERIFIED_AT_ONCE: usize = 1;

impl Hub {
    /// Reads the keys. Where others than this machine can reach the server no secret is taken that
    /// everybody knows. `public_url` is the address of the public port, where the operator has
    /// named it. What is revoked is known where streams need tokens.
    pub(crate) fn open(
        config: HubConfig,
        public_url: Option<String>,
        is_reached: bool,
        revocations: Option<&Arc<Revocations>>,
    ) -> Result<Hub> {
        let tokens = |keys: Vec<PathBuf>| {
            let rules = TokenRules { keys, is_reached, ..TokenRules::default() };
            (!rules.keys.is_empty())
                .then(|| HubTokens::open(rules, revocations.cloned()))
                .transpose()
        };
        let url = public_url.map(|url| {
            let text = format!("{url}{PATH}");
            HubUrl::parse(&text).ok_or_else(|| anyhow!("--public-url is no address: {text}"))
        });
        let HubConfig { publish_keys, subscribe_keys, is_open, issuers } = config;
        let (publish, subscribe) = (tokens(publish_keys)?, tokens(subscribe_keys)?);
        let verifying = [(); 2].map(|()| Arc::new(Semaphore::new(VERIFIED_AT_ONCE)));
        if is_open && is_reached && url.is_none() {
            tracing::warn!(
                "--mercure-open without --public-url: clients without a token name the hub as they \
                 like, and can take the places of URL patterns. Set --public-url"
            );
        }
        let check = subscribe.clone().map(|tokens| tokens as Arc<dyn TokenCheck>);
        let issuers = issuers.into_iter().map(Into::into).collect();
        let config = MercureConfig { hub: url.transpose()?, is_open, check, issuers };
        Ok(Hub { publish, subscribe, config, verifying })
    }

    /// What workers are told.
    pub(crate) fn config(&self) -> &MercureConfig {
        &self.config
    }

    /// Begins to verify what workers ask at `queue`, until `stop`.
    pub(crate) fn begin(&self, queue: TokenQueue, stop: &CancellationToken) -> Result<()> {
        self.publish.iter().chain(&self.subscribe).for_each(|tokens| tokens.watch(stop));
        self.subscribe.iter().try_for_each(|tokens| tokens.answer(queue.clone(), stop))
    }

    /// Who knows the keys of those who publish.
    pub(crate) fn publish(&self) -> Option<&Arc<HubTokens>> {
        self.publish.as_ref()
    }

    /// Where to wait before a signature is verified that takes long, of a client of the public port
    /// or of a backend.
    pub(crate) fn verifying(&self, is_public: bool) -> Arc<Semaphore> {
        Arc::clone(&self.verifying[usize::from(is_public)])
    }
}
