//! Clients with a WebSocket each, by the hundred thousand: of channels, or of Encke's own streams.
//!
//! They are in threads with a descriptor table of their own each, so a process may have more of
//! them than one table holds. Clients come from several addresses of this machine, each of which
//! has all ports for itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use figures::latency::{Latencies, Quantiles};
use pusher::SocketId;
use sys::clock;

use crate::clients::{Clients, Order};
use crate::{Outcome, START_MAX};

/// Clients of one thread, at most.
const CLIENTS_OF_THREAD: usize = 10_000;

/// Threads, at least.
const THREADS: usize = 2;

/// As many orders wait for a thread, and answers of all threads for whoever asked.
const ORDERS_MAX: usize = 1_024;

/// How often it is looked how far all have come.
const LOOK: Duration = Duration::from_micros(200);

/// What a client says once it knows what it is called, given its number: texts of messages, each
/// of which is answered by a success.
pub(crate) type Says = fn(usize, SocketId) -> Vec<String>;

/// How clients come.
#[derive(Clone)]
pub(crate) struct Role {
    /// Path and query.
    pub(crate) target: String,
    /// Nothing of Encke's own streams, which are online when they are open.
    pub(crate) says: Option<Says>,
}

/// What all threads count.
#[derive(Default)]
pub(crate) struct Counts {
    /// Clients that are online, and subscribed to all that they want.
    ready: AtomicU64,
    /// How often there was no place for one.
    refused: AtomicU64,
    /// Messages with a mark, and when the last one was heard.
    heard: AtomicU64,
    heard_ns: AtomicU64,
    latencies: Mutex<Latencies>,
    fault: Mutex<Option<String>>,
}

/// A crowd.
pub(crate) struct Crowd {
    threads: Vec<(mpsc::SyncSender<Order>, JoinHandle<()>)>,
    counts: Arc<Counts>,
    clients: usize,
}

impl Crowd {
    /// Nobody as yet, of whom there may be so many; at the server's `address`.
    pub(crate) fn new(address: std::net::SocketAddr, role: &Role, most: usize) -> Crowd {
        let counts = Arc::<Counts>::default();
        let threads = most.div_ceil(CLIENTS_OF_THREAD).max(THREADS);
        let begin = |index| {
            let (orders, taken) = mpsc::sync_channel(ORDERS_MAX);
            let (role, counts) = (role.clone(), Arc::clone(&counts));
            let run = move || {
                let clients = Clients::new((address, role), (index, threads), Arc::clone(&counts));
                if let Err(error) = clients.and_then(|clients| clients.run(&taken)) {
                    lock(&counts.fault).get_or_insert(error.to_string());
                }
            };
            (orders, thread::spawn(run))
        };
        let threads = (0..threads).map(begin).collect();
        Crowd { threads, counts, clients: 0 }
    }

    /// So many more come, at even intervals in that time or as fast as they are served, and are
    /// online and subscribed.
    pub(crate) fn open(&mut self, more: usize, over: Duration) -> Outcome<()> {
        let (first, last) = (self.clients, self.clients + more);
        self.tell(|| Order::Open { first, last, over });
        self.clients = last;
        let ready = || self.counts.ready.load(Ordering::Relaxed);
        self.wait("online", || ready() >= last as u64)
    }

    /// All are cut off at once.
    pub(crate) fn cut(&mut self) {
        let (cut, all) = mpsc::sync_channel(ORDERS_MAX);
        self.tell(|| Order::Cut(cut.clone()));
        drop(cut);
        while all.recv().is_ok() {}
        self.counts.ready.store(0, Ordering::Relaxed);
        self.clients = 0;
    }

    /// How many do not know of `members` members of their presence channel: by its list, and by
    /// what has changed since.
    pub(crate) fn wrong_lists(&self, members: i64) -> usize {
        let (wrong, all) = mpsc::sync_channel(ORDERS_MAX);
        self.tell(|| Order::Count { members, wrong: wrong.clone() });
        drop(wrong);
        all.iter().sum()
    }

    /// How often there was no place for a client.
    pub(crate) fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }

    /// Messages with a mark.
    pub(crate) fn heard(&self) -> u64 {
        self.counts.heard.load(Ordering::Relaxed)
    }

    /// Waits until so many were heard since the beginning: when the last one was.
    pub(crate) fn await_heard(&self, messages: u64) -> Outcome<u64> {
        self.wait("hears all", || self.heard() >= messages)?;
        Ok(self.counts.heard_ns.load(Ordering::Relaxed))
    }

    /// From the time in marks until they were heard, since it was asked last.
    pub(crate) fn latency(&self) -> Quantiles {
        let mut latencies = lock(&self.counts.latencies);
        let quantiles = latencies.quantiles();
        latencies.clear();
        quantiles
    }

    fn tell(&self, order: impl Fn() -> Order) {
        for (orders, _) in &self.threads {
            // One that has failed has said so.
            let _ = orders.send(order());
        }
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) -> Outcome<()> {
        let end_ns = clock::monotonic_ns() + START_MAX.as_nanos() as u64;
        while !is_so() {
            if let Some(fault) = lock(&self.counts.fault).take() {
                return Err(fault.into());
            }
            if clock::monotonic_ns() > end_ns {
                let ready = self.counts.ready.load(Ordering::Relaxed);
                let (clients, heard) = (self.clients, self.heard());
                return Err(format!("{what}: {ready} of {clients}, {heard} heard").into());
            }
            thread::park_timeout(LOOK);
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (orders, thread) in self.threads.drain(..) {
            drop(orders);
            let _ = thread.join();
        }
    }
}

impl Counts {
    /// Another client is ready.
    pub(crate) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// There was no place for one, which comes again.
    pub(crate) fn is_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What was heard with marks, by the time that it took; it was heard now.
    pub(crate) fn take_heard(&self, now_ns: u64, took_ns: &mut Vec<u64>) {
        if took_ns.is_empty() {
            return;
        }
        let mut latencies = lock(&self.latencies);
        let heard = took_ns.len() as u64;
        took_ns.drain(..).for_each(|ns| latencies.record(ns));
        // Before the count: who waits for that asks for this.
        self.heard_ns.fetch_max(now_ns, Ordering::Relaxed);
        self.heard.fetch_add(heard, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
