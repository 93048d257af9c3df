//! What streams at rest take of the server's memory.

use std::net::SocketAddr;
use std::thread;

use sys::process;

use crate::Plan;
use crate::ask::Client;
use crate::harness::Server;
use crate::table::Table;

/// The bound for an open one.
const BYTES_EACH: f64 = 100.0;

/// Clients that make them, as many as the server has threads for the disk.
const CLIENTS: usize = 64;

/// Streams that the server keeps in memory (`CACHE_MAX` of `crates/streams/src/store.rs`): these
/// are made first, and so not counted.
const CACHED: usize = 4_096;

pub(crate) fn run(plan: &Plan, table: &mut Table) {
    let dir = plan.directory();
    let first = CACHED.min(plan.idle / 2);
    let counted = plan.idle - first;
    let server = Server::start_in(dir.path(), &["--streams"]);
    let address = server.api.address();
    let each = |number: std::ops::Range<usize>, closed: &str| {
        ask_all(address, number, |client, stream| {
            let path = format!("idle:{stream}");
            assert_eq!(client.ask("PUT", &path, "", ""), 201);
            assert_eq!(client.ask("POST", &path, closed, "token"), 204);
        });
    };
    each(0..first, "");
    let before = anonymous(&server);
    each(first..plan.idle, "");
    let open = (anonymous(&server) - before) / counted as f64;
    table.shown("open streams, none read", counted);
    table.most("  memory of each", open, BYTES_EACH, " bytes");
    let before = anonymous(&server);
    each(plan.idle..plan.idle + counted, "Stream-Closed: true\r\n");
    let closed = (anonymous(&server) - before) / counted as f64;
    table.shown("closed streams", counted);
    table.shown("  memory of each", format!("{closed:.2} bytes"));
    server.stop("TERM");
    let server = Server::start_in(dir.path(), &["--streams"]);
    let all = anonymous(&server);
    server.stop("TERM");
    let empty = plan.directory();
    let none = anonymous(&Server::start_in(empty.path(), &["--streams"]));
    let after = (all - none) / (plan.idle + counted) as f64;
    table.most("each of all, after a start", after, BYTES_EACH, " bytes");
}

/// Has clients ask for each number of `numbers` once.
fn ask_all(
    address: SocketAddr,
    numbers: std::ops::Range<usize>,
    ask: impl Fn(&mut Client, usize) + Sync,
) {
    thread::scope(|scope| {
        for first in 0..CLIENTS {
            let (numbers, ask) = (numbers.clone(), &ask);
            scope.spawn(move || {
                let mut client = Client::new(address);
                numbers.skip(first).step_by(CLIENTS).for_each(|number| ask(&mut client, number));
            });
        }
    });
}

fn anonymous(server: &Server) -> f64 {
    process::resident_of(server.pid()).unwrap().anonymous as f64
}
