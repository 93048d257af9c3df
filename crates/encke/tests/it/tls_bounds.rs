//! Clients of the API's port of TLS that begin handshakes and end none.

use std::net::SocketAddr;
use std::time::Instant;

use super::tls_api::{metric, server};
use crate::harness::{Authority, End, Wire, tls_client, wait_for};

/// More than there are permits.
const CROWD: usize = 4300;

/// So many at the least go when places are scarce: then seven eighths of them are taken.
const DISPLACED_MIN: u64 = 512;

/// The head of a record that holds a `ClientHello` of 512 bytes, and its beginning.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

fn probe(address: SocketAddr, authority: &Authority) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut client = tls_client(address, "localhost", &authority.ca());
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn half_open_handshakes_block_neither_probes_nor_the_plain_port() {
    sys::limits::raise_descriptors().unwrap();
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let address = server.tls_api();
    let crowd: Vec<Wire> = (0..CROWD)
        .map(|n| {
            let mut wire = Wire::connect(address);
            // Some say nothing at all; who was cut off already is one less.
            let _ = wire.try_send(if n % 2 == 0 { HALF_HELLO } else { b"" });
            wire
        })
        .collect();
    let mut probes = 0;
    for _ in 0..10 {
        wait_for("a probe is answered over TLS", || {
            probes += 1;
            probe(address, &authority).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
        assert_eq!(server.api.get("/healthz").status(), 200);
    }
    // Whose time is over without that is counted by another name.
    let ended = |outcome: &str| {
        metric(&server, &format!("encke_api_tls_handshakes_total{{outcome=\"{outcome}\"}} "))
    };
    wait_for("silent ones go since places are scarce", || ended("displaced") > DISPLACED_MIN);
    drop(crowd);
    // A probe that had no answer is among them.
    let most = CROWD as u64 + probes - 10;
    wait_for("all are gone", || {
        (CROWD as u64..=most).contains(&(ended("displaced") + ended("abandoned")))
    });
    assert!(probe(address, &authority).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn handshake_that_does_not_go_on_is_cut_off() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let start = Instant::now();
    let mut wires = [HALF_HELLO, b"\x16", b""].map(|start| {
        let mut wire = Wire::connect(server.tls_api());
        wire.send(start);
        wire
    });
    for wire in &mut wires {
        assert!(matches!(wire.end(), End::Fin | End::Reset));
    }
    assert!(start.elapsed().as_secs() >= 9, "{:?}", start.elapsed());
    let abandoned = || metric(&server, "encke_api_tls_handshakes_total{outcome=\"abandoned\"} ");
    // A connection is dropped before it is counted.
    wait_for("all are counted", || abandoned() == 3);
}

#[test]
fn garbage_ends_its_own_connection_alone() {
    let authority = Authority::new();
    let server = server(&authority, &[]);
    let seed = crate::harness::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..100 {
        let mut bytes = vec![0x16; random.usize(1..2000)];
        random.fill(&mut bytes[1..]);
        let mut wire = Wire::connect(server.tls_api());
        // It may be refused before it is whole.
        let _ = wire.try_send(&bytes);
        wire.half_close();
        wire.end();
    }
    assert!(probe(server.tls_api(), &authority).unwrap().starts_with("HTTP/1.1 200"));
}
