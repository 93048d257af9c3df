//! The control plane's side: which connections are leased, and what becomes of them.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dispatch::wake_fd::WakeFd;
use engine::limits::LANE_MESSAGE_BYTES;
use engine::{Engine, LaneBell, LaneControl};
use httpd::host::ApiHosts;
use sys::clock;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::head::{FIRST_LINE_BYTES_MAX, is_first};
use super::message::{GivenBack, Lease, Return};
use super::rest::LaneRest;
use super::work::{SendLane, Shared};
use crate::api::Api;

/// The lanes of a server.
pub(crate) struct Lanes {
    lanes: Vec<LaneEnd>,
    /// How many connections each may have.
    places: usize,
    shared: Arc<Shared>,
    ids: AtomicU64,
    /// How many connections are out.
    leased: watch::Sender<usize>,
}

/// One of them, from here.
struct LaneEnd {
    control: Arc<LaneControl>,
    bell: LaneBell,
    rest: Arc<LaneRest>,
    /// Whom to tell what becomes of each connection.
    out: Mutex<HashMap<u64, oneshot::Sender<GivenBack>>>,
}

/// What became of a connection.
pub(crate) enum Leased {
    /// There is no place for it, or all lanes rest.
    No(TcpStream),
    /// It goes on here.
    Back {
        stream: TcpStream,
        /// A send of it was answered there.
        has_served: bool,
        /// Of the last answer, what is not sent yet.
        unsent: Vec<u8>,
        /// What was read of it.
        unread: Vec<u8>,
    },
    /// Its client is gone.
    Closed,
}

/// Whether a client that has sent this first is one for lanes.
pub(crate) async fn prefers(stream: &TcpStream) -> bool {
    let mut first = [0; FIRST_LINE_BYTES_MAX];
    matches!(stream.peek(&mut first).await, Ok(len) if is_first(&first[..len]))
}

impl Lanes {
    /// Opens the lanes of `engine` for `api`, which is called by `hosts`. They are empty from when
    /// `stop` is cancelled.
    pub(crate) fn open(
        engine: &Engine,
        api: &Arc<Api>,
        hosts: &ApiHosts,
        stop: &CancellationToken,
    ) -> Arc<Lanes> {
        let (api, hosts) = (Arc::clone(api), Arc::clone(hosts));
        let shared = Arc::new(Shared { api, hosts, recalled: AtomicBool::new(false) });
        let (sockets, places) = engine.lanes();
        let open = |(worker, (socket, control)): (usize, &(_, _))| {
            let lane = SendLane::new(Arc::clone(socket), Arc::clone(&shared));
            let rest = lane.rest();
            let bell = engine.open_lane(worker, Box::new(lane));
            let control = Arc::clone(control);
            LaneEnd { control, bell, rest, out: Mutex::default() }
        };
        let lanes = sockets.iter().enumerate().map(open).collect::<Vec<LaneEnd>>();
        let (ids, leased) = (AtomicU64::new(0), watch::Sender::new(0));
        let lanes = Arc::new(Lanes { lanes, places, shared, ids, leased });
        for number in 0..lanes.lanes.len() {
            tokio::spawn(listen(Arc::clone(&lanes), number));
        }
        let (recalled, stop) = (Arc::clone(&lanes), stop.clone());
        tokio::spawn(async move {
            stop.cancelled().await;
            recalled.recall();
        });
        lanes
    }

    /// Lends a connection until its lane gives it back, if there is a place for it.
    pub(crate) async fn lease(&self, stream: TcpStream, peer: IpAddr) -> Leased {
        // Before it is looked whether they are recalled: who recalls them waits for it.
        let _out = Out::new(&self.leased);
        let now_ms = clock::monotonic_ms();
        let awake = self.lanes.iter().filter(|lane| !lane.rest.lasts(now_ms));
        let free = awake.min_by_key(|lane| lane.out().len());
        let free = free.filter(|lane| lane.out().len() < self.places);
        let are_recalled = self.are_recalled();
        let Some(lane) = free.filter(|_| !are_recalled) else { return Leased::No(stream) };
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (told, becomes) = oneshot::channel();
        // It fails for a connection that is broken.
        let Ok(socket) = stream.into_std().map(OwnedFd::from) else { return Leased::Closed };
        let lease = Lease { id, peer, socket: Some(socket) };
        let before = lane.out().insert(id, told);
        debug_assert!(before.is_none(), "each lease has its own number");
        if lease.send(&*lane.control).is_err() {
            lane.out().remove(&id);
            let here = lease.socket.and_then(|socket| taken(socket).ok());
            return here.map_or(Leased::Closed, Leased::No);
        }
        // What the lane has is its own.
        drop(lease);
        let Ok(given_back) = becomes.await else { return Leased::Closed };
        let GivenBack { socket, has_served, unsent, unread } = given_back;
        let back = |stream| Leased::Back { stream, has_served, unsent, unread };
        taken(socket).map_or(Leased::Closed, back)
    }

    /// Calls all connections back, each when what it has asked for is answered, and lends no more.
    pub(crate) fn recall(&self) {
        self.shared.recalled.store(true, Ordering::Relaxed);
        self.lanes.iter().for_each(|lane| lane.bell.ring());
    }

    /// Whether it has called them back, and lends none.
    pub(crate) fn are_recalled(&self) -> bool {
        self.shared.recalled.load(Ordering::Relaxed)
    }

    /// Waits until all are back, for so long at most; whether they are.
    pub(crate) async fn emptied(&self, most: Duration) -> bool {
        let mut leased = self.leased.subscribe();
        // It fails when the lanes are gone, and we have them.
        timeout(most, leased.wait_for(|leased| *leased == 0)).await.is_ok()
    }

    /// Lends again.
    pub(crate) fn resume(&self) {
        self.shared.recalled.store(false, Ordering::Relaxed);
    }
}

impl LaneEnd {
    fn out(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<GivenBack>>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is out, as long as somebody waits for it.
struct Out<'l>(&'l watch::Sender<usize>);

impl Out<'_> {
    fn new(leased: &watch::Sender<usize>) -> Out<'_> {
        leased.send_modify(|leased| *leased += 1);
        Out(leased)
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|leased| *leased -= 1);
    }
}

fn taken(socket: OwnedFd) -> io::Result<TcpStream> {
    // It is not blocking, as it was before.
    TcpStream::from_std(socket.into())
}

/// Hears what becomes of the connections of a lane, for as long as the runtime lives.
async fn listen(lanes: Arc<Lanes>, number: usize) -> io::Result<()> {
    let lane = &lanes.lanes[number];
    let wake = WakeFd::new(Arc::clone(&lane.control))?;
    let mut buffer = vec![0; LANE_MESSAGE_BYTES];
    loop {
        match Return::receive(&*lane.control, &mut buffer) {
            Ok(Return { id, given_back }) => {
                let told = lane.out().remove(&id);
                // Who waited for it may be gone with the runtime.
                if let (Some(told), Some(given_back)) = (told, given_back) {
                    let _ = told.send(given_back);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wake.rung().await?,
            Err(error) => return Err(error),
        }
    }
}
