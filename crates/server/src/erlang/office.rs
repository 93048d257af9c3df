//! What all conversations with Erlang nodes share: who is logged in, how one logs in and out, and
//! how an event is sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Guest, Receipt, Router};
use erlang::{Node, OwnPid, Peer};
use graph::Graph;
use hub::{Draft, IdText};
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::counts::Counts;
use super::payload;
use super::pids::{Pids, Place, Process};
use super::refusal::Refusal;
use super::request::Service;
use crate::posting::{self, FRAME_BYTES};
use crate::stop::Stop;

/// Requests that take their time (the store, a connection to be made) at one time, of all nodes.
const TASKS_MAX: usize = 1024;

/// How long a connected node may take to be talked to.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(1);

/// What conversations share.
pub(crate) struct Office {
    pub(super) node: Arc<Node>,
    pub(super) router: Arc<Router>,
    pub(super) graph: Graph,
    pub(super) guest: Guest,
    pub(super) counts: Counts,
    pub(super) tasks: Arc<Semaphore>,
    pub(super) queue_bytes_max: usize,
    pub(super) stop: Stop,
    backlog_bytes_max: usize,
    present: Mutex<Present>,
    arrivals: Notify,
}

/// Who is there.
#[derive(Default)]
pub(super) struct Present {
    pub(super) pids: Pids,
    /// Connected nodes by the number of their connection.
    pub(super) peers: HashMap<u32, Arc<Peer>>,
}

/// An event as its sender names it, and what it is made of. The buffers are used again and again.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) about: String,
    pub(super) data: String,
}

impl Office {
    pub(super) fn new(
        node: Arc<Node>,
        router: Arc<Router>,
        graph: Graph,
        guest: Guest,
        limits: Limits,
        stop: Stop,
    ) -> Office {
        Office {
            node,
            router,
            graph,
            guest,
            counts: Counts::default(),
            tasks: Arc::new(Semaphore::new(TASKS_MAX)),
            queue_bytes_max: limits.queue_bytes_max,
            backlog_bytes_max: limits.backlog_bytes_max,
            stop,
            present: Mutex::default(),
            arrivals: Notify::new(),
        }
    }

    /// The pid of `service`.
    pub(super) fn pid(&self, service: Service) -> OwnPid<'_> {
        self.node.pid(service.number())
    }

    /// Who is there. Held for one change or one slice.
    pub(super) fn present(&self) -> MutexGuard<'_, Present> {
        // A change is whole, or what is left of it is a slot that is never used again.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the event that `about` and `data` make to the audience of its subject, or to the
    /// connections of the id `alone`.
    pub(super) async fn send(
        &self,
        buffers: &Buffers,
        payload: erlang::Term<'_>,
        alone: bool,
    ) -> Result<Receipt, Refusal> {
        let Buffers { about, data } = buffers;
        if about.len() + data.len() + FRAME_BYTES > self.backlog_bytes_max {
            return Err(Refusal::TooLarge);
        }
        let id = IdText::parse(about).map_err(|_| Refusal::BadId)?;
        let draft = Draft::new(about, data);
        let sending =
            if alone { self.router.send_to(id, draft) } else { self.router.send(id, draft) };
        let mut sending = sending.with_term(payload::message(payload));
        let receipt = posting::finish(&mut sending, &self.graph).await?;
        self.counts.events.add(1);
        Ok(receipt)
    }

    /// Logs a process of the connected node `peer` in under `id`. A second time is no error.
    pub(super) fn login(
        &self,
        peer: &Peer,
        id: IdText<'_>,
        words: [u32; 3],
    ) -> Result<(), Refusal> {
        let [number, serial, creation] = words;
        if creation != peer.creation() {
            return Err(Refusal::NoProcess);
        }
        let process = Process { peer: peer.number(), id: number, serial };
        let mut present = self.present();
        if !present.peers.contains_key(&peer.number()) {
            return Err(Refusal::NoConnection);
        }
        let pids = &mut present.pids;
        let (place, is_new) = match pids.find(process) {
            Some(place) => (place, false),
            None => (pids.insert(process).ok_or(Refusal::Overloaded)?, true),
        };
        let Place { slot, generation } = place;
        let known = pids.ids(place);
        let new = self.guest.login(slot as usize, generation, id, known);
        if let Some(id) = new.map_err(|_| Refusal::Overloaded)?
            && !pids.add(place, id)
        {
            self.guest.logout(slot as usize, generation, id);
            return Err(Refusal::TooManyIds);
        }
        if is_new {
            self.counts.logins.add(1);
            // Answered at once if the process is gone. If the connection is, it is swept.
            peer.monitor(self.pid(Service::Router), words, reference(place));
        }
        Ok(())
    }

    /// Logs a process of the connected node `peer` out of all its ids.
    pub(super) fn logout(&self, peer: &Peer, id: u32, serial: u32) {
        let process = Process { peer: peer.number(), id, serial };
        let mut present = self.present();
        if let Some(place) = present.pids.find(process) {
            self.leave(&mut present.pids, place);
            let words = [id, serial, peer.creation()];
            peer.demonitor(self.pid(Service::Router), words, reference(place));
        }
    }

    /// The process at `place` is gone.
    pub(super) fn down(&self, place: Place) {
        self.leave(&mut self.present().pids, place);
    }

    /// The process at `place`, the node it runs on, and how it is named there.
    pub(super) fn reach(&self, place: Place) -> Option<(Place, Arc<Peer>, [u32; 3])> {
        let present = self.present();
        let process = present.pids.get(place)?;
        let peer = present.peers.get(&process.peer)?;
        Some((place, Arc::clone(peer), peer.pid(process.id, process.serial)))
    }

    /// Logs a process of `peer` out because the application wants it so.
    pub(super) fn closed(&self, place: Place, peer: &Peer, words: [u32; 3]) {
        self.leave(&mut self.present().pids, place);
        peer.demonitor(self.pid(Service::Router), words, reference(place));
    }

    /// Logs the process at `place` out of all its ids, if there still is one.
    pub(super) fn leave(&self, pids: &mut Pids, place: Place) {
        if pids.get(place).is_none() {
            return;
        }
        for id in pids.ids(place) {
            self.guest.logout(place.slot as usize, place.generation, id);
        }
        pids.remove(place);
    }

    /// A node is connected.
    pub(super) fn arrived(&self, peer: &Arc<Peer>) {
        self.counts.connected.add(1);
        self.present().peers.insert(peer.number(), Arc::clone(peer));
        self.arrivals.notify_waiters();
    }

    /// Waits until the conversation with a connected node has begun, or would have.
    pub(super) async fn has_arrived(&self, peer: &Peer) {
        loop {
            let arrival = self.arrivals.notified();
            if self.present().peers.contains_key(&peer.number()) {
                return;
            }
            if timeout(ARRIVAL_PATIENCE, arrival).await.is_err() {
                return;
            }
        }
    }

    /// It is gone: all its processes are logged out, chunk by chunk.
    pub(super) async fn gone(&self, peer: &Peer) -> usize {
        self.present().peers.remove(&peer.number());
        let (mut from, mut left) = (0, 0);
        loop {
            {
                let mut present = self.present();
                if from >= present.pids.slots() {
                    return left;
                }
                let pids = &mut present.pids;
                let places: Vec<Place> =
                    pids.of_peer(peer.number(), from).map(|(place, _)| place).collect();
                left += places.len();
                places.into_iter().for_each(|place| self.leave(pids, place));
                from += Pids::CHUNK;
            }
            yield_now().await;
        }
    }
}

/// The bounds that conversations keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of one node that may wait to be handled.
    pub(super) queue_bytes_max: usize,
    /// An event must fit into a connection's backlog.
    pub(super) backlog_bytes_max: usize,
}

/// The reference of the monitor of the process at `place`.
fn reference(place: Place) -> [u32; 3] {
    [0, place.generation, place.slot]
}

/// The place that a reference of ours speaks of.
pub(super) fn place_of([_, generation, slot]: [u32; 3]) -> Place {
    Place { slot, generation }
}
