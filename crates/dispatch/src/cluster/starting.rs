//! A server becomes a node: it begins to read the log.

use std::sync::Arc;

use auth::token_service::TokenService;
use cluster::Known;
use engine::Router;
use graph::Graph;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::api_keys::join_all;
use super::channels::ChannelAnswers;
use super::chores::{forget_logs, refuse_all};
use super::graph_changes::{GraphChanges, Obeyed};
use super::joining::Joining;
use super::keys::Reading;
use super::log_applier::Posting;
use super::loop_ends::LoopEnds;
use super::node_loop::{NodeLoop, ReplicaLink};
use super::questions::AnswerParts;
use super::status::{Load, Standing};
use super::{COMMANDS_WAITING_MAX, Cluster, NodeStatus, ReplicaSync};
use super::{channels, outside, questions, rooms};
use crate::channels::ChannelReader;
use crate::idempotency::IdempotencyKeys;

impl Joining {
    /// Begins to read the log, and to be one of the nodes. `stop` is cancelled when the node is at
    /// its end although nobody asked for it.
    pub fn start(
        self,
        router: Arc<Router>,
        graph: Graph,
        replica_sync: Option<ReplicaSync>,
        tokens: Option<TokenService>,
        keys: Arc<IdempotencyKeys>,
        stop: CancellationToken,
    ) -> Arc<Cluster> {
        let (obey, obeyed) = watch::channel(Obeyed::default());
        let store = replica_sync.as_ref().map(ReplicaSync::store);
        let (ends, outside) = (stop.clone(), stop.clone());
        let changes = |store| Arc::new(GraphChanges { store, obeyed, stop: ends });
        let changes = store.map(changes);
        let (commands, asked) = mpsc::channel(COMMANDS_WAITING_MAX);
        let load = Arc::<Load>::default();
        let channels = ChannelReader::new(Arc::clone(&router), self.members.clone());
        let standing = Standing {
            router: Arc::clone(&router),
            channels: channels.clone(),
            load: Arc::clone(&load),
            nats: self.nats.clone(),
            cluster: self.config.nats.cluster.clone(),
            node: self.config.node.clone(),
            graph: replica_sync.as_ref().map(ReplicaSync::told),
        };
        let (tell, status) = watch::channel(NodeStatus::default());
        let drain = self.config.drain;
        self.begin_answers(Arc::clone(&router), load, &status, channels);
        tokio::spawn(forget_logs(self.nats.clone(), status.clone()));
        tokio::spawn(join_all(self.nats.clone(), self.api_keys.clone(), status.clone()));
        let (rooms, out) = rooms::ends(self.members.is_some(), &commands);
        let mut ends_of_loop = LoopEnds { commands: asked, tell, rooms: out };
        tokio::spawn(async move {
            let (replica, known) = match replica_sync {
                Some(mut replica_sync) => {
                    // A replica that is made anew has it no more.
                    let was_at = replica_sync.graph().replica_state().unwrap_or_default().at;
                    let known = tokio::select! {
                        known = replica_sync.begin(&self.nats, self.agreed.epoch().number) => known,
                        () = refuse_all(&mut ends_of_loop) => return,
                    };
                    let (node, every) = (self.config.node.clone(), self.config.check_every);
                    let replica_sync = replica_sync.checking(node, every);
                    (Some(ReplicaLink::start(replica_sync, was_at, obey)), known)
                }
                // It stands still.
                None => (None, Known::Nothing),
            };
            let kept = self.kept.clone();
            let posting = Posting { router, graph, tokens, keys, kept };
            NodeLoop::new(self, posting, (replica, known), ends_of_loop, stop).run().await;
        });
        let cluster = Arc::new(Cluster {
            commands,
            status,
            standing,
            long_questions: Semaphore::new(1),
            graph: changes,
            drain,
            reading: Reading::default(),
            rooms,
        });
        tokio::spawn(outside::mind(Arc::downgrade(&cluster), outside));
        cluster
    }

    /// Begins to answer what nodes ask each other.
    fn begin_answers(
        &self,
        router: Arc<Router>,
        load: Arc<Load>,
        status: &watch::Receiver<NodeStatus>,
        reader: ChannelReader,
    ) {
        let (node, nats) = (self.config.node.clone(), self.nats.clone());
        let (of_channels, address) = ((node.clone(), nats.clone()), self.address.clone());
        let answers = AnswerParts { node, address, nats, router, status: status.clone(), load };
        tokio::spawn(questions::answer(answers));
        let (node, nats) = of_channels;
        let answers = ChannelAnswers { node, nats, status: status.clone(), reader };
        tokio::spawn(channels::answer(answers));
    }
}
