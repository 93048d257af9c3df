//! Streams on a real disk: restarts, torn and damaged files, lives, readers that wait.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::cache::{CACHE_MAX, STATES_BYTES_MAX};
use crate::{Append, Create, Producer, Start, messages};

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

fn now() -> u64 {
    NOW_MS.get()
}

const LIMITS: Limits = Limits { bytes_max: 1 << 20, log_bytes: 0 };

fn open(dir: &TempDir) -> Store {
    if now() == 0 {
        // What files are dated by goes on from here, too.
        let since = fs::metadata(dir.path()).unwrap().modified().unwrap();
        let since = since.duration_since(std::time::UNIX_EPOCH).unwrap();
        NOW_MS.set(since.as_millis() as u64);
    }
    Store::open(dir.path(), LIMITS, now).unwrap()
}

fn text() -> Create<'static> {
    Create { content_type: "text/plain", lifetime: Lifetime::Unbounded, closed: false, data: b"" }
}

fn bytes(data: &[u8]) -> Append<'_> {
    Append { closes: false, producer: None, sequence: None, data, content_type: Some("text/plain") }
}

fn all(store: &Store, path: &str) -> String {
    let mut start = Start::Beginning;
    let mut whole = Vec::new();
    loop {
        let piece = store.read(path, start, 5).unwrap();
        whole.extend(piece.data);
        start = Start::At(piece.head.next);
        if piece.up_to_date {
            return String::from_utf8(whole).unwrap();
        }
    }
}

#[test]
fn stream_is_read_in_pieces_and_survives_a_restart() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    assert!(store.create("a/b", &text(), None).unwrap().is_new);
    let producer = Some(Producer { id: "p", epoch: 0, sequence: 0 });
    let first = Append { producer, ..bytes(b"first ") };
    let next = store.append("a/b", &first, None).unwrap().next;
    store.append("a/b", &bytes(b"second "), None).unwrap();
    let tail = store.append("a/b", &Append { closes: true, ..bytes(b"third") }, None).unwrap().next;
    assert_eq!(all(&store, "a/b"), "first second third");
    let used = store.bytes();
    drop(store);
    let store = open(&dir);
    assert_eq!(store.bytes(), used);
    assert_eq!(all(&store, "a/b"), "first second third");
    let piece = store.read("a/b", Start::At(next), 1 << 20).unwrap();
    assert_eq!((piece.data.as_slice(), piece.ends()), (b"second third".as_slice(), true));
    assert_eq!(piece.head.next, tail);
    assert!(
        matches!(store.append("a/b", &bytes(b"x"), None), Err(Refusal::Closed(at)) if at == tail)
    );
    let again = store.create("a/b", &Create { closed: true, ..text() }, None).unwrap();
    assert!(!again.is_new);
    assert!(matches!(store.create("a/b", &text(), None), Err(Refusal::Exists)));
}

#[test]
fn repeat_of_a_producer_is_known_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let producer = Some(Producer { id: "p", epoch: 3, sequence: 0 });
    let append = Append { producer, ..bytes(b"once") };
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    store.append("s", &append, None).unwrap();
    drop(store);
    let store = open(&dir);
    assert!(store.append("s", &append, None).unwrap().repeated);
    assert_eq!(all(&store, "s"), "once");
}

#[test]
fn file_that_is_cut_anywhere_has_all_whole_records() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    store.append("s", &bytes(b"kept"), None).unwrap();
    let file = file::file_of(dir.path(), "s");
    let before = fs::read(&file).unwrap();
    store.append("s", &bytes(b"torn"), None).unwrap();
    let whole = fs::read(&file).unwrap();
    for cut in before.len()..whole.len() {
        for zeros in [0, whole.len() - cut, 5000] {
            let mut torn = whole[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            // Zeros behind a cut in the middle of a record are one that no crash leaves.
            if zeros == 5000 && cut > before.len() {
                continue;
            }
            fs::write(&file, &torn).unwrap();
            let store = open(&dir);
            assert_eq!(all(&store, "s"), "kept", "cut at {cut}, then {zeros} zeros");
            store.append("s", &bytes(b" on"), None).unwrap();
            assert_eq!(all(&open(&dir), "s"), "kept on");
        }
    }
}

#[test]
fn file_without_its_beginning_is_damaged() {
    let dir = TempDir::new().unwrap();
    open(&dir).create("s", &text(), None).unwrap();
    let file = file::file_of(dir.path(), "s");
    let whole = fs::read(&file).unwrap();
    for left in 0..8 {
        fs::write(&file, &whole[..left]).unwrap();
        let refused = open(&dir).append("s", &bytes(b"more"), None).unwrap_err();
        assert!(matches!(refused, Refusal::Damaged(0)), "{left} bytes: {refused}");
    }
}

#[test]
fn damage_is_told_and_never_served_or_cut_off() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    let place = store.append("s", &bytes(b"first"), None).unwrap().next.position as usize;
    store.append("s", &bytes(b"second"), None).unwrap();
    let file = file::file_of(dir.path(), "s");
    let whole = fs::read(&file).unwrap();
    for at in 0..place {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&file, &damaged).unwrap();
        let read = open(&dir).read("s", Start::Beginning, 100);
        assert!(matches!(read, Err(Refusal::Damaged(_))), "byte {at}");
        assert_eq!(fs::read(&file).unwrap(), damaged);
    }
}

#[test]
fn lifetime_slides_over_restarts_and_ends() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let ttl = Create { lifetime: Lifetime::Ttl(10), ..text() };
    store.create("s", &ttl, None).unwrap();
    let at = NOW_MS.get() + 100_000;
    store.create("t", &Create { lifetime: Lifetime::ExpiresAt(at), ..text() }, None).unwrap();
    NOW_MS.set(NOW_MS.get() + 9_000);
    store.head("s").unwrap();
    store.read("s", Start::Beginning, 1).unwrap();
    drop(store);
    let store = open(&dir);
    NOW_MS.set(NOW_MS.get() + 9_000);
    assert!(store.read("s", Start::Beginning, 1).is_ok(), "reading has begun it anew");
    let mut live = store.live("s");
    NOW_MS.set(NOW_MS.get() + 20_000);
    assert!(store.head("s").is_ok(), "a live reader holds it");
    let offset = store.head("s").unwrap().next;
    let mut waits = Box::pin(live.changed(offset));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    drop(waits);
    drop(live);
    NOW_MS.set(NOW_MS.get() + 10_000);
    assert!(matches!(store.head("s"), Err(Refusal::Unknown)));
    assert!(!file::file_of(dir.path(), "s").exists());
    assert!(store.head("t").is_ok());
    NOW_MS.set(at);
    let removed: usize = (0..256).map(|number| store.sweep(number).unwrap()).sum();
    assert_eq!((removed, store.bytes()), (1, 0), "nobody has asked for it");
}

/// Of a live read the disk knows only when it began.
#[test]
fn stream_that_a_live_reader_holds_outlives_the_process_that_ends_under_it() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &Create { lifetime: Lifetime::Ttl(10), ..text() }, None).unwrap();
    let live = store.live("s");
    store.read("s", Start::Beginning, 1).unwrap();
    let begun = now();
    let swept = |store: &Store| -> usize { (0..256).map(|n| store.sweep(n).unwrap()).sum() };
    for held_ms in [20_000, 60_000] {
        NOW_MS.set(begun + held_ms);
        assert!(store.head("s").is_ok(), "it is held");
        let next = open(&dir);
        assert_eq!(swept(&next), 0, "{held_ms}");
        assert!(next.head("s").is_ok(), "as after a kill, {held_ms}");
    }
    drop(live);
    NOW_MS.set(begun + 70_000);
    assert_eq!(swept(&open(&dir)), 1, "nobody has come back");
}

struct Woken(Mutex<u32>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.0.lock() += 1;
    }
}

#[test]
fn live_reader_is_woken_by_an_append_a_close_and_a_deletion() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let woken = Arc::new(Woken(Mutex::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let offset = store.create("s", &text(), None).unwrap().head.next;
    let changes: [&dyn Fn(); 3] = [
        &|| assert!(!store.append("s", &bytes(b"x"), None).unwrap().closed),
        &|| {
            let close = Append { closes: true, ..bytes(b"") };
            assert!(store.append("s", &close, None).unwrap().closed);
        },
        &|| store.delete("s", None).unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let here = if number == 0 { offset } else { store.head("s").unwrap().next };
        let mut live = store.live("s");
        let mut waits = Box::pin(live.changed(here));
        if number < 2 {
            assert!(waits.as_mut().poll(&mut context).is_pending());
            change();
            assert_eq!(*woken.0.lock(), number as u32 + 1);
        } else {
            change();
        }
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
    }
}

#[test]
fn offset_of_a_stream_that_was_deleted_is_known_as_one() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let old = store.create("s", &text(), None).unwrap().head.next;
    store.delete("s", None).unwrap();
    assert!(matches!(store.delete("s", None), Err(Refusal::Unknown)));
    assert!(store.create("s", &text(), None).unwrap().is_new);
    store.append("s", &bytes(b"new"), None).unwrap();
    assert!(matches!(store.read("s", Start::At(old), 9), Err(Refusal::OldOffset)));
    let new = store.head("s").unwrap().next;
    for position in [new.position - 1, new.position + 1, 0] {
        let made_up = Start::At(Offset { position, ..new });
        assert!(matches!(store.read("s", made_up, 9), Err(Refusal::BadOffset)), "{position}");
    }
    drop(store);
    // The clock is set back, and the server starts anew.
    let store = Store::open(dir.path(), LIMITS, || 1).unwrap();
    store.delete("s", None).unwrap();
    store.create("s", &text(), None).unwrap();
    assert!(matches!(store.read("s", Start::At(new), 9), Err(Refusal::OldOffset)));
}

#[test]
fn states_that_nobody_uses_are_dropped_past_their_bound_and_known_again() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path(), Limits { bytes_max: u64::MAX, log_bytes: 0 }, now).unwrap();
    let append = |path: &str, name: &str, sequence| {
        let producer = Some(Producer { id: name, epoch: 0, sequence });
        store
            .append(path, &Append { producer, ..bytes(b"x") }, None)
            .map(|appended| appended.repeated)
    };
    let states = || store.cache.states_bytes();
    store.create("s", &text(), None).unwrap();
    for name in ["a", "b", "a"] {
        append("s", name, 0).unwrap();
    }
    assert_eq!(states(), 2 * (1 + 64));
    // As if the others took so much.
    let many = STATES_BYTES_MAX;
    store.cache.count_state(&mut store.stream("t").public.lock(), many);
    assert!(states() > many);
    assert!(matches!(store.head("u"), Err(Refusal::Unknown)));
    assert_eq!((states(), store.cache.paths()), (0, 1), "all were dropped");
    assert!(append("s", "b", 0).unwrap(), "it is read again");
    assert_eq!(states(), 2 * (1 + 64));
    store.delete("s", None).unwrap();
    assert_eq!(states(), 0);
}

#[test]
fn streams_that_are_asked_for_in_vain_drop_none_that_are_there() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    for number in 0..2 * CACHE_MAX {
        assert!(matches!(store.head(&format!("none/{number}")), Err(Refusal::Unknown)));
        assert!(store.cache.paths() <= CACHE_MAX);
    }
    let file = file::file_of(dir.path(), "s");
    fs::rename(&file, file.with_extension("away")).unwrap();
    assert!(store.head("s").is_ok(), "it is known without the disk");
}

#[test]
fn streams_that_nobody_uses_are_dropped_past_their_number() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    let view = store.look(&store.stream("s")).unwrap();
    let used = store.stream("used");
    // As if they were read.
    for number in 0..CACHE_MAX {
        store.publish(&store.stream(&format!("known/{number}")), Some(&view), 0, 0);
    }
    assert!(store.cache.paths() <= CACHE_MAX / 2, "{}", store.cache.paths());
    assert!(Arc::ptr_eq(&used, &store.stream("used")), "one path is one stream");
}

#[test]
fn file_that_is_a_link_is_neither_read_nor_written() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    let (file, other) = (file::file_of(dir.path(), "s"), dir.path().join("other"));
    fs::rename(&file, &other).unwrap();
    std::os::unix::fs::symlink(&other, &file).unwrap();
    let before = fs::read(&other).unwrap();
    assert!(matches!(store.append("s", &bytes(b"x"), None), Err(Refusal::Disk(_))));
    assert!(matches!(open(&dir).head("s"), Err(Refusal::Disk(_))));
    assert_eq!(fs::read(&other).unwrap(), before);
}

#[test]
fn messages_of_json_are_joined_and_bytes_are_bounded() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let json = Create { content_type: "application/json; charset=utf-8", ..text() };
    store.create("j", &json, None).unwrap();
    for body in ["[1,2]", "{}", "[[3]]"] {
        let data = messages(body.as_bytes()).unwrap();
        let append = Append { content_type: Some("Application/JSON"), ..bytes(&data) };
        store.append("j", &append, None).unwrap();
    }
    store.append("j", &Append { closes: true, ..bytes(b"") }, None).unwrap();
    assert_eq!(store.read("j", Start::Beginning, 99).unwrap().data, b"1,2,{},[3]");
    store.create("s", &text(), None).unwrap();
    let long = vec![b'x'; 1 << 20];
    store.append("s", &bytes(&long), None).unwrap();
    assert!(matches!(store.append("s", &bytes(b"x"), None), Err(Refusal::Full(_))));
    assert!(store.append("s", &Append { closes: true, ..bytes(b"") }, None).is_ok(), "a close may");
    store.delete("s", None).unwrap();
    assert!(store.create("s", &text(), None).is_ok());
}

#[test]
fn reader_beside_a_delete_is_told_that_there_is_no_stream() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match store.read("a", Start::Beginning, 100) {
                        Ok(_) | Err(Refusal::Unknown) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for _ in 0..300 {
            store.create("a", &Create { data: b"x", ..text() }, None).unwrap();
            store.delete("a", None).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

mod cut;
mod failing;
mod torn;
