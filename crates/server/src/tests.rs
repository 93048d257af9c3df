//! A whole server in this process, on the runtime that it has as a program.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::EngineConfig;
use proto::request::Hosts;
use tokio::time::interval;

use crate::{PresenceConfig, ServeConfig, Server, StreamAccess, runtime};

/// For how long the control plane may stand still: more than on a busy machine, and less than the 2
/// s for which a client that does not close its side holds up a drain.
const STILL_MAX: Duration = Duration::from_secs(1);

/// The control plane has one thread: whoever waits there for the engine, which is drained under a
/// lock, holds up everybody.
#[test]
fn control_plane_goes_on_while_the_engine_drains() {
    let data = tempfile::tempdir().unwrap();
    let config = config(data.path());
    let runtime = runtime().unwrap();
    let server = runtime.block_on(Server::start(config)).unwrap();
    let mut client = TcpStream::connect(server.listen()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(b"GET /stream/1 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    // 10 s of them, twice the grace.
    let (ticker, ticks) = mpsc::sync_channel(1_000);
    runtime.spawn(async move {
        let mut every = interval(Duration::from_millis(10));
        while ticker.try_send(Instant::now()).is_ok() {
            every.tick().await;
        }
    });
    let begin = Instant::now();
    runtime.block_on(server.stop(Duration::from_secs(5))).unwrap();
    let end = Instant::now();
    drop(client);
    assert!(end - begin > STILL_MAX, "the client held up nothing: {:?}", end - begin);
    let mut last = begin;
    for tick in ticks.try_iter().chain([end]) {
        let still = tick.saturating_duration_since(last);
        assert!(still < STILL_MAX, "it stood still for {still:?} of {:?}", end - begin);
        last = tick;
    }
}

/// A server with nothing but two ports, and its data in `data`.
pub(crate) fn config(data: &Path) -> ServeConfig {
    ServeConfig {
        engine: EngineConfig::new("127.0.0.1:0".parse().unwrap()),
        tls_listen: None,
        api: Some("127.0.0.1:0".parse().unwrap()),
        tls_api: None,
        certificates: Vec::new(),
        acme: None,
        api_hosts: Hosts::any(),
        access: StreamAccess::Unsaid,
        token_cookie: String::new(),
        public_url: None,
        data: data.to_owned(),
        cluster: None,
        erlang: None,
        presence: PresenceConfig::new(Duration::from_secs(5), Vec::new(), None).unwrap(),
        traces: None,
        demo: None,
        program: None,
    }
}
