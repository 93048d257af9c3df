//! Directories that cannot be opened say why, and what to do.

use std::fs;

use super::super::verify::{META_FORMAT, META_STATE};
use super::*;

fn refusal(dir: &Path) -> OpenError {
    Graph::open(dir, &GraphOptions::default()).err().unwrap()
}

#[test]
fn directory_in_use_names_the_process_that_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let error = refusal(dir.path());
    assert!(matches!(error.reason, OpenReason::InUse { pid } if pid == Some(std::process::id())));
    drop(graph);
    open(dir.path());
}

#[test]
fn missing_directories_are_made() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir.path().join("a/b/c"));
}

#[test]
fn directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refusal(&file.join("below"));
    assert!(matches!(error.reason, OpenReason::Directory(_)));
    let text = error.to_string();
    assert!(text.contains("file/below") && text.contains("or name another directory"), "{text}");
}

#[test]
fn store_of_another_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let store = graph.store();
    let mut txn = store.env.write_txn().unwrap();
    store.tables.meta.put(&mut txn, META_FORMAT, &7u32.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    drop((store, graph));
    let error = refusal(dir.path());
    assert!(matches!(error.reason, OpenReason::OtherFormat { found: 7, known: 2 }));
    assert!(error.to_string().contains("format 7 and this program reads format 2; use"), "{error}");
}

#[test]
fn file_of_another_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let store = graph.store();
    let mut txn = store.env.write_txn().unwrap();
    store.tables.meta.clear(&mut txn).unwrap();
    txn.commit().unwrap();
    drop((store, graph));
    assert!(matches!(refusal(dir.path()).reason, OpenReason::Foreign));
}

/// A commit that leaves the state as it was is none of ours: it may have changed anything.
#[test]
fn store_that_was_changed_past_its_state_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let store = graph.store();
    let mut txn = store.env.write_txn().unwrap();
    let state = store.tables.meta.get(&txn, META_STATE).unwrap().unwrap().to_vec();
    store.tables.meta.put(&mut txn, META_STATE, &state).unwrap();
    txn.commit().unwrap();
    drop((store, graph));
    assert!(matches!(refusal(dir.path()).reason, OpenReason::Damaged(_)));
}

#[test]
fn file_of_noise_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [10, 5000, 100_000] {
        fs::write(dir.path().join("data.mdb"), vec![b'x'; bytes]).unwrap();
        assert!(matches!(refusal(dir.path()).reason, OpenReason::Damaged(_)), "{bytes}");
    }
}

/// A store whose file ends in pages that nobody needs: removing nearly everything after a load
/// takes pages and gives them back.
fn filled(dir: &Path) {
    let mut random = fastrand::Rng::with_seed(1);
    let friends = |n: u32| (random.u32(..4000).to_string(), (n % 1000).to_string());
    let pairs: Model = (0..60_000).map(friends).collect();
    let text: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    let graph = open(dir);
    graph.add_blocking(pairs.iter().take(1000).map(|(a, b)| pair(a, b)).collect()).unwrap();
    graph.load("x", &mut text.as_bytes(), 0, LoadOptions::default(), &mut |_| {}).unwrap();
    let request = pairs.iter().skip(1000).map(|(a, b)| pair(a, b)).collect();
    assert_eq!(graph.remove_blocking(request), Ok(pairs.len() as u64 - 1000));
}

/// Bytes of the file up to the last page that is needed.
fn needed(file: &[u8]) -> usize {
    file.iter().rposition(|&byte| byte != 0).unwrap().next_multiple_of(4096)
}

#[test]
fn file_that_was_cut_short_is_damaged_wherever_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let file = dir.path().join("data.mdb");
    let whole = fs::read(&file).unwrap();
    let needed = needed(&whole);
    for parts in 1..97 {
        fs::write(&file, &whole[..needed / 97 * parts]).unwrap();
        for _ in 0..2 {
            let error = refusal(dir.path());
            assert!(matches!(error.reason, OpenReason::Damaged(_)), "{parts} of 97: {error}");
        }
    }
    fs::write(&file, whole).unwrap();
    assert_eq!(open(dir.path()).stats(&mut |_, _| {}).unwrap().subscriptions, 1000);
}

#[test]
fn file_without_its_unneeded_last_pages_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let file = dir.path().join("data.mdb");
    let bytes = fs::read(&file).unwrap();
    let needed = needed(&bytes);
    assert!(needed < bytes.len(), "the last commit gave back the last pages that it took");
    fs::write(&file, &bytes[..needed]).unwrap();
    assert_eq!(open(dir.path()).stats(&mut |_, _| {}).unwrap().subscriptions, 1000);
    assert_eq!(fs::metadata(&file).unwrap().len(), bytes.len() as u64);
}

#[test]
fn file_that_was_emptied_or_removed_is_no_new_store() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).add_blocking(vec![pair("bob", "rj")]).unwrap();
    let file = dir.path().join("data.mdb");
    fs::write(&file, "").unwrap();
    for _ in 0..2 {
        let error = refusal(dir.path());
        assert!(matches!(error.reason, OpenReason::Gone { subscriptions: Some(1) }), "{error}");
        assert!(error.to_string().contains("or start with an empty graph"));
        let _ = fs::remove_file(&file);
    }
    fs::remove_file(dir.path().join("data.state")).unwrap();
    assert_eq!(open(dir.path()).subscriptions(), 0);
}

/// As a disk would leave it that lost the last commit, or a backup that is too old.
#[test]
fn older_file_than_the_directory_held_is_refused_until_it_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).add_blocking(vec![pair("bob", "rj")]).unwrap();
    let file = dir.path().join("data.mdb");
    let older = fs::read(&file).unwrap();
    open(dir.path()).add_blocking(vec![pair("bob", "kim")]).unwrap();
    fs::write(&file, older).unwrap();
    let error = refusal(dir.path());
    assert!(matches!(error.reason, OpenReason::Older { .. }), "{error}");
    fs::remove_file(dir.path().join("data.state")).unwrap();
    assert_eq!(open(dir.path()).subscriptions(), 1);
}

#[test]
fn process_that_was_killed_leaves_a_store_that_is_further_than_its_marker() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("data.state");
    let graph = open(dir.path());
    let before = fs::read(&marker).unwrap();
    graph.add_blocking(vec![pair("bob", "rj")]).unwrap();
    drop(graph);
    assert_ne!(fs::read(&marker).unwrap(), before);
    fs::write(&marker, before).unwrap();
    assert_eq!(open(dir.path()).subscriptions(), 1);
}

/// As by a mount that cannot be written, of a file system that another one can write.
#[test]
fn store_is_read_beside_readers_and_not_while_a_process_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = GraphOptions::default();
    let graph = open(dir.path());
    graph.add_blocking(vec![pair("bob", "rj")]).unwrap();
    let refused = Store::open_read_only(dir.path(), &options).err().unwrap();
    assert!(matches!(refused, OpenReason::InUse { pid: Some(_) }), "{refused}");
    drop(graph);
    let store = Store::open_read_only(dir.path(), &options).unwrap();
    assert_eq!(store.subscriptions.load(Ordering::Relaxed), 1);
    let refused = refusal(dir.path());
    assert!(matches!(refused.reason, OpenReason::InUse { .. }), "{refused}");
}
