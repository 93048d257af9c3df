//! A whole server in this process, on the runtime that it has as a program.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use engine::EngineConfig;
use proto::request::Hosts;
use testing::{DEADLINE, wait_within};
use tokio::time::interval;

use crate::{PresenceConfig, ServeConfig, Server, StreamAccess, runtime};

/// Turns of the control plane while the engine is locked: three seconds of them, in which whatever
/// looks at the engine once a second does so.
const TURNS: u32 = 300;

/// The control plane has one thread: whoever waits there for the engine, which is drained under a
/// lock, holds up everybody. Here it is locked until the control plane has gone on.
#[test]
fn control_plane_goes_on_while_the_engine_drains() {
    let data = tempfile::tempdir().unwrap();
    let config = config(data.path());
    let runtime = runtime().unwrap();
    let server = runtime.block_on(Server::start(config)).unwrap();
    let turns = Arc::new(AtomicU32::new(0));
    let (engine, counted) = (Arc::clone(&server.engine), Arc::clone(&turns));
    let (lock, locked) = sync_channel(1);
    let drain = thread::spawn(move || {
        let _engine = engine.write().unwrap();
        lock.send(()).unwrap();
        wait_within(DEADLINE, || counted.load(Ordering::Relaxed) >= TURNS)
    });
    locked.recv().unwrap();
    runtime.spawn(async move {
        let mut every = interval(Duration::from_millis(10));
        loop {
            every.tick().await;
            turns.fetch_add(1, Ordering::Relaxed);
        }
    });
    runtime.block_on(server.stop(10 * DEADLINE)).unwrap();
    assert!(drain.join().unwrap(), "it stood still until the engine was free");
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
        streams: None,
        pusher_apps: None,
        hub: None,
        keep: None,
        demo: None,
        program: None,
    }
}
