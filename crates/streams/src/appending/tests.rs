//! What an append meets between its file and the log.

use tempfile::TempDir;

use super::*;
use crate::disk::DiskCall::{Sync, Write};
use crate::disk::faults::{calls, fail};
use crate::{Create, Lifetime, Limits};

/// Linux takes for written what a sync has failed to write. The log does not have it yet.
#[test]
fn append_whose_file_cannot_be_synced_before_it_is_logged_is_stored_again() {
    let dir = TempDir::new().unwrap();
    let limits = Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 };
    let store = Store::open(dir.path(), limits, sys::clock::unix_ms).unwrap();
    let (content_type, lifetime) = ("text/plain", Lifetime::Unbounded);
    let create = Create { content_type, lifetime, closed: false, data: b"" };
    store.create("s", &create, None).unwrap();
    let append = |data| Append {
        closes: false,
        producer: None,
        sequence: None,
        data,
        content_type: Some("text/plain"),
    };
    store.append("s", &append(b"one"), None).unwrap();
    let log = store.log.as_ref().unwrap();
    log.rest();
    let (stream, two) = (store.stream("s"), append(b"two"));
    let mut writer = stream.writer.lock();
    let (told, mut batch) = ((&two, None), Batch::default());
    let begun = store.begin_append((&stream, &mut writer), told, &mut batch).unwrap();
    let Begun::Written(written) = begun else { panic!("it is new") };
    // Its file is synced for the first append alone: it fails, and then all is well.
    fail(&[Sync]);
    log.rest();
    fail(&[]);
    log.rest();
    let stored = store.store_batch(batch);
    store.end_append((&stream, &mut writer), told, written, &stored).unwrap();
    log.rest();
    calls();
    log.rest();
    // Its file, then both halves.
    assert_eq!(calls(), [Write, Sync, Write, Sync, Write, Sync]);
}
