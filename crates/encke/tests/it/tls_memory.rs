//! Where the keys of streams lie: in pages that no core dump has (`MADV_DONTDUMP`, core(5)). What
//! rustls leaves of a handshake in freed memory is not looked for.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::ParseIntError;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use memchr::memmem::Finder;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, KeyLog, StreamOwned};

use crate::harness::{Authority, Server, get, wait_for};

/// Remembers what both sides send under.
#[derive(Debug, Default)]
struct Secrets(Mutex<Vec<Vec<u8>>>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label.ends_with("_TRAFFIC_SECRET_0") {
            self.0.lock().unwrap().push(secret.to_vec());
        }
    }
}

/// The parts of a process' memory that no dump has.
fn undumped(pid: u32) -> Vec<Range<u64>> {
    let (mut regions, mut region) = (Vec::new(), 0..0);
    for line in fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap().lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) = (number(start), number(end))
        {
            region = start..end;
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            let is_undumped = flags.split_whitespace().any(|flag| flag == "dd");
            regions.extend(is_undumped.then(|| region.clone()));
        }
    }
    regions
}

fn number(hex: &str) -> Result<u64, ParseIntError> {
    u64::from_str_radix(hex, 16)
}

/// How often `secrets` are in what no dump has.
fn kept(server: &Server, secrets: &[Vec<u8>]) -> usize {
    let memory = File::open(format!("/proc/{}/mem", server.pid())).unwrap();
    let mut count = 0;
    for region in undumped(server.pid()) {
        let mut bytes = vec![0; (region.end - region.start) as usize];
        // Some of it may have gone meanwhile.
        let Ok(len) = memory.read_at(&mut bytes, region.start) else { continue };
        let times = |secret| Finder::new(secret).find_iter(&bytes[..len]).count();
        count += secrets.iter().map(times).sum::<usize>();
    }
    count
}

/// Streams of clients whose secrets are written down.
struct Clients<'s> {
    server: &'s Server,
    config: Arc<ClientConfig>,
    log: Arc<Secrets>,
}

impl Clients<'_> {
    fn open(&self, count: usize) -> Vec<StreamOwned<ClientConnection, TcpStream>> {
        let open = |_| {
            let name = ServerName::try_from("localhost").unwrap();
            let connection = ClientConnection::new(self.config.clone(), name).unwrap();
            let socket = TcpStream::connect(self.server.tls_listen()).unwrap();
            let mut stream = StreamOwned::new(connection, socket);
            stream.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        };
        (0..count).map(open).collect()
    }
}

#[test]
fn keys_of_streams_lie_where_no_dump_has_them_and_go_with_their_clients() {
    let authority = Authority::new();
    let [cert, key] = authority.issue("own", &["localhost"]).options();
    let server = Server::start(&["--tls-listen=127.0.0.1:0", &cert, &key]);
    let log = Arc::new(Secrets::default());
    let config = server::client_config(Some(&authority.ca()), &["http/1.1"]).unwrap();
    let mut config = (*config).clone();
    config.key_log = log.clone();
    let clients = Clients { server: &server, config: Arc::new(config), log };
    let streams = clients.open(20);
    let secrets = clients.log.0.lock().unwrap().clone();
    assert_eq!(secrets.len(), 2 * streams.len());
    assert_eq!(kept(&server, &secrets), secrets.len(), "each is there once");
    drop(streams);
    server.wait_online("bob", 0);
    wait_for("they are wiped", || kept(&server, &secrets) == 0);
}
