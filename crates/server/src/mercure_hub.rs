//! The hub of the Mercure protocol: who may listen and who may publish, by the keys of their
//! tokens.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use auth::hub_tokens::HubTokens;
use auth::token_service::KnownRevoked;
use auth::tokens::TokenRules;
use dispatch::count::SharedCount;
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
    /// public one, where anonymous clients may send what they like: backends do not wait for them.
    verifying: [Arc<Semaphore>; 2],
    /// What became of updates.
    publishes: [SharedCount; PUBLISH_OUTCOMES],
}

/// What became of an update that somebody wanted to publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PublishOutcome {
    /// It has its id.
    Posted,
    /// It was none, or too large.
    Invalid,
    /// There was no token, or a wrong one.
    Unauthorized,
    /// Its token does not grant a topic.
    Denied,
    /// The server could not take it.
    Unavailable,
}

/// How many kinds of outcome there are.
pub(crate) const PUBLISH_OUTCOMES: usize = PublishOutcome::ALL.len();

impl PublishOutcome {
    /// Each one.
    pub(crate) const ALL: [PublishOutcome; 5] = [
        PublishOutcome::Posted,
        PublishOutcome::Invalid,
        PublishOutcome::Unauthorized,
        PublishOutcome::Denied,
        PublishOutcome::Unavailable,
    ];

    /// Its name in figures.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            PublishOutcome::Posted => "posted",
            PublishOutcome::Invalid => "invalid",
            PublishOutcome::Unauthorized => "unauthorized",
            PublishOutcome::Denied => "denied",
            PublishOutcome::Unavailable => "unavailable",
        }
    }

    /// Of an answer with this status.
    pub(crate) const fn of_status(status: u16) -> PublishOutcome {
        match status {
            0..400 => PublishOutcome::Posted,
            401 => PublishOutcome::Unauthorized,
            403 => PublishOutcome::Denied,
            400..500 => PublishOutcome::Invalid,
            500.. => PublishOutcome::Unavailable,
        }
    }
}

/// How many such signatures of one port are verified at one time.
const VERIFIED_AT_ONCE: usize = 1;

impl Hub {
    /// Reads the keys. Where others than this machine can reach the server no secret is taken that
    /// everybody knows. `public_url` is the address of the public port, where the operator has
    /// named it. A node of a cluster tells clients of 1.0 less. What is revoked is known where
    /// streams need tokens.
    pub(crate) fn open(
        config: HubConfig,
        public_url: Option<String>,
        is_reached: bool,
        revoked: Option<&KnownRevoked>,
    ) -> Result<Hub> {
        let tokens = |keys: Vec<PathBuf>| {
            let rules = TokenRules { keys, is_reached, ..TokenRules::default() };
            (!rules.keys.is_empty()).then(|| HubTokens::open(rules, revoked.cloned())).transpose()
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
        let hub = url.transpose()?;
        let config = MercureConfig { hub, is_open, check, issuers };
        Ok(Hub { publish, subscribe, config, verifying, publishes: Default::default() })
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

    /// Reads the files of keys again, as SIGHUP asks for. A file of both kinds is read for each.
    pub(crate) async fn reload(&self) {
        for tokens in self.publish.iter().chain(&self.subscribe) {
            tokens.reload().await;
        }
    }

    /// Who knows the keys of those who publish.
    pub(crate) fn publish(&self) -> Option<&Arc<HubTokens>> {
        self.publish.as_ref()
    }

    /// Who knows the keys of those who listen.
    pub(crate) fn subscribe(&self) -> Option<&Arc<HubTokens>> {
        self.subscribe.as_ref()
    }

    /// Where to wait before a signature is verified that takes long, of a client of the public port
    /// or of a backend.
    pub(crate) fn verifying(&self, is_public: bool) -> Arc<Semaphore> {
        Arc::clone(&self.verifying[usize::from(is_public)])
    }

    /// Counts an update by the status of its answer.
    pub(crate) fn count_publish(&self, status: u16) {
        self.publishes[PublishOutcome::of_status(status) as usize].add(1);
    }

    /// Counts on from what another process has counted, by name.
    pub(crate) fn count_on(&self, publishes: &[(String, u64)]) {
        for (name, count) in publishes {
            let outcome = PublishOutcome::ALL.iter().find(|outcome| outcome.as_str() == name);
            outcome.into_iter().for_each(|of| self.publishes[*of as usize].add(*count));
        }
    }

    /// How often what became of updates, in the order of [`PublishOutcome::ALL`].
    pub(crate) fn publishes(&self) -> [u64; PUBLISH_OUTCOMES] {
        PublishOutcome::ALL.map(|outcome| self.publishes[outcome as usize].read())
    }
}
