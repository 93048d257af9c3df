//! Forks on a real disk: what they read, what they keep of others, and for how long.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::offset::Offset;
use crate::request::Append;
use crate::{Limits, Piece};

thread_local! {
    /// How far the clock is ahead.
    static LATER_MS: Cell<u64> = const { Cell::new(0) };
}

fn now() -> u64 {
    sys::clock::unix_ms() + LATER_MS.get()
}

fn open(dir: &Path) -> Store {
    Store::open(dir, Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 }, now).unwrap()
}

fn create(store: &Store, path: &str, data: &[u8]) -> Start {
    let text =
        Create { content_type: "text/plain", lifetime: Lifetime::Unbounded, closed: false, data };
    Start::At(store.create(path, &text, None).unwrap().head.next)
}

fn append(store: &Store, path: &str, data: &[u8]) -> Start {
    let content_type = Some("text/plain");
    let append = Append { closes: false, producer: None, sequence: None, data, content_type };
    Start::At(store.append(path, &append, None).unwrap().next)
}

fn of(source: &str) -> Fork<'_> {
    Fork {
        source,
        at: None,
        sub_offset: 0,
        content_type: "text/plain",
        lifetime: None,
        closed: false,
        data: b"",
    }
}

fn at(source: &str, at: Start) -> Fork<'_> {
    Fork { at: Some(at), ..of(source) }
}

fn piece(store: &Store, path: &str, start: Start, bytes_max: usize) -> Piece {
    store.read(path, start, bytes_max).unwrap()
}

/// All of a stream, read in small pieces, whose offsets grow.
fn all(store: &Store, path: &str) -> String {
    let (mut start, mut whole, mut last) = (Start::Beginning, Vec::new(), String::new());
    loop {
        let piece = piece(store, path, start, 1);
        whole.extend(piece.data);
        let next = piece.head.next.to_string();
        assert!(next > last, "{path}: {last}, {next}");
        (start, last) = (Start::At(piece.head.next), next);
        if piece.up_to_date {
            return String::from_utf8(whole).unwrap();
        }
    }
}

/// Names of files below `dir`.
fn files(dir: &Path) -> usize {
    let folders = fs::read_dir(dir).unwrap().map(|folder| folder.unwrap().path());
    folders.filter(|path| path.is_dir()).map(|path| fs::read_dir(path).unwrap().count()).sum()
}

fn sweep(store: &Store) {
    for number in 0..file::DIRECTORIES {
        store.sweep(number).unwrap();
    }
}

#[test]
fn fork_has_what_its_ancestors_had_up_to_its_place_also_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let middle = create(&store, "a", b"one ");
    append(&store, "a", b"two ");
    assert!(store.fork("b", &of("a"), None).unwrap().is_new);
    append(&store, "a", b"of a");
    append(&store, "b", b"three ");
    store.fork("c", &of("b"), None).unwrap();
    append(&store, "c", b"four");
    append(&store, "b", b"of b");
    store.fork("d", &Fork { data: b"else", ..at("c", middle) }, None).unwrap();
    store.fork("e", &Fork { sub_offset: 2, data: b"!", ..at("c", middle) }, None).unwrap();
    for store in [store, open(dir.path())] {
        assert_eq!(all(&store, "a"), "one two of a");
        assert_eq!(all(&store, "b"), "one two three of b");
        assert_eq!(all(&store, "c"), "one two three four");
        assert_eq!(all(&store, "d"), "one else");
        assert_eq!(all(&store, "e"), "one tw!");
        // The source's offset is one of the fork, up to where it left it.
        let rest = piece(&store, "c", middle, 99);
        assert_eq!((rest.data.as_slice(), rest.up_to_date), (b"two three four".as_slice(), true));
        let tail = Start::At(store.head("a").unwrap().next);
        assert!(matches!(store.read("b", tail, 9), Err(Refusal::BadOffset)));
        assert!(!store.fork("b", &of("a"), None).unwrap().is_new);
        assert!(!store.fork("d", &at("c", middle), None).unwrap().is_new);
        let others = [of("c"), at("a", Start::Beginning), Fork { sub_offset: 1, ..of("a") }];
        for other in others {
            assert!(matches!(store.fork("b", &other, None), Err(Refusal::Exists)), "{other:?}");
        }
    }
}

#[test]
fn place_that_is_none_of_the_source_is_refused_and_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let Start::At(next) = create(&store, "a", b"one") else { unreachable!() };
    let files_before = files(dir.path());
    for offset in [
        Offset { position: next.position + 1, ..next },
        Offset { position: next.position - 1, ..next },
        Offset { id: next.id - 1, ..next },
    ] {
        let fork = at("a", Start::At(offset));
        assert!(matches!(store.fork("b", &fork, None), Err(Refusal::BadOffset)), "{offset}");
    }
    let sub = |sub_offset| Fork { sub_offset, ..at("a", Start::Beginning) };
    assert!(matches!(store.fork("b", &sub(4), None), Err(Refusal::SubOffset)));
    assert!(matches!(store.fork("b", &of("b"), None), Err(Refusal::Unknown)));
    assert!(matches!(store.fork("a", &of("a"), None), Err(Refusal::Exists)));
    let json = Fork { content_type: "application/json", ..of("a") };
    assert!(matches!(store.fork("b", &json, None), Err(Refusal::OtherType(_))));
    assert_eq!(files(dir.path()), files_before);
    let mut source = "a".to_owned();
    for number in 0..ANCESTORS_MAX {
        let path = format!("fork:{number}");
        store.fork(&path, &of(&source), None).unwrap();
        source = path;
    }
    assert!(matches!(store.fork("b", &of(&source), None), Err(Refusal::Ancestors(_))));
    assert_eq!(all(&store, &source), "one");
}

#[test]
fn deleted_source_stays_for_its_forks_and_goes_with_the_last_one() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    create(&store, "a", b"of a, ");
    store.fork("b", &of("a"), None).unwrap();
    append(&store, "b", b"of b, ");
    store.fork("c", &of("b"), None).unwrap();
    append(&store, "c", b"of c");
    let bytes = store.bytes();
    for path in ["a", "b"] {
        store.delete(path, None).unwrap();
    }
    let text = Create {
        content_type: "text/plain",
        lifetime: Lifetime::Unbounded,
        closed: false,
        data: b"",
    };
    for store in [&store, &open(dir.path())] {
        assert_eq!(store.bytes(), bytes, "nothing is freed");
        sweep(store);
        for path in ["a", "b"] {
            assert!(matches!(store.head(path), Err(Refusal::Gone)), "{path}");
            assert!(matches!(store.delete(path, None), Err(Refusal::Gone)));
            assert!(matches!(store.create(path, &text, None), Err(Refusal::Needed)));
            assert!(matches!(store.fork("d", &of(path), None), Err(Refusal::Needed)));
        }
        assert_eq!(all(store, "c"), "of a, of b, of c");
    }
    store.delete("c", None).unwrap();
    for path in ["a", "b", "c"] {
        assert!(matches!(store.head(path), Err(Refusal::Unknown)), "{path}");
    }
    assert_eq!((store.bytes(), files(dir.path())), (0, 0));
}

#[test]
fn end_of_a_life_is_a_deletion() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let past = Create {
        content_type: "text/plain",
        lifetime: Lifetime::ExpiresAt(now() + 3_600_000),
        closed: true,
        data: b"kept",
    };
    store.create("a", &past, None).unwrap();
    let fork = store.fork("b", &of("a"), None).unwrap().head;
    assert_eq!((fork.lifetime, fork.closed), (past.lifetime, false), "it is inherited");
    let own = Fork { lifetime: Some(Lifetime::Ttl(7_200)), ..of("a") };
    store.fork("c", &own, None).unwrap();
    LATER_MS.set(3_600_000);
    assert!(matches!(store.head("a"), Err(Refusal::Gone)));
    assert!(matches!(store.head("b"), Err(Refusal::Unknown)));
    assert_eq!(all(&store, "c"), "kept");
    // Nobody asks for the source: the sweep finds it.
    store.delete("c", None).unwrap();
    assert_eq!(files(dir.path()), 0);
}

#[test]
fn what_a_crash_leaves_of_a_fork_is_removed() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    create(&store, "a", b"kept");
    store.fork("b", &of("a"), None).unwrap();
    let bytes = store.bytes();
    let (a, b) = (file::file_of(dir.path(), "a"), file::file_of(dir.path(), "b"));
    // The links are there, and the fork is not yet.
    let own = fs::metadata(&b).unwrap().len();
    fs::remove_file(&b).unwrap();
    store.delete("a", None).unwrap();
    let store = open(dir.path());
    assert_eq!(store.bytes(), bytes - own);
    assert_eq!(files(dir.path()), 1, "the source, which nobody needs");
    sweep(&store);
    assert_eq!((store.bytes(), files(dir.path())), (0, 0));
    assert!(!a.exists() && matches!(store.head("a"), Err(Refusal::Unknown)));
}

/// What a path is to the naive model.
#[derive(Default)]
struct Model {
    /// The content, with the offset behind each append.
    appends: Vec<(Start, Vec<u8>)>,
    is_deleted: bool,
    /// The path that was forked.
    source: Option<String>,
}

impl Model {
    fn text(&self) -> String {
        let bytes = self.appends.iter().flat_map(|(_, data)| data).copied().collect();
        String::from_utf8(bytes).unwrap()
    }
}

/// Numbers by a seed (Knuth's MMIX generator).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// Forgets what is deleted and has no forks, as often as that frees others.
fn free(model: &mut HashMap<String, Model>) {
    loop {
        // Those above a source are needed, too.
        let needed: Vec<String> =
            model.values().filter_map(|stream| stream.source.clone()).collect();
        let before = model.len();
        model.retain(|path, stream| !stream.is_deleted || needed.contains(path));
        if model.len() == before {
            return;
        }
    }
}

#[test]
fn random_forks_are_as_the_naive_model_has_them() {
    const PATHS: u64 = 6;
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let dir = TempDir::new().unwrap();
        let mut store = open(dir.path());
        let mut model: HashMap<String, Model> = HashMap::new();
        for number in 0..120 {
            let path = format!("s{}", random.below(PATHS));
            let data = format!("{number},");
            match random.below(9) {
                0 | 1 if !model.contains_key(&path) => {
                    let next = create(&store, &path, data.as_bytes());
                    let appends = vec![(next, data.into_bytes())];
                    model.insert(path, Model { appends, ..Model::default() });
                }
                2 | 3 if !model.contains_key(&path) => {
                    let source = format!("s{}", random.below(PATHS));
                    let Some(above) = model.get(&source).filter(|above| !above.is_deleted) else {
                        continue;
                    };
                    let kept = 1 + random.below(above.appends.len() as u64) as usize;
                    let mut appends = above.appends[..kept].to_vec();
                    let place = appends[kept - 1].0;
                    let fork = Fork { data: data.as_bytes(), ..at(&source, place) };
                    let next = Start::At(store.fork(&path, &fork, None).unwrap().head.next);
                    appends.push((next, data.into_bytes()));
                    model.insert(path, Model { appends, source: Some(source), is_deleted: false });
                }
                4 if model.get(&path).is_some_and(|stream| !stream.is_deleted) => {
                    store.delete(&path, None).unwrap();
                    let stream = model.get_mut(&path).unwrap();
                    stream.is_deleted = true;
                    free(&mut model);
                }
                5 => store = open(dir.path()),
                _ => {
                    let Some(stream) = model.get_mut(&path).filter(|stream| !stream.is_deleted)
                    else {
                        continue;
                    };
                    let next = append(&store, &path, data.as_bytes());
                    stream.appends.push((next, data.into_bytes()));
                }
            }
            for path in (0..PATHS).map(|path| format!("s{path}")) {
                match model.get(&path) {
                    None => assert!(matches!(store.head(&path), Err(Refusal::Unknown)), "{path}"),
                    Some(stream) if stream.is_deleted => {
                        assert!(matches!(store.head(&path), Err(Refusal::Gone)), "{path}");
                    }
                    Some(stream) => assert_eq!(all(&store, &path), stream.text(), "{path}"),
                }
            }
        }
        for path in model.keys() {
            let _ = store.delete(path, None);
        }
        sweep(&store);
        assert_eq!((store.bytes(), files(dir.path())), (0, 0));
    }
}

/// Somebody's copy of a file, an editor's folder.
#[test]
fn files_of_others_beside_the_streams_stay_and_stop_no_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    create(&store, "a", b"a");
    let beside = store.file(&store.stream("a")).with_extension("bak");
    drop(store);
    fs::write(&beside, b"mine").unwrap();
    fs::create_dir(beside.with_extension("old")).unwrap();
    let store = open(dir.path());
    assert_eq!(piece(&store, "a", Start::Beginning, 10).data, b"a");
    assert_eq!(fs::read(&beside).unwrap(), b"mine");
}
