//! Taking a send through all its steps, whoever asked for it: here, or over all nodes of a cluster.

use std::hint;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use engine::{
    Answers, DirectMessage, Event, LaneBell, Outgoing, Receipt, Router, Sending, Step, Watches,
};
use graph::{Graph, Pair, WriteError};
use httpd::problem::{ApiProblem, sentence};
use hub::{ConnRef, Followers, IdText, MemberList};
use postgres::PostgresError;
use thiserror::Error;
use tokio::time::sleep;
use topics::UpdateFollowers;

use crate::barrier::{Barrier, WritePermit, WritePermitAtOnce};
use crate::channels::{ChannelReader, ChannelsAsked, ChannelsFound};
use crate::cluster::{Cluster, GraphTrouble, NoList, Pending};
use crate::members::list_text;
use crate::outcome::{Delivered, MAILBOX_TIMEOUT, Unposted, id};
use crate::send_options::SendOptions;

/// How long to wait before a full mailbox is tried again.
const MAILBOX_PAUSE: Duration = Duration::from_millis(1);

/// Steps of a send that does not wait: slices of some thousand followers, or looks whether another
/// is posted.
const SLICES_AT_ONCE: usize = 8;

/// What the frames of all transports put around an event at most: the size line of a chunk, SSE's
/// field names, the event id twice, member names.
pub const FRAME_BYTES: usize = 128;

/// Why subscriptions were not changed.
#[derive(Debug, Error)]
pub enum Unchanged {
    /// This server's own store.
    #[error(transparent)]
    Store(#[from] WriteError),
    /// The cluster's.
    #[error(transparent)]
    Cluster(#[from] GraphTrouble),
}

impl From<Unchanged> for ApiProblem {
    fn from(unchanged: Unchanged) -> ApiProblem {
        let trouble = match unchanged {
            Unchanged::Store(error) => return error.into(),
            Unchanged::Cluster(trouble) => trouble,
        };
        let detail = sentence(&trouble.to_string());
        match trouble {
            GraphTrouble::StandsStill => ApiProblem::new(StatusCode::CONFLICT, detail),
            GraphTrouble::Postgres(PostgresError::Refused(_)) => ApiProblem::bad_request(detail),
            _ => ApiProblem::unavailable(detail),
        }
    }
}

/// What a send without a wait came to.
pub enum PostedNow {
    /// The workers have it.
    Posted(Arc<Event>, Receipt),
    /// A mailbox is full, or another send is being posted. Nothing is done.
    Busy,
    /// Its audience is too large, or cannot be read. Nothing is done.
    TooMuch,
}

/// Hands events on. Everybody who sends has a clone.
#[derive(Clone)]
pub struct Sender {
    /// The way to all workers.
    pub router: Arc<Router>,
    /// Who follows whom.
    pub graph: Graph,
    /// The cluster that this server is a node of, if it is one.
    pub cluster: Option<Arc<Cluster>>,
    /// Who hears this server's own channels.
    pub channels: ChannelReader,
    /// Where whoever wants something changed gets the permit that is asked for here.
    pub barrier: Arc<Barrier>,
}

impl Sender {
    /// Hands an event to the mailboxes of all workers that have listeners of it, or to the log of
    /// the cluster.
    pub async fn send(
        &self,
        _permit: &WritePermit<'_>,
        outgoing: Outgoing,
        options: SendOptions,
    ) -> Result<Delivery, Unposted> {
        if let Some(cluster) = &self.cluster {
            return Ok(Delivery::Everywhere(cluster.send(outgoing, options).await?));
        }
        self.send_here(outgoing, &self.graph, options).await
    }

    /// Hands an update to those who listen to its topics, as `followers` knows them. Not in a
    /// cluster: there it is [sent](Sender::send), and each node looks who listens there.
    pub async fn publish(
        &self,
        _permit: &WritePermit<'_>,
        outgoing: Outgoing,
        followers: &UpdateFollowers<'_>,
    ) -> Result<Delivery, Unposted> {
        debug_assert!(self.cluster.is_none(), "it would be heard at this node alone");
        self.send_here(outgoing, followers, SendOptions::default()).await
    }

    async fn send_here(
        &self,
        outgoing: Outgoing,
        followers: &dyn Followers,
        options: SendOptions,
    ) -> Result<Delivery, Unposted> {
        let mut sending = self.router.send(outgoing);
        let receipt = finish(&mut sending, followers).await?;
        if let Some(marks) = options.marks {
            marks.posted(Instant::now());
        }
        let event = Arc::clone(sending.event().expect("what is posted has its number"));
        Ok(Delivery::Here { event, receipt })
    }

    /// Sends on a worker's thread, which is rung by `bell`. Not in a cluster.
    pub fn send_at_once(
        &self,
        _permit: &WritePermitAtOnce<'_>,
        outgoing: Outgoing,
        bell: LaneBell,
    ) -> PostedNow {
        self.step_at_once(outgoing, &self.graph, bell)
    }

    /// [Publishes](Sender::publish) on a worker's thread, likewise.
    pub fn publish_at_once(
        &self,
        _permit: &WritePermitAtOnce<'_>,
        outgoing: Outgoing,
        followers: &UpdateFollowers<'_>,
        bell: LaneBell,
    ) -> PostedNow {
        self.step_at_once(outgoing, followers, bell)
    }

    fn step_at_once(
        &self,
        outgoing: Outgoing,
        followers: &dyn Followers,
        bell: LaneBell,
    ) -> PostedNow {
        debug_assert!(self.cluster.is_none(), "it would be heard at this node alone");
        let mut sending = self.router.send(outgoing).for_lane(bell);
        for _ in 0..SLICES_AT_ONCE {
            match sending.step(followers) {
                Ok(Step::Posted(receipt)) => {
                    let event = sending.event().expect("what is posted has its number");
                    return PostedNow::Posted(Arc::clone(event), receipt);
                }
                // Others are being posted, by a few stores: a moment later it is our turn.
                Ok(Step::More) if sending.is_gathered() => hint::spin_loop(),
                Ok(Step::More) => {}
                Ok(Step::MailboxFull) => return PostedNow::Busy,
                Ok(Step::Stale | Step::NotKept) | Err(_) => return PostedNow::TooMuch,
            }
        }
        if sending.is_gathered() { PostedNow::Busy } else { PostedNow::TooMuch }
    }

    /// Adds or removes subscriptions; answers how many were new, or were there, once that is
    /// durable and every later send obeys.
    pub async fn change(
        &self,
        _permit: &WritePermit<'_>,
        add: bool,
        pairs: Vec<Pair>,
    ) -> Result<u64, Unchanged> {
        Ok(match &self.cluster {
            Some(cluster) => cluster.change(add, pairs).await?,
            None if add => self.graph.add(pairs).await?,
            None => self.graph.remove(pairs).await?,
        })
    }

    /// How many connections are logged in under `id`, and whether there may be more.
    pub async fn connections(&self, id: IdText<'_>) -> (u64, bool) {
        match &self.cluster {
            Some(cluster) => cluster.connections(&id.to_string()).await,
            None => (self.router.connections(id) as u64, false),
        }
    }

    /// Who is in a room, as clients are told it: in a cluster over all nodes. `watches` has those
    /// of this one.
    ///
    /// # Errors
    ///
    /// The cluster's log has not said it in time.
    pub async fn room_list(&self, watches: &Watches, room: IdText<'_>) -> Result<Arc<str>, NoList> {
        if let Some(cluster) = &self.cluster {
            return cluster.room_list(room.to_string()).await;
        }
        let nobody = MemberList { count: 0, members: Some(Vec::new()) };
        let id = self.router.names().lookup(room);
        let list = id.map_or(nobody, |id| watches.members().list(id));
        Ok(list_text(&room.to_string(), &list).into())
    }

    /// Who hears channels: in a cluster over all nodes.
    pub async fn channels(&self, asked: ChannelsAsked) -> ChannelsFound {
        if let Some(cluster) = &self.cluster {
            return cluster.channels(asked).await;
        }
        self.channels.found(asked).await
    }

    /// Ends all connections of `id`; answers how many there were, with the permit given back.
    pub async fn logout(
        &self,
        permit: WritePermit<'_>,
        id: IdText<'_>,
    ) -> Result<Delivered, Unposted> {
        if let Some(cluster) = &self.cluster {
            return Delivery::Everywhere(cluster.logout(id.to_string()).await?).answer().await;
        }
        let receipt = finish(&mut self.router.logout(id), &self.graph).await?;
        drop(permit);
        Ok(Delivered { id: [0; 16], count: receipt.await, at_least: false })
    }
}

/// An event that is on its way.
pub enum Delivery {
    /// The workers have it.
    Here {
        /// With its number.
        event: Arc<Event>,
        /// Who has it.
        receipt: Receipt,
    },
    /// The nodes of the cluster will have it.
    Everywhere(Pending),
}

impl Delivery {
    /// Waits until [`Delivery::ready`] tells something.
    pub async fn known(&mut self) {
        match self {
            Delivery::Here { receipt, .. } => drop(receipt.await),
            Delivery::Everywhere(pending) => pending.known().await,
        }
    }

    /// What it comes to, which is waited for.
    pub async fn answer(mut self) -> Result<Delivered, Unposted> {
        self.known().await;
        self.ready().expect("it was waited for")
    }

    /// What it came to, if that is known. It is told once.
    pub fn ready(&mut self) -> Option<Result<Delivered, Unposted>> {
        match self {
            Delivery::Here { event, receipt } => {
                let delivered = Delivered::of(event, receipt.ready()?);
                Some(if receipt.is_unsure() { Err(Unposted::NotDurable) } else { Ok(delivered) })
            }
            Delivery::Everywhere(pending) => pending.ready(),
        }
    }

    /// The id, if the event has one.
    pub fn id(&self) -> Option<[u8; 16]> {
        match self {
            Delivery::Here { event, .. } => Some(id(event)),
            Delivery::Everywhere(_) => None,
        }
    }

    /// What lies in memory until it is delivered.
    pub fn bytes(&self) -> usize {
        match self {
            Delivery::Here { event, .. } => event.json().len(),
            Delivery::Everywhere(pending) => pending.bytes(),
        }
    }
}

/// Says something to one connection, as soon as its worker's mailbox has room. A worker that takes
/// no more mail is at its end, and the runtime with it.
pub async fn say(answers: &Answers, conn: ConnRef, mut said: DirectMessage) {
    while let Err(again) = answers.say(conn, said) {
        said = again;
        sleep(MAILBOX_PAUSE).await;
    }
}

/// Takes all steps of a send, pausing where it must.
pub async fn finish(
    sending: &mut Sending<'_>,
    followers: &dyn Followers,
) -> Result<Receipt, Unposted> {
    let mut full_since = None;
    loop {
        match sending.step(followers)? {
            Step::Posted(receipt) => return Ok(receipt),
            Step::More => tokio::task::yield_now().await,
            Step::NotKept => return Err(Unposted::NotKept),
            Step::Stale => unreachable!("its number was not given from outside"),
            Step::MailboxFull => {
                let since = *full_since.get_or_insert_with(Instant::now);
                if since.elapsed() > MAILBOX_TIMEOUT {
                    return Err(Unposted::MailboxFull);
                }
                sleep(MAILBOX_PAUSE).await;
            }
        }
    }
}
