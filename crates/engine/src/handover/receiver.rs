//! A worker takes connections over.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::epoll::{Epoll, Events};
use sys::{clock, passing, process, socket};

use super::takeover::{TakeoverCommand, TakeoverState};
use super::wire::{Frame, Kind, Source};
use crate::kernel::Kernel;
use crate::limits;
use crate::shard::{Shard, Untaken};
use crate::state::ConnState;
use crate::tls::Tls;

/// How often it is looked what the control plane says.
const LOOK_MS: u64 = 2;

/// Why it cannot be done.
const FULL: &str = "there are more connections than there is room for";
const UNKNOWN: &str = "a connection is described in a way that this version does not know";

/// The token of the socket where senders come; those of the senders are their places.
const LISTENER: u64 = u64::MAX;

/// Where the worker `receiver` waits for those who give, in `dir`.
pub(super) fn socket_path(dir: &Path, receiver: usize) -> PathBuf {
    dir.join(format!("worker-{receiver}.sock"))
}

/// The worker's side of a handover.
pub(crate) struct HandoverReceiver {
    takeover: Arc<TakeoverState>,
    worker: usize,
    listener: UnixListener,
    epoll: Epoll,
    senders: Vec<SendingWorker>,
    listeners: Vec<(OwnedFd, bool)>,
    /// Where it listens if no listener comes, and whether TLS is spoken there.
    listen: Vec<(SocketAddr, bool)>,
    /// The sockets for that, which do not listen yet.
    bound: Vec<(OwnedFd, bool)>,
    taken: u64,
    /// Connections of which something was reported before they were ours.
    reported: BTreeSet<u32>,
    reports: Events,
}

/// One who gives.
struct SendingWorker {
    source: Source,
    /// The slots where connections are expected of whose descriptors copies have come, by their
    /// numbers there.
    expected: Vec<Option<u32>>,
    /// It has said how many there were.
    is_done: bool,
    /// What was taken of it.
    taken: u64,
}

/// What has come of it.
pub(crate) enum ReceiveOutcome {
    /// All is ours. The listeners and whether TLS is spoken there; and if none have come, sockets
    /// that have their addresses and are to listen from now on.
    Ours { listeners: Vec<(OwnedFd, bool)>, bound: Vec<(OwnedFd, bool)> },
    /// Nothing is.
    Nothing,
}

impl HandoverReceiver {
    /// Waits for senders from now on, in the calling thread's table of descriptors. It needs
    /// listeners at `listen`, beside which stands whether TLS is spoken there.
    pub(crate) fn new(
        takeover: Arc<TakeoverState>,
        worker: usize,
        listen: Vec<(SocketAddr, bool)>,
    ) -> io::Result<HandoverReceiver> {
        let listener = UnixListener::bind(socket_path(&takeover.dir, worker))?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add_source(&listener, LISTENER)?;
        Ok(HandoverReceiver {
            takeover,
            worker,
            listener,
            epoll,
            senders: Vec::new(),
            listeners: Vec::new(),
            listen,
            bound: Vec::new(),
            taken: 0,
            reported: BTreeSet::new(),
            reports: Events::with_capacity(limits::EVENTS_PER_WAIT),
        })
    }

    /// Takes all that comes, into `shard` and under the eyes of `epoll`, until it is said that it
    /// is ours, or that it is not to be. An error is for one that cannot serve what is ours.
    pub(crate) fn run(
        mut self,
        shard: &mut Shard<Tls<Kernel>>,
        epoll: &Epoll,
    ) -> io::Result<ReceiveOutcome> {
        let taken = self.take(shard, epoll);
        if let Err(error) = &taken {
            self.takeover.fail(format!("worker {}: {error}", self.worker));
            // As a rule that is heard, and then nothing is ours.
            let mut events = Events::with_capacity(1);
            while self.takeover.command() == TakeoverCommand::Take
                && self.epoll.wait(&mut events, Some(LOOK_MS)).is_ok()
            {}
            if self.takeover.command() != TakeoverCommand::Serve {
                return Ok(ReceiveOutcome::Nothing);
            }
        }
        taken
    }

    fn take(
        &mut self,
        shard: &mut Shard<Tls<Kernel>>,
        epoll: &Epoll,
    ) -> io::Result<ReceiveOutcome> {
        let mut events = Events::with_capacity(64);
        loop {
            match self.takeover.command() {
                TakeoverCommand::Take => {}
                TakeoverCommand::Drop => return Ok(ReceiveOutcome::Nothing),
                TakeoverCommand::Serve => {
                    if self.worker == 0 {
                        shard.count_on(self.takeover.totals());
                    }
                    shard.begin(std::mem::take(&mut self.reported));
                    let listeners = std::mem::take(&mut self.listeners);
                    return Ok(ReceiveOutcome::Ours {
                        listeners,
                        bound: std::mem::take(&mut self.bound),
                    });
                }
            }
            self.epoll.wait(&mut events, Some(LOOK_MS))?;
            shard.set_time(clock::monotonic_ms().saturating_sub(shard.started_ms()));
            self.take_reports(epoll)?;
            for event in events.iter() {
                let done = match event.token {
                    LISTENER => self.accept(),
                    sender => self.hear(sender as usize, shard, epoll),
                };
                if let Err(error) = done {
                    self.takeover.fail(format!("worker {}: {error}", self.worker));
                }
            }
        }
    }

    /// Takes what is reported of those who are to come. That there is room to write is so of nearly
    /// all, and means nothing: whoever writes finds out. All of it at the end would keep everybody
    /// waiting who is ours by then.
    fn take_reports(&mut self, epoll: &Epoll) -> io::Result<()> {
        loop {
            epoll.wait(&mut self.reports, Some(0))?;
            let readable = self.reports.iter().filter(|report| report.readable());
            // Others than slots are listeners and the mailbox, which are looked at anyway.
            self.reported.extend(readable.filter_map(|report| u32::try_from(report.token).ok()));
            if self.reports.iter().count() < limits::EVENTS_PER_WAIT {
                return Ok(());
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let (socket, _) = match self.listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted?,
        };
        if !is_trusted(&socket)? {
            // Somebody else's, whatever the directory lets in.
            return Ok(());
        }
        socket.set_nonblocking(true)?;
        self.epoll.add_source(&socket, self.senders.len() as u64)?;
        let (source, expected) = (Source::new(socket), Vec::new());
        self.senders.push(SendingWorker { source, expected, is_done: false, taken: 0 });
        Ok(())
    }

    fn hear(
        &mut self,
        sender: usize,
        shard: &mut Shard<Tls<Kernel>>,
        epoll: &Epoll,
    ) -> io::Result<()> {
        let source = &mut self.senders[sender].source;
        let goes_on = source.read()?;
        let frames = source.frames()?;
        for frame in frames {
            self.frame(sender, frame, shard, epoll)?;
        }
        if !goes_on {
            self.epoll.remove(&self.senders[sender].source.socket)?;
            if !self.senders[sender].is_done {
                return Err(io::Error::other("whoever gives the connections has gone"));
            }
        }
        Ok(())
    }

    fn frame(
        &mut self,
        sender: usize,
        frame: Frame,
        shard: &mut Shard<Tls<Kernel>>,
        epoll: &Epoll,
    ) -> io::Result<()> {
        let Frame { kind, body, descriptors } = frame;
        let from = &mut self.senders[sender];
        match kind {
            // There is nothing to be done about which of them it is.
            Kind::Sender => {}
            Kind::Copies => {
                for (number, descriptor) in body.chunks_exact(4).zip(descriptors) {
                    let number = number.iter().rev().fold(0, |sum, &b| sum << 8 | u32::from(b));
                    from.expect(number, descriptor, shard, epoll)?;
                }
            }
            Kind::Lists => {
                let lists = body.split(|&byte| byte == b'\n');
                lists.for_each(|list| shard.expect_list(list));
            }
            Kind::Listeners => {
                let listeners = descriptors.into_iter().zip(body.iter().map(|&is_tls| is_tls > 0));
                self.listeners.extend(listeners);
            }
            Kind::States | Kind::Newcomers => {
                let mut descriptors = descriptors.into_iter();
                for state in ConnState::read_all(&body) {
                    let state = state.ok_or_else(|| io::Error::other(UNKNOWN))?;
                    if kind == Kind::Newcomers {
                        let descriptor = descriptors.next().ok_or_else(without_descriptor)?;
                        from.expect(state.descriptor, descriptor, shard, epoll)?;
                    }
                    let slot = from.expected.get_mut(state.descriptor as usize);
                    let slot = slot.and_then(Option::take).ok_or_else(without_descriptor)?;
                    shard.take_over(slot, state).map_err(|why| {
                        io::Error::other(if why == Untaken::Full { FULL } else { UNKNOWN })
                    })?;
                    from.taken += 1;
                }
            }
            Kind::End => {
                let given = body.iter().rev().fold(0_u64, |sum, &b| sum << 8 | u64::from(b));
                if given != from.taken {
                    let sentence = format!("{given} connections were given, {} came", from.taken);
                    return Err(io::Error::other(sentence));
                }
                // What is left are copies of connections that have ended.
                let expected = std::mem::take(&mut from.expected);
                expected.into_iter().flatten().for_each(|slot| forget(slot, shard, epoll));
                from.is_done = true;
                self.taken += given;
                return self.note_all();
            }
        }
        Ok(())
    }

    /// Says so, if it has all that it is to have: also the right to listen.
    fn note_all(&mut self) -> io::Result<()> {
        let senders = super::senders_of(self.takeover.senders, self.takeover.receivers);
        if self.senders.iter().filter(|sender| sender.is_done).count() == senders {
            if self.listeners.is_empty() {
                self.bound = bind(&self.listen)?;
            }
            self.takeover.note_all(self.worker, self.taken);
        }
        Ok(())
    }
}

impl SendingWorker {
    /// A connection will come whose descriptor has that number there, and is this one here. It is
    /// reported from now on: what was reported to the other before is reported anew.
    fn expect(
        &mut self,
        number: u32,
        descriptor: OwnedFd,
        shard: &mut Shard<Tls<Kernel>>,
        epoll: &Epoll,
    ) -> io::Result<()> {
        let number = number as usize;
        if number >= self.expected.len() {
            self.expected.resize(number + 1, None);
        }
        // One that was there is of a connection that has ended.
        if let Some(slot) = self.expected[number].take() {
            forget(slot, shard, epoll);
        }
        let slot = shard.expect(descriptor).map_err(|_| io::Error::other(FULL))?;
        self.expected[number] = Some(slot);
        shard.socket(slot).map_or(Ok(()), |socket| epoll.add_stream(socket, u64::from(slot)))
    }
}

/// Sockets with the addresses in `listen`, at which nobody listens by them yet.
fn bind(listen: &[(SocketAddr, bool)]) -> io::Result<Vec<(OwnedFd, bool)>> {
    let bind = |&(address, is_tls): &(SocketAddr, bool)| match socket::bind_in_group(address) {
        Ok(socket) => Ok((socket, is_tls)),
        Err(error) => {
            let why = format!("it cannot listen on {address}: {error}");
            Err(io::Error::new(error.kind(), why))
        }
    };
    listen.iter().map(bind).collect()
}

/// Closes a copy. As long as the other process has the connection this is what ends its reports.
fn forget(slot: u32, shard: &mut Shard<Tls<Kernel>>, epoll: &Epoll) {
    if let Some(socket) = shard.forget(slot) {
        let _ = epoll.remove(&socket);
    }
}

fn without_descriptor() -> io::Error {
    io::Error::other("a connection came without its descriptor")
}

/// Whether a process of our own user, or of root, is at the other end.
fn is_trusted(socket: &UnixStream) -> io::Result<bool> {
    let uid = passing::peer_credentials(socket)?.uid;
    Ok(uid == 0 || uid == process::user())
}
