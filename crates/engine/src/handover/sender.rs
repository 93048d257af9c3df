//! A worker gives its connections away.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use sys::epoll::{Epoll, Events};
use sys::{clock, passing};
use zeroize::Zeroize;

use super::wire::{self, Kind, Way};
use crate::handover_state::{Command, HandoverState};
use crate::kernel::Kernel;
use crate::shard::Shard;
use crate::state::ConnState;
use crate::tls::Tls;

/// How long one who takes may take nothing, once all waits for it.
const STILL: Duration = Duration::from_secs(5);

/// How long a worker may take to come to the end of its mail.
const QUIET_MS: u64 = 3_000;

/// After how long a worker whose copies find no room tries again.
const AGAIN_MS: u64 = 2;

/// States are sent when they have become so many bytes.
const STATES_BYTES: usize = 128 << 10;

/// The worker's side of a handover.
pub(crate) struct HandoverSender {
    handover: Arc<HandoverState>,
    worker: usize,
    /// Where all goes; none before it has begun.
    ways: Vec<Way>,
    /// The slot whose descriptor is copied next; all had their turn when there is no such slot.
    next: u32,
    copied: u64,
    /// There was no room; when to try again, in monotonic milliseconds.
    again_ms: Option<u64>,
    /// When it is to be quiet at the latest.
    quiet_by_ms: Option<u64>,
    /// It cannot be done, and that was said.
    has_failed: bool,
    /// What it waits in while nothing that is reported may be taken: it is for whoever goes on.
    still: Option<(Epoll, Events)>,
}

/// What has come of it in a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendProgress {
    /// It goes on; at once, where there is more to do.
    Sending { busy: bool },
    /// All is written down: the worker stops, until it hears more.
    Written,
    /// It will not be: the worker goes on.
    GoOn,
    /// All is another's.
    Leave,
}

impl HandoverSender {
    pub(crate) fn new(handover: Arc<HandoverState>, worker: usize) -> HandoverSender {
        let (ways, again_ms, quiet_by_ms) = (Vec::new(), None, None);
        HandoverSender {
            handover,
            worker,
            ways,
            next: 0,
            copied: 0,
            again_ms,
            quiet_by_ms,
            has_failed: false,
            still: None,
        }
    }

    /// Whether it is of that handover.
    pub(crate) fn is_of(&self, handover: &Arc<HandoverState>) -> bool {
        Arc::ptr_eq(&self.handover, handover)
    }

    /// Whether nothing is said of whose the connections are.
    pub(crate) fn is_frozen(&self) -> bool {
        self.handover.command() == Command::Freeze
    }

    /// Whether they are another's.
    pub(crate) fn has_left(&self) -> bool {
        self.handover.command() == Command::Leave
    }

    /// Whether all before it have gone.
    pub(crate) fn is_its_turn(&self) -> bool {
        self.handover.gone() >= self.worker
    }

    /// It has.
    pub(crate) fn has_gone(&self) {
        self.handover.note_gone();
    }

    /// Waits, and takes nothing that is reported.
    pub(crate) fn wait(&mut self, ms: u64) -> io::Result<()> {
        let Some((epoll, events)) = &mut self.still else {
            std::thread::yield_now();
            return Ok(());
        };
        epoll.wait(events, Some(ms))
    }

    /// When it wants to go on, in monotonic milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.again_ms
    }

    /// Does its part of a turn, behind which mail waits or not.
    pub(crate) fn turn(
        &mut self,
        shard: &mut Shard<Tls<Kernel>>,
        listeners: &[(&OwnedFd, bool)],
        has_mail: bool,
    ) -> SendProgress {
        let command = self.handover.command();
        // What is sent from here on would be answered by nobody, or never leave it at rest.
        let is_frozen = command == Command::Freeze;
        shard.refuse_sends(is_frozen);
        shard.gather(!is_frozen);
        let done = match command {
            Command::GoOn => return SendProgress::GoOn,
            Command::Leave => return SendProgress::Leave,
            _ if self.has_failed => return SendProgress::Sending { busy: false },
            _ if shard.is_ending() => Err(io::Error::other("the server is stopping")),
            Command::Copy => self.copy(shard).map(|busy| SendProgress::Sending { busy }),
            Command::Freeze if !has_mail && shard.is_quiet() => {
                self.write_all(shard, listeners).map(|()| SendProgress::Written)
            }
            Command::Freeze => {
                let now_ms = clock::monotonic_ms();
                match *self.quiet_by_ms.get_or_insert(now_ms + QUIET_MS) > now_ms {
                    true => Ok(SendProgress::Sending { busy: true }),
                    false => Err(io::Error::other("a worker has too much to do to stop")),
                }
            }
        };
        done.unwrap_or_else(|error| {
            self.handover.fail(format!("worker {}: {error}", self.worker));
            // That is heard of, and then it is told to go on.
            (self.has_failed, self.again_ms) = (true, None);
            SendProgress::Sending { busy: false }
        })
    }

    /// Sends copies of the next descriptors. Whether there are more, and room for them.
    fn copy(&mut self, shard: &mut Shard<Tls<Kernel>>) -> io::Result<bool> {
        self.again_ms = None;
        if !self.handover.may_copy(self.worker) {
            return Ok(false);
        }
        let receivers = self.receivers();
        if self.ways.len() < receivers.len() {
            if !self.connect(receivers)? {
                self.again_ms = Some(clock::monotonic_ms() + AGAIN_MS);
                return Ok(false);
            }
            shard.sockets().below().note_copies();
        }
        let slots = shard.slots();
        let end = slots.min(self.next + passing::DESCRIPTORS_MAX as u32);
        for receiver in 0..self.ways.len() {
            if !self.copy_to(receiver, shard, self.next..end)? {
                self.again_ms = Some(clock::monotonic_ms() + AGAIN_MS);
                return Ok(false);
            }
        }
        self.next = end;
        let connections = shard.connections() as u64;
        self.handover.note_copied(self.worker, self.copied, connections, end == slots);
        Ok(end < slots)
    }

    /// Sends one receiver its part of those in `slots`. Whether there was room.
    fn copy_to(
        &mut self,
        receiver: usize,
        shard: &mut Shard<Tls<Kernel>>,
        slots: Range<u32>,
    ) -> io::Result<bool> {
        let ways = self.ways.len();
        let (mut slots_of_it, mut body) = (Vec::new(), Vec::new());
        for slot in slots {
            let Some(number) = shard.socket(slot).map(|socket| socket.as_raw_fd() as u32) else {
                continue;
            };
            if way_of(number, ways) == receiver && !shard.sockets().below().is_copied(number) {
                slots_of_it.push(slot);
                body.extend_from_slice(&number.to_le_bytes());
            }
        }
        if slots_of_it.is_empty() {
            return self.ways[receiver].flush();
        }
        let sockets = descriptors(shard, &slots_of_it);
        let sent = wire::send(&mut self.ways[receiver], Kind::Copies, &body, &sockets)?;
        if sent {
            self.copied += slots_of_it.len() as u64;
            for number in body.chunks_exact(4) {
                let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
                shard.sockets().below().set_copied(number);
            }
        }
        Ok(sent)
    }

    /// Those who take of it.
    fn receivers(&self) -> Range<usize> {
        super::receivers_of(self.worker, self.handover.senders(), self.handover.receivers)
    }

    /// Connects to those who take, as far as they let it: nothing is waited for, since streams
    /// would wait too. Whether all ways are there.
    fn connect(&mut self, receivers: Range<usize>) -> io::Result<bool> {
        if self.still.is_none() {
            // Now, since a table that is full has to be known before anything stops.
            self.still = Some((Epoll::new()?, Events::with_capacity(1)));
        }
        for receiver in receivers.skip(self.ways.len()) {
            let path = super::receiver::socket_path(&self.handover.dir, receiver);
            let named = |error| io::Error::other(format!("{}: {error}", path.display()));
            let Some(socket) = passing::connect(&path).map_err(named)? else { return Ok(false) };
            let mut way = Way::new(socket);
            wire::send(&mut way, Kind::Sender, &(self.worker as u32).to_le_bytes(), &[])
                .and_then(has_gone)?;
            self.ways.push(way);
        }
        Ok(true)
    }

    /// Writes down all connections, and hands over the listeners.
    fn write_all(
        &mut self,
        shard: &mut Shard<Tls<Kernel>>,
        listeners: &[(&OwnedFd, bool)],
    ) -> io::Result<()> {
        let by_ms = clock::monotonic_ms() + STILL.as_millis() as u64;
        while !self.connect(self.receivers())? {
            has_gone(clock::monotonic_ms() < by_ms)?;
            self.wait(1)?;
        }
        for way in &mut self.ways {
            way.socket.set_nonblocking(false)?;
            way.socket.set_write_timeout(Some(STILL))?;
            way.flush().and_then(has_gone)?;
        }
        let ways = self.ways.len();
        let mut written = Vec::new();
        for way in 0..ways {
            written.push(self.write_to(way, shard)?);
        }
        let to = self.worker % ways;
        for &(listener, is_tls) in listeners {
            let way = &mut self.ways[to];
            wire::send(way, Kind::Listeners, &[u8::from(is_tls)], &[listener.as_fd()])
                .and_then(has_gone)?;
        }
        for (way, written) in self.ways.iter_mut().zip(&written) {
            wire::send(way, Kind::End, &written.to_le_bytes(), &[]).and_then(has_gone)?;
            way.flush().and_then(has_gone)?;
        }
        self.handover.note_written(self.worker, written.iter().sum());
        Ok(())
    }

    /// Writes down what is one receiver's. How many connections that is.
    fn write_to(&mut self, receiver: usize, shard: &mut Shard<Tls<Kernel>>) -> io::Result<u64> {
        let ways = self.ways.len();
        let (mut states, mut newcomers, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lists, takes_hub) = (ListsToSend::default(), self.handover.takes_hub());
        let mut written = 0;
        for slot in 0..shard.slots() {
            let Some(number) = shard.socket(slot).map(|socket| socket.as_raw_fd() as u32) else {
                continue;
            };
            if way_of(number, ways) != receiver {
                continue;
            }
            let state = shard.write_down(slot).filter(|state| takes_hub || !state.is_of_hub());
            let Some(mut state) = state else { continue };
            lists.add(&state, shard);
            state.descriptor = number;
            written += 1;
            if shard.sockets().below().is_copied(number) {
                state.write(&mut states);
            } else {
                state.write(&mut newcomers);
                slots.push(slot);
            }
            let is_full = states.len().max(newcomers.len()).max(lists.body.len()) >= STATES_BYTES;
            if is_full || slots.len() == passing::DESCRIPTORS_MAX {
                self.send_lists(receiver, &mut lists)?;
            }
            if states.len() >= STATES_BYTES {
                self.send_states(receiver, &mut states)?;
            }
            if slots.len() == passing::DESCRIPTORS_MAX || newcomers.len() >= STATES_BYTES {
                self.send_newcomers(receiver, &mut newcomers, &mut slots, shard)?;
            }
        }
        self.send_lists(receiver, &mut lists)?;
        self.send_states(receiver, &mut states)?;
        self.send_newcomers(receiver, &mut newcomers, &mut slots, shard)?;
        Ok(written)
    }

    fn send_lists(&mut self, receiver: usize, lists: &mut ListsToSend) -> io::Result<()> {
        if !lists.body.is_empty() {
            let way = &mut self.ways[receiver];
            wire::send(way, Kind::Lists, &lists.body, &[]).and_then(has_gone)?;
            lists.body.clear();
        }
        Ok(())
    }

    fn send_states(&mut self, receiver: usize, states: &mut Vec<u8>) -> io::Result<()> {
        if !states.is_empty() {
            let way = &mut self.ways[receiver];
            wire::send(way, Kind::States, states, &[]).and_then(has_gone)?;
            // There are keys among it.
            states.zeroize();
        }
        Ok(())
    }

    fn send_newcomers(
        &mut self,
        receiver: usize,
        states: &mut Vec<u8>,
        slots: &mut Vec<u32>,
        shard: &mut Shard<Tls<Kernel>>,
    ) -> io::Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let way = &mut self.ways[receiver];
        let by_ms = clock::monotonic_ms() + STILL.as_millis() as u64;
        // Where too many are on their way, some have to arrive first.
        while !wire::send(way, Kind::Newcomers, states, &descriptors(shard, slots))? {
            if clock::monotonic_ms() > by_ms {
                return has_gone(false);
            }
            std::thread::yield_now();
        }
        states.zeroize();
        slots.clear();
        Ok(())
    }
}

/// Lists of grants for one who takes: each goes before those who have it, once.
#[derive(Default)]
struct ListsToSend {
    numbers: HashSet<u64>,
    /// Those that are still to go, one in each line.
    body: Vec<u8>,
}

impl ListsToSend {
    /// Those of a connection that none before it had.
    fn add(&mut self, state: &ConnState, shard: &Shard<Tls<Kernel>>) {
        for (number, key) in state.lists() {
            if self.numbers.insert(number)
                && let Some(list) = shard.write_list(key)
            {
                self.body.extend(list);
                self.body.push(b'\n');
            }
        }
    }
}

/// The descriptors of the connections in `slots`.
fn descriptors<'s>(shard: &'s Shard<Tls<Kernel>>, slots: &'s [u32]) -> Vec<BorrowedFd<'s>> {
    shard.sockets_of(slots).map(|socket| socket.as_fd()).collect()
}

/// Which of a worker's ways the connection with this descriptor goes, whenever something of it
/// goes there.
fn way_of(number: u32, ways: usize) -> usize {
    number as usize % ways
}

fn has_gone(sent: bool) -> io::Result<()> {
    match sent {
        true => Ok(()),
        false => Err(io::Error::other("whoever takes the connections takes nothing more")),
    }
}
