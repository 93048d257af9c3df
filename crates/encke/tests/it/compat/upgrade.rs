//! All of them again while the server is replaced: each goes on on the connection that it has.

use super::{Beginning, Heard, SUBJECT, numbers, programs, report, start_all};
use crate::harness::Server;
use crate::upgrade::Upgraded;

#[test]
fn clients_of_others_do_not_notice_an_upgrade() {
    let Some(folder) = programs() else { return };
    let options = ["--keepalive=1", "--max-backlog=4MiB", "--history-events=100"];
    let data = tempfile::tempdir().unwrap();
    let server = Upgraded::of(Server::start_in(data.path(), &options), data.path());
    let mut listeners = start_all(&folder, &server, false);
    listeners.phase = "beginning";
    listeners.each(|client| {
        if client.listed.beginning == Beginning::ByPing {
            client.hear(&[Heard::Beginning]);
        }
    });
    for phase in ["the first upgrade", "the second", "the third"] {
        listeners.phase = phase;
        let (before, after) = (numbers("before", 50), numbers("after", 50));
        listeners.send(&server.api, &before, true);
        server.upgrade(&[]);
        listeners.send(&server.api, &after, true);
        listeners.hear(&[before, after].concat());
        listeners.keep_alive(2);
    }
    let there = listeners.clients.len();
    let stats = server.api.stats();
    assert_eq!(stats["connections_opened"], there, "nobody has come again: {stats}");
    assert_eq!(server.api.send(SUBJECT, "end"), there as u64);
    report(&listeners);
}
