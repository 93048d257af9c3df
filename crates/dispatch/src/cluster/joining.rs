//! A server that is to become a node: it reaches the log, before it begins to read it
//! ([`super::starting`]).

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use auth::keys::KeyFile;
use hub::{Epoch, Members};
use nats::NatsClient;

use super::agreement::Agreed;
use super::api_keys::join_first;
use super::chores::refuse_double;
use super::{ClusterConfig, KeptLog, keys};

/// A connection to the log, and what the nodes have agreed on, before the server is made.
pub struct Joining {
    pub(super) config: ClusterConfig,
    /// Where clients connect to this node, as the others are told.
    pub(super) address: String,
    pub(super) nats: NatsClient,
    pub(super) agreed: Agreed,
    /// By which all nodes hash idempotency keys.
    pub(super) keys_secret: [u8; 16],
    pub(super) api_keys: KeyFile,
    pub(super) kept: Option<Arc<dyn KeptLog>>,
    /// Who is in rooms, if this node tells it.
    pub(super) members: Option<Arc<Members>>,
}

impl Joining {
    /// Reaches the log. `above` is a number that this server has never given out anything beyond.
    pub async fn begin(config: ClusterConfig, above: u64, api_keys: KeyFile) -> Result<Self> {
        let nats =
            NatsClient::connect(config.nats.clone()).await.context("cannot join the cluster")?;
        let agreed = Agreed::on(&nats, above).await.context("cannot join the cluster")?;
        refuse_double(&nats, &config.node).await?;
        let keys_secret = keys::secret(&nats).await.context("cannot join the cluster")?;
        join_first(&nats, &api_keys).await.context("cannot join the cluster")?;
        Ok(Joining {
            config,
            address: String::new(),
            nats,
            agreed,
            keys_secret,
            api_keys,
            kept: None,
            members: None,
        })
    }

    /// What numbers and places are.
    pub fn epoch(&self) -> Epoch {
        self.agreed.hub_epoch()
    }

    /// By which all nodes hash idempotency keys.
    pub fn keys_secret(&self) -> [u8; 16] {
        self.keys_secret
    }

    /// Says where the node's clients connect.
    pub fn at(mut self, listen: SocketAddr) -> Joining {
        self.address = listen.to_string();
        self
    }

    /// Says that the node keeps events on disk.
    pub fn keeping(mut self, kept: Arc<dyn KeptLog>) -> Joining {
        self.kept = Some(kept);
        self
    }

    /// Says that the node tells who is in a room, if it has `members`.
    pub fn telling_rooms(mut self, members: Option<Arc<Members>>) -> Joining {
        self.members = members;
        self
    }
}
