//! Many listeners, read by one thread while a test does something else.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sys::epoll::{Epoll, Events};
use testing::wait_within;

use super::subscriber::{Kind, Subscriber};
use crate::harness::DEADLINE;

/// One of them, and under which ids.
pub(crate) struct Listener {
    pub(crate) subscriber: Subscriber<Nonblocking>,
    pub(crate) ids: Vec<String>,
    /// Its connection has ended, and how.
    pub(crate) ended: Option<ErrorKind>,
}

/// A crowd; its thread ends with it.
pub(crate) struct Listeners {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    listeners: Mutex<Vec<Listener>>,
    epoll: Epoll,
    stop: AtomicBool,
}

/// How long the reader waits when nothing comes, before it looks whether it is to end.
const TURN_MS: u64 = 20;

impl Listeners {
    /// Opens a connection for each of `plan`, one after the other, and reads them from then on.
    pub(crate) fn open(address: SocketAddr, plan: Vec<(Kind, Vec<String>)>) -> Listeners {
        let epoll = Epoll::new().unwrap();
        let mut listeners = Vec::with_capacity(plan.len());
        for (number, (kind, ids)) in plan.into_iter().enumerate() {
            let names: Vec<&str> = ids.iter().map(String::as_str).collect();
            let subscriber = Nonblocking::of(Subscriber::open(address, kind, &names));
            epoll.add_source(&subscriber.socket.0, number as u64).unwrap();
            listeners.push(Listener { subscriber, ids, ended: None });
        }
        let stop = AtomicBool::new(false);
        let shared = Arc::new(Shared { listeners: Mutex::new(listeners), epoll, stop });
        let of_reader = Arc::clone(&shared);
        let reader = Some(std::thread::spawn(move || of_reader.read()));
        Listeners { shared, reader }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.shared.lock()
    }

    /// Waits until `done` says so; whether it did in time.
    pub(crate) fn wait(&self, mut done: impl FnMut(&mut [Listener]) -> bool) -> bool {
        let mut is_done = false;
        wait_within(DEADLINE, || {
            let reader_has_failed = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            is_done = done(&mut self.lock());
            is_done || reader_has_failed
        });
        is_done
    }

    /// Ends the reading; all of them as they are now.
    pub(crate) fn finish(mut self) -> Vec<Listener> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let reader = self.reader.take().expect("it reads until now");
        reader.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
        std::mem::take(&mut *self.lock())
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        // One that has panicked is told of by `finish`.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) {
        let mut events = Events::with_capacity(256);
        while !self.stop.load(Ordering::Relaxed) {
            self.epoll.wait(&mut events, Some(TURN_MS)).unwrap();
            let mut listeners = self.lock();
            for event in events.iter() {
                let listener = &mut listeners[event.token as usize];
                match listener.subscriber.read() {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => {
                        listener.ended = Some(error.kind());
                        self.epoll.remove(&listener.subscriber.socket.0).unwrap();
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A socket whose reads do not wait.
pub(crate) struct Nonblocking(TcpStream);

impl Nonblocking {
    fn of(subscriber: Subscriber) -> Subscriber<Nonblocking> {
        subscriber.socket.set_nonblocking(true).unwrap();
        subscriber.with_socket(Nonblocking)
    }
}

impl Deref for Nonblocking {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.0
    }
}

impl std::io::Read for Nonblocking {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

/// What a listener says is short: there is room for it, or its connection is broken.
impl std::io::Write for Nonblocking {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).or_else(|error| match error.kind() {
            // The next read tells of the end.
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(bytes.len()),
            _ => Err(error),
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
