//! What a record and a handshake cost, in nanoseconds: the best of five rounds, by the clock, since
//! the kernel's count of processor time is too coarse for them.
//!
//! `cargo bench -p tls --bench records`. Some seconds, on one core. Sealing is measured as the
//! server does it: one record a call, the key built anew each time.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::generate_simple_self_signed;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tls::{Choice, Handshake, Keys, Opened, Step};

const ROUNDS: usize = 5;
const RECORDS: usize = 200_000;
const HANDSHAKES: usize = 300;

fn main() {
    let (server, client) = configs();
    let whole = "the server's half of a handshake";
    println!("{whole:34} {:9.0} ns", best(|| handshakes(&server, &client)));
    let rustls = best(|| handshakes_of_rustls(&server, &client));
    println!("{:34} {rustls:9.0} ns", "the same by rustls' connection");
    let (mut keys, mut peer) = connect(&server, &client);
    for bytes in [100, 1_000, 4_000, 16_384] {
        let text = vec![b'x'; bytes];
        let one = best(|| seal(&mut keys, &[&text]));
        let (first, second) = text.split_at(bytes / 2);
        let two = best(|| seal(&mut keys, &[first, second]));
        let kept = best(|| seal_with_one_key(&mut keys, &text));
        println!("seal {bytes:6} bytes               {one:9.0} ns");
        println!("seal {bytes:6} bytes in two parts  {two:9.0} ns");
        println!("seal {bytes:6} bytes, key kept     {kept:9.0} ns");
        let (mut keys, mut peer) = connect(&server, &client);
        println!("open {bytes:6} bytes               {:9.0} ns", open(&mut keys, &mut peer, &text));
    }
    peer.clear();
}

fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| run()).fold(f64::MAX, f64::min)
}

fn seal(keys: &mut Keys, parts: &[&[u8]]) -> f64 {
    let mut out = vec![0; tls::limits::SEALED_BYTES_MAX];
    per(RECORDS / 4, |_| {
        black_box(keys.sealer().seal(parts, 0, &mut out).unwrap());
    })
}

fn seal_with_one_key(keys: &mut Keys, text: &[u8]) -> f64 {
    let mut out = vec![0; tls::limits::SEALED_BYTES_MAX];
    let mut sealer = keys.sealer();
    per(RECORDS / 4, |_| {
        black_box(sealer.seal(&[text], 0, &mut out).unwrap());
    })
}

/// Each record in a call of its own, as it comes from a client that says little.
fn open(keys: &mut Keys, peer: &mut Keys, text: &[u8]) -> f64 {
    const SOME: usize = 2_000;
    let mut out = vec![0; tls::limits::SEALED_BYTES_MAX];
    best(|| {
        let mut records: Vec<Vec<u8>> = (0..SOME)
            .map(|_| {
                let sealed = peer.sealer().seal(&[text], 0, &mut out).unwrap();
                out[..sealed.bytes].to_vec()
            })
            .collect();
        per(SOME, |at| {
            let opened = keys.opener().next(&mut records[at]).unwrap();
            assert!(matches!(opened, Opened::Data { .. }));
        })
    })
}

fn connect(server: &ServerConfig, client: &ClientConfig) -> (Keys, Keys) {
    let (keys, peer, _) = handshake(server, client);
    (keys, peer)
}

fn handshakes(server: &ServerConfig, client: &ClientConfig) -> f64 {
    let spent: Duration = (0..HANDSHAKES).map(|_| handshake(server, client).2).sum();
    spent.as_nanos() as f64 / HANDSHAKES as f64
}

/// A handshake, and what of it the server took.
fn handshake(server: &ServerConfig, client: &ClientConfig) -> (Keys, Keys, Duration) {
    let name = ServerName::try_from("push.test").unwrap();
    let mut there = Handshake::client(client, name).unwrap();
    let (mut keys, mut peer) = (Keys::default(), Keys::default());
    let (mut hello, mut out, mut end) = (Vec::new(), Vec::new(), Vec::new());
    there.step(&[], &mut hello, &mut peer).unwrap();
    let start = Instant::now();
    let mut here = Handshake::server(server).unwrap();
    here.step(&hello, &mut out, &mut keys).unwrap();
    let mut spent = start.elapsed();
    there.step(&out, &mut end, &mut peer).unwrap();
    out.clear();
    let start = Instant::now();
    let step = here.step(&end, &mut out, &mut keys).unwrap();
    drop(here);
    spent += start.elapsed();
    assert!(matches!(step, Step::Done { .. }));
    (keys, peer, spent)
}

fn handshakes_of_rustls(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> f64 {
    let mut spent = Duration::ZERO;
    for _ in 0..HANDSHAKES {
        let name = ServerName::try_from("push.test").unwrap();
        let mut there = rustls::ClientConnection::new(client.clone(), name).unwrap();
        let (mut hello, mut out, mut end) = (Vec::new(), Vec::new(), Vec::new());
        there.write_tls(&mut hello).unwrap();
        let start = Instant::now();
        let mut here = rustls::ServerConnection::new(server.clone()).unwrap();
        here.read_tls(&mut &hello[..]).unwrap();
        here.process_new_packets().unwrap();
        here.write_tls(&mut out).unwrap();
        spent += start.elapsed();
        there.read_tls(&mut &out[..]).unwrap();
        there.process_new_packets().unwrap();
        there.write_tls(&mut end).unwrap();
        let start = Instant::now();
        here.read_tls(&mut &end[..]).unwrap();
        here.process_new_packets().unwrap();
        assert!(!here.is_handshaking());
        drop(here);
        spent += start.elapsed();
    }
    spent.as_nanos() as f64 / HANDSHAKES as f64
}

fn per(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = generate_simple_self_signed(["push.test".to_owned()]).unwrap();
    let cert = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let resolver = Arc::new(Only(Arc::new(CertifiedKey::new(vec![cert], key))));
    let choice = Choice::default();
    (tls::server_config(resolver, choice), tls::client_config(roots, choice).unwrap())
}

#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}
