//! The innocent who speak TLS: listeners, and clients that come anew and are answered.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use figures::latency::{Latencies, Quantiles};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};

use crate::harness::{Api, DEADLINE, Server, get};

/// Listeners over TLS, and events a second to all of them together.
const LISTENERS: usize = 20;
const EVENTS_PER_SECOND: u32 = 200;

/// New clients a second.
const CONNECTS_PER_SECOND: u32 = 40;
const THREADS: u32 = 8;

/// How long one may take, beyond which it has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client, unless it is turned away.
fn connect(
    listen: SocketAddr,
    config: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let socket = TcpStream::connect(listen)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(DEADLINE))?;
    let name = ServerName::try_from("localhost").unwrap();
    Ok(StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), socket))
}

fn config(ca: &str) -> Arc<ClientConfig> {
    let config = server::client_config(Some(Path::new(ca)), &["http/1.1"]).unwrap();
    Arc::clone(&config)
}

/// Listeners and their sender.
pub(crate) struct SecureNeighbour {
    is_over: Arc<AtomicBool>,
    heard: Arc<Mutex<Latencies>>,
    threads: Vec<JoinHandle<()>>,
}

impl SecureNeighbour {
    pub(crate) fn start(server: &Server, ca: &str) -> SecureNeighbour {
        let (is_over, heard) = (Arc::default(), Arc::new(Mutex::new(Latencies::default())));
        let begin = Instant::now();
        let config = config(ca);
        let mut threads: Vec<_> = (0..LISTENERS)
            .map(|n| {
                let stream = connect(server.tls_listen(), &config).unwrap();
                let (is_over, heard) = (Arc::clone(&is_over), Arc::clone(&heard));
                thread::spawn(move || listen(stream, n, begin, &is_over, &heard))
            })
            .collect();
        (0..LISTENERS).for_each(|n| server.wait_online(&format!("tls{n}"), 1));
        let (api, over) = (server.api.address(), Arc::clone(&is_over));
        threads.push(thread::spawn(move || send(&Api::new(api), begin, &over)));
        SecureNeighbour { is_over, heard, threads }
    }

    /// What was heard since the last time, within a second if it is asked for each second.
    pub(crate) fn take(&self) -> Quantiles {
        let mut heard = self.heard.lock().unwrap();
        let quantiles = heard.quantiles();
        heard.clear();
        quantiles
    }

    pub(crate) fn finish(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn listen(
    mut stream: impl Read + Write,
    n: usize,
    begin: Instant,
    is_over: &AtomicBool,
    heard: &Mutex<Latencies>,
) {
    stream.write_all(get(&format!("/stream/tls{n}"), &[]).as_bytes()).unwrap();
    let (mut lines, mut last) = (BufReader::new(stream), None);
    let mut line = String::new();
    while !is_over.load(Ordering::Relaxed) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "an innocent stream has ended");
        if !line.starts_with('{') {
            continue;
        }
        let event: Value = serde_json::from_str(&line).unwrap();
        let [number, sent_ns] = [0, 1].map(|at| event["data"][at].as_u64().unwrap());
        let is_next = last.is_none_or(|last| number == last + LISTENERS as u64);
        assert!(is_next, "{number} behind {last:?}");
        last = Some(number);
        let now_ns = begin.elapsed().as_nanos() as u64;
        heard.lock().unwrap().record(now_ns.saturating_sub(sent_ns));
    }
}

/// Sends to one listener after the other, and in the end to each, so that all see that it is over.
fn send(api: &Api, begin: Instant, is_over: &AtomicBool) {
    let start = Instant::now();
    let mut last = None;
    for n in 0.. {
        let due = start + Duration::from_secs(1) * n / EVENTS_PER_SECOND;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if is_over.load(Ordering::Relaxed) {
            last = last.or(Some(n + LISTENERS as u32));
        }
        if last == Some(n) {
            return;
        }
        let about = format!("tls{}", n as usize % LISTENERS);
        let now_ns = begin.elapsed().as_nanos() as u64;
        // Who has seen that it is over hears no more.
        api.post("/send", &json!({ "about": about, "data": [n, now_ns] })).ok();
    }
}

/// Clients that come anew, one after the other.
pub(crate) struct Comers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(Latencies, u32)>>,
}

/// What became of them.
pub(crate) struct Came {
    waited: Quantiles,
    failed: u32,
}

impl Comers {
    pub(crate) fn start(listen: SocketAddr, ca: &str) -> Comers {
        let is_over = Arc::new(AtomicBool::new(false));
        let config = config(ca);
        let threads = (0..THREADS).map(|thread| {
            let (over, config) = (Arc::clone(&is_over), Arc::clone(&config));
            thread::spawn(move || come(listen, &config, thread, &over))
        });
        Comers { threads: threads.collect(), is_over }
    }

    pub(crate) fn finish(self) -> Came {
        self.is_over.store(true, Ordering::Relaxed);
        let (mut waited, mut failed) = (Latencies::default(), 0);
        for thread in self.threads {
            let (some, others) = thread.join().unwrap();
            waited.add(&some);
            failed += others;
        }
        Came { waited: waited.quantiles(), failed }
    }
}

impl Display for Came {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Quantiles { count, p50_ms, p99_ms, max_ms, .. } = self.waited;
        write!(f, "{p50_ms:.1} / {p99_ms:.1} {{{max_ms:.0}}} of {count}, {} failed", self.failed)
    }
}

/// Comes again and again. How long it took from the connect to the answer's head, and how often it
/// came to nothing.
fn come(
    listen: SocketAddr,
    config: &Arc<ClientConfig>,
    thread: u32,
    is_over: &AtomicBool,
) -> (Latencies, u32) {
    let (mut waited, mut failed) = (Latencies::default(), 0);
    let start = Instant::now();
    let pause = Duration::from_secs(1) * THREADS / CONNECTS_PER_SECOND;
    let mut turn = 0;
    while !is_over.load(Ordering::Relaxed) {
        let due = start + pause * turn + pause * thread / THREADS;
        // Who has waited for long does not come more often then.
        turn = turn.max((start.elapsed().as_nanos() / pause.as_nanos()) as u32) + 1;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        match ask(listen, config) {
            Ok(()) if asked.elapsed() < PATIENCE => {
                waited.record(asked.elapsed().as_nanos() as u64);
            }
            _ => failed += 1,
        }
    }
    (waited, failed)
}

fn ask(listen: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = connect(listen, config)?;
    stream.write_all(get("/stream/comer", &[]).as_bytes())?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"HTTP/1.1 200");
    Ok(())
}
