//! What becomes of streams and updates when the server ends.

use std::fs;
use std::path::Path;

use super::{BOOKS, Hub};
use crate::harness::Server;

/// Whether a file below `dir` has `text` in it.
fn is_on_disk(dir: &Path, text: &str) -> bool {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let has = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    entries.into_iter().any(|path| if path.is_dir() { is_on_disk(&path, text) } else { has(&path) })
}

#[test]
fn update_that_no_rule_keeps_is_not_on_disk_and_a_restart_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--mercure-open", "--keep=room=1h", "--log-sync=always"];
    let hub = Hub::start_in(data.path(), &options);
    let (first, _) = hub.publish("topic=https://a.test/books/1&data=known");
    hub.publish("topic=https://a.test/books/1&data=a-rare-text");
    hub.server.api.send("room", "another-text");
    let Hub { server, _files: files } = hub;
    server.into_program().kill();
    let log = data.path().join("log");
    assert!(is_on_disk(&log, "another-text") && !is_on_disk(&log, "a-rare-text"));
    let hub = Hub { server: Hub::serve_in(data.path(), files.path(), &options), _files: files };
    for query in [BOOKS, "topic=https://a.test/books/1"] {
        let mut stream = hub.listen(query, &[&format!("Last-Event-ID: {first}")]);
        assert_eq!(stream.head.field("last-event-id"), Some("earliest"), "{query}");
        assert!(stream.chunk().starts_with("event: gap\n"), "{query}");
        let (id, _) = hub.publish("topic=https://a.test/books/1&data=live");
        let mut heard = stream.chunk();
        // One of the other stream, which this one has asked for.
        while !heard.starts_with(&format!("id: {id}\n")) {
            assert!(heard.ends_with("data: live\n\n"), "{heard}");
            heard = stream.chunk();
        }
    }
}

impl Hub {
    pub(super) fn start_in(data: &Path, options: &[&str]) -> Hub {
        let files = Hub::key_file();
        Hub { server: Hub::serve_in(data, files.path(), options), _files: files }
    }

    pub(super) fn serve_in(data: &Path, files: &Path, options: &[&str]) -> Server {
        Server::start_in(data, &[&[&*Hub::key_option(files)], options].concat())
    }
}
