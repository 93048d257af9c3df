//! Directories that cannot be opened say why, and what to do.

use std::fs;

use super::super::open::META_FORMAT;
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
    drop(graph);
    let error = refusal(dir.path());
    assert!(matches!(error.reason, OpenReason::OtherFormat { found: 7, known: 1 }));
    assert!(error.to_string().contains("format 7 and this program reads format 1; use"), "{error}");
}

#[test]
fn file_of_another_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let store = graph.store();
    let mut txn = store.env.write_txn().unwrap();
    store.tables.meta.clear(&mut txn).unwrap();
    txn.commit().unwrap();
    drop(graph);
    assert!(matches!(refusal(dir.path()).reason, OpenReason::Foreign));
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

#[test]
fn file_that_was_cut_short_is_damaged_wherever_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let file = dir.path().join("data.mdb");
    let whole = fs::read(&file).unwrap();
    for parts in 1..97 {
        fs::write(&file, &whole[..whole.len() / 97 * parts]).unwrap();
        for _ in 0..2 {
            let error = refusal(dir.path());
            assert!(matches!(error.reason, OpenReason::Damaged(_)), "{parts} of 97: {error}");
        }
    }
    // Nor does it help that the last user was killed, when much is missing.
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    fs::write(dir.path().join("lock"), "123\n").unwrap();
    assert!(matches!(refusal(dir.path()).reason, OpenReason::Damaged(_)));
    fs::write(&file, whole).unwrap();
    assert_eq!(open(dir.path()).stats(&mut |_, _| {}).unwrap().subscriptions, 1000);
}

#[test]
fn file_without_its_unneeded_last_pages_is_whole_when_its_user_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let file = dir.path().join("data.mdb");
    let bytes = fs::read(&file).unwrap();
    let needed = bytes.iter().rposition(|&byte| byte != 0).unwrap().next_multiple_of(4096);
    assert!(needed < bytes.len(), "the last commit gave back the last pages that it took");
    fs::write(&file, &bytes[..needed]).unwrap();
    fs::write(dir.path().join("lock"), "123\n").unwrap();
    assert_eq!(open(dir.path()).stats(&mut |_, _| {}).unwrap().subscriptions, 1000);
    assert_eq!(fs::metadata(&file).unwrap().len(), bytes.len() as u64);
}
