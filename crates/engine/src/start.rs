//! Starting the workers, reading their counters, and ending them.

mod error;
mod guard;
mod lanes;
mod passing_on;
mod ways;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use hub::{Changes, ConnRef, ConnectionIds, Directory, Epoch, EventIds, Names};
use sync::connection_limit::ConnectionLimit;
use sync::permits::ServingPermits;
use sync::replies::Replies;
use sync::room::{Capacities, WorkerCapacity};
use sys::table::{self, AsFdDyn};
use sys::{clock, group, limits as process_limits, machine};

pub use self::error::StartError;
use self::error::claim;
use self::guard::EndProcessOnPanic;
use crate::account::Account;
use crate::addresses::Addresses;
use crate::client_sends::ClientSends;
use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::counters::{Counters, Snapshot, WorkerSnapshot};
use crate::fan_outs::RungPermits;
use crate::guest::Guest;
use crate::handing_out::HandOuts;
use crate::handover::{HandoverReceiver, Predecessor, TakeoverState};
use crate::history_reads::HistoryReads;
use crate::lane::{LaneControl, LaneSocket};
use crate::limits;
use crate::mailbox::{Mailbox, Order};
use crate::notices::Notices;
use crate::resume::Resumes;
use crate::router::Router;
use crate::settings::Settings;
use crate::shard::Shared;
use crate::tls::HandshakeLimits;
use crate::tokens::Tokens;
use crate::watch::Watches;
use crate::worker::Worker;

/// How far back the time of one that takes connections over reaches.
const SUCCESSOR_PAST_MS: u64 = 600_000;

/// The socket of a lane: its end and the control plane's.
pub(crate) type LaneEnds = (Arc<LaneSocket>, Arc<LaneControl>);

/// The running data plane.
pub struct Engine {
    router: Arc<Router>,
    guest: Option<Guest>,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    mailboxes: Arc<[Arc<Mailbox>]>,
    replies: Arc<Replies>,
    resumes: Arc<Resumes>,
    tokens: Arc<Tokens>,
    hub_tokens: Arc<Tokens>,
    client_sends: Arc<ClientSends>,
    history_reads: Arc<HistoryReads>,
    counters: Vec<Arc<Counters>>,
    account: Arc<Account>,
    notices: Arc<Notices>,
    /// Where connections come that workers hand out.
    hand_outs: Option<HandOuts>,
    /// Who watches who is in a room, where that is kept.
    watches: Option<Watches>,
    capacities: Arc<Capacities>,
    addresses: Arc<Addresses>,
    /// Those of the first workers, which may have lanes.
    lane_sockets: Arc<[LaneEnds]>,
    /// Where clients connect without TLS.
    plain_address: Option<SocketAddr>,
    /// What the workers are to be told; `None` once they have been.
    closed: Option<(EngineConfig, Vec<Shared>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Makes it and opens it; events have the numbers of `epoch`. When this returns, clients can
    /// connect.
    pub fn start(
        config: EngineConfig,
        epoch: Epoch,
        names: Arc<Names>,
    ) -> Result<Engine, StartError> {
        let mut engine = Engine::prepare(config, epoch, names)?;
        engine.open()?;
        Ok(engine)
    }

    /// Makes all but the workers: what the control plane needs in order to be ready for clients.
    pub fn prepare(
        mut config: EngineConfig,
        epoch: Epoch,
        names: Arc<Names>,
    ) -> Result<Engine, StartError> {
        config.listen = config.listen.map(claim).transpose()?;
        if let Some(tls) = &mut config.tls {
            tls.listen = claim(tls.listen)?;
        }
        Engine::assemble(config, epoch, names, None)
    }

    fn assemble(
        mut config: EngineConfig,
        epoch: Epoch,
        names: Arc<Names>,
        from: Option<&Predecessor>,
    ) -> Result<Engine, StartError> {
        let tls_address = config.tls.as_ref().map(|tls| tls.listen);
        let plain_address = config.listen;
        let address = config.listen.or(tls_address).ok_or(StartError::NoPort)?;
        names.set_bytes_max(config.ids_bytes_max);
        let guests = usize::from(config.guest);
        config.workers = config.workers.clamp(1, ConnRef::WORKERS_MAX - guests);
        let descriptors = process_limits::descriptors().map_err(StartError::Worker)?;
        let room = descriptors.soft.saturating_sub(limits::DESCRIPTORS_RESERVED) as usize;
        let cores = machine::cores();
        let lanes = lanes::count(config.workers, cores, descriptors.soft);
        let ends = |(lane, control)| (Arc::new(lane), Arc::new(control));
        let lane_sockets: io::Result<Arc<[_]>> =
            (0..lanes).map(|_| LaneSocket::pair().map(ends)).collect();
        let lane_sockets = lane_sockets.map_err(StartError::Worker)?;
        let connection_limit = Arc::new(ConnectionLimit::new(config.connections_max));
        let account = Arc::new(Account::new(config.buffered_bytes_max));
        let keys = from.map(|from| from.address_keys);
        let addresses = Addresses::new(config.per_address, config.trusted.clone(), keys);
        let addresses = Arc::new(addresses);
        let mailboxes: io::Result<Arc<[_]>> =
            (0..config.workers + guests).map(|_| Mailbox::new().map(Arc::new)).collect();
        let mailboxes = mailboxes.map_err(StartError::Worker)?;
        let directory = Arc::new(Directory::noting(Changes::new(names.clone())));
        let replies = Arc::new(Replies::new().map_err(StartError::Worker)?);
        let event_ids = match config.cluster {
            true => EventIds::of_cluster(epoch),
            false => EventIds::new(epoch),
        };
        let event_ids = Arc::new(event_ids);
        let resumes = Arc::new(Resumes::new(replies.clone()));
        let [tokens, hub_tokens] = [(); 2].map(|()| Arc::new(Tokens::new(names.key())));
        let client_sends = Arc::new(ClientSends::new(replies.clone()));
        let history_reads = Arc::new(HistoryReads::new(replies.clone()));
        let hand_outs = config.hands_any_out().then(|| HandOuts::new(&addresses, &tokens));
        let (to_hand_out, hand_outs) = hand_outs.transpose().map_err(StartError::Worker)?.unzip();
        let notices = Arc::<Notices>::default();
        let rooms = config.rooms(&names, &replies);
        let topics = config.topics(&names, event_ids.last());
        let router = Router::new(
            names.clone(),
            directory.clone(),
            mailboxes.clone(),
            replies.clone(),
            event_ids.clone(),
            config.history,
            Clock::System,
        );
        let router = router.with_event_store(config.event_store.clone().map(|store| store.0));
        let router = router.with_rules(config.history, &config.remember);
        let router = router.with_pusher(config.pusher.clone()).with_topics(topics.clone());
        let guest = mailboxes.get(config.workers).map(|mailbox| {
            Guest::new(config.workers, mailbox.clone(), names.clone(), directory.clone())
        });
        let handshake_limits = HandshakeLimits::new(config.workers, config.connections_max, cores);
        // What has come over has a past, which no time before the start could hold.
        let past_ms = if from.is_some() { SUCCESSOR_PAST_MS } else { 0 };
        let started_ms = clock::monotonic_ms().saturating_sub(past_ms);
        let permits = ServingPermits::new(config.workers, cores).map(Arc::new);
        let fan_outs = RungPermits::of(config.workers, cores, descriptors.soft, &mailboxes);
        let rings =
            |worker| if worker < lanes || fan_outs.is_some() { mailboxes.len() } else { lanes };
        let connection_ids = ConnectionIds::random();
        let shared = |worker| Shared {
            names: names.clone(),
            directory: directory.clone(),
            counters: Arc::new(Counters::default()),
            connection_limit: connection_limit.clone(),
            account: account.clone(),
            addresses: addresses.clone(),
            connection_ids,
            event_ids: event_ids.clone(),
            resumes: resumes.clone(),
            tokens: tokens.clone(),
            hub_tokens: hub_tokens.clone(),
            client_sends: client_sends.clone(),
            history_reads: history_reads.clone(),
            notices: notices.clone(),
            hand_outs: to_hand_out.clone(),
            rooms: rooms.clone(),
            topics: topics.clone(),
            handshake_limits: handshake_limits.clone(),
            slots_max: room.saturating_sub(lanes::reserved(
                worker < lanes,
                rings(worker),
                descriptors.soft,
            )),
            started_ms,
            permits: permits.clone(),
            fan_outs: fan_outs.clone(),
        };
        let shared: Vec<Shared> = (0..config.workers).map(shared).collect();
        let watches = rooms.map(|rooms| Watches::new(mailboxes.clone(), names, rooms));
        Ok(Engine {
            router: Arc::new(router),
            guest,
            address,
            tls_address,
            mailboxes,
            replies,
            resumes: resumes.clone(),
            tokens,
            hub_tokens,
            client_sends,
            history_reads,
            counters: shared.iter().map(|shared| shared.counters.clone()).collect(),
            account,
            notices,
            hand_outs,
            watches,
            capacities: Arc::new(Capacities::new(config.workers)),
            addresses,
            lane_sockets,
            plain_address,
            closed: Some((config, shared)),
            threads: Vec::new(),
        })
    }

    /// Starts the workers, once. When this returns, clients can connect.
    pub fn open(&mut self) -> Result<(), StartError> {
        let Some((config, shared)) = self.closed.take() else { return Ok(()) };
        // One after the other, and each listens before the next is begun: so a worker's number is
        // its listener's index in the group, by which the kernel is told who is full.
        for (worker, shared) in shared.into_iter().enumerate() {
            if let Err(error) = self.spawn(worker, config.clone(), shared, None) {
                self.drain(0);
                return Err(StartError::Worker(error));
            }
        }
        Ok(())
    }

    /// Whether clients can connect.
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.counters.len()
    }

    /// Where clients connect, with the port that was chosen: that for TLS where there is no other.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where they connect by TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Sets what may be set while it runs, from the workers' next turns on.
    pub fn set(&self, settings: Settings) {
        let settings = Arc::new(settings);
        for mailbox in self.mailboxes.iter().take(self.threads.len()) {
            mailbox.post_order(Order::Settings(settings.clone()));
        }
    }

    /// What the log is to be told of clients: somebody must take it.
    pub fn notices(&self) -> &Arc<Notices> {
        &self.notices
    }

    /// Whether a full worker can leave the listening group to the others on this kernel. Where it
    /// cannot, it answers 503 although others have room.
    pub fn full_workers_leave(&self) -> bool {
        group::is_supported()
    }

    /// The guest, for the one who keeps its connections; `None` when there is none, or it is taken.
    pub fn take_guest(&mut self) -> Option<Guest> {
        self.guest.take()
    }

    /// What is kept for all connections together.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// All counters as they stand.
    pub fn snapshot(&self) -> Snapshot {
        let workers = self.counters.iter().zip(self.mailboxes.iter());
        let snapshot = |(counters, mailbox): (&Arc<Counters>, &Arc<Mailbox>)| WorkerSnapshot {
            mails_waiting: mailbox.len() as u64,
            ..counters.snapshot()
        };
        Snapshot {
            workers: workers.map(snapshot).collect(),
            buffered_bytes: self.account.bytes() as u64,
        }
    }

    /// Begins to end all streams, evenly over `over_ms`, because other nodes take their clients:
    /// these are told to come back at once, and who comes here meanwhile is answered 503. Events go
    /// on to those that are still there. Does not wait, and [`Engine::drain`] is still to come.
    pub fn move_away(&self, over_ms: u64) {
        for mailbox in self.mailboxes.iter().take(self.threads.len()) {
            mailbox.post_order(Order::Move(over_ms));
        }
    }

    /// Stops accepting, delivers the mail that is posted, ends all streams and waits until the last
    /// connection is gone, for `grace_ms` at most; those that are left then are cut off. Blocks.
    pub fn drain(&mut self, grace_ms: u64) {
        let deadline_ms = clock::monotonic_ms() + grace_ms;
        // A worker that never started keeps its mail, which is no loss.
        for mailbox in self.mailboxes.iter().take(self.threads.len()) {
            // Fails only where the end has been posted before.
            let _ = mailbox.post_drain(deadline_ms);
        }
        for thread in self.threads.drain(..) {
            // A worker that panics has ended the process already.
            let _ = thread.join();
        }
    }

    fn spawn(
        &mut self,
        worker: usize,
        config: EngineConfig,
        shared: Shared,
        takeover: Option<Arc<TakeoverState>>,
    ) -> io::Result<()> {
        let (mailbox, replies) = (self.mailboxes[worker].clone(), self.replies.clone());
        let capacity = WorkerCapacity::new(self.capacities.clone(), worker);
        let lane_socket = self.lane_sockets.get(worker).map(|(lane, _)| Arc::clone(lane));
        // Who has a lane sends mail to all, and is answered by all. A permit may be for any.
        let (mailboxes, rings_all) = (self.mailboxes.clone(), shared.fan_outs.is_some());
        let rings_all = rings_all || lane_socket.is_some();
        let rung = if rings_all { mailboxes.len() } else { self.lane_sockets.len() };
        let (started, start) = mpsc::sync_channel(1);
        let run = move || {
            let _guard = EndProcessOnPanic;
            let listen = config.listens();
            let at_once = if takeover.is_some() { &[][..] } else { &listen };
            let is_in_order = takeover.as_ref().is_some_and(|takeover| takeover.is_one_to_one());
            let begin = || {
                let mut keep: Vec<&dyn AsFdDyn> = vec![&*mailbox, &*replies];
                keep.extend(mailboxes[..rung].iter().map(|other| &**other as &dyn AsFdDyn));
                keep.extend(lane_socket.iter().map(|socket| &**socket as &dyn AsFdDyn));
                keep.extend(shared.hand_outs.iter().map(|socket| &**socket as &dyn AsFdDyn));
                table::make_private(&keep)?;
                let mut worker = Worker::new(at_once, worker, config, shared, mailbox, capacity)?;
                if let Some(socket) = lane_socket {
                    worker.set_lane_socket(socket)?;
                }
                let number = worker.number();
                let receiver = takeover
                    .map(|takeover| HandoverReceiver::new(takeover, number, listen.clone()));
                Ok((worker, receiver.transpose()?))
            };
            let (begun, outcome) = match begin() {
                Ok(begun) => (Some(begun), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Fails only when the starter is gone, and then nobody wants to know.
            let _ = started.send(outcome);
            let outcome = match begun {
                Some((worker, Some(receiver))) => worker.take_over(receiver, is_in_order),
                Some((worker, None)) => worker.run(),
                None => Ok(()),
            };
            if let Err(error) = outcome {
                panic!("it cannot go on: {error}");
            }
        };
        let thread = thread::Builder::new().name(format!("worker-{worker}")).spawn(run)?;
        let outcome = start.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")));
        if outcome.is_ok() {
            self.threads.push(thread);
        }
        outcome
    }
}
