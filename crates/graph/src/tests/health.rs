//! An open store whose directory or file goes.

use std::fs;

use super::*;

#[test]
fn changes_fail_when_the_directory_is_gone_and_reads_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let graph = open(&data);
    assert_eq!(graph.add_blocking(vec![pair("1", "2")]), Ok(1));
    assert_eq!(graph.usable(), Ok(()));
    fs::remove_dir_all(&data).unwrap();
    let gone = |error: &Unusable| matches!(error, Unusable::Gone { dir, .. } if *dir == data);
    assert!(gone(&graph.usable().unwrap_err()));
    let error = graph.add_blocking(vec![pair("3", "4")]).unwrap_err();
    assert!(matches!(&error, WriteError::Unusable(error) if gone(error)), "{error}");
    assert!(error.to_string().contains("start it again"), "{error}");
    let options = LoadOptions::default();
    assert!(graph.load("x", &mut &b"5 6\n"[..], 0, options, &mut |_| {}).is_err());
    assert_eq!(sliced(&graph, Id::from_bits(2)).len(), 1);
    // Nor does another directory of that name help, which may be another process's.
    fs::create_dir(&data).unwrap();
    assert!(graph.add_blocking(vec![pair("3", "4")]).is_err());
    drop(graph);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is left in it");
}

#[test]
fn file_that_is_cut_short_while_open_is_damaged_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let pairs = (0..20_000).map(|n| pair(&n.to_string(), &(n % 997).to_string())).collect();
    assert_eq!(graph.add_blocking(pairs), Ok(20_000));
    let file = fs::File::options().write(true).open(dir.path().join("data.mdb")).unwrap();
    file.set_len(8192).unwrap();
    let answers = (0..997).map(|n| graph.page_followers(Id::from_bits(n), None, 100));
    let failed = answers.filter(Result::is_err).count();
    assert!(failed > 990, "whoever needs what is gone is told: {failed}");
    assert!(matches!(graph.usable(), Err(Unusable::Damaged(_))));
    let error = graph.add_blocking(vec![pair("1", "2")]).unwrap_err();
    assert!(error.to_string().contains("encke graph check"), "{error}");
    assert!(graph.stats(&mut |_, _| {}).is_err());
    drop(graph);
    let refused = Graph::open(dir.path(), &GraphOptions::default());
    assert!(matches!(refused.err().unwrap().reason, OpenReason::Damaged(_)));
}

/// In the place of `lock.mdb` are zeros then, by which LMDB takes the first commit for the newest.
#[test]
fn lock_file_that_is_cut_short_while_open_refuses_all_and_loses_nothing() {
    for reads_first in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let graph = open(dir.path());
        for n in 1..=3 {
            assert_eq!(graph.add_blocking(vec![pair(&n.to_string(), "7")]), Ok(1));
        }
        let file = fs::File::options().write(true).open(dir.path().join("lock.mdb")).unwrap();
        file.set_len(0).unwrap();
        if reads_first {
            let error = graph.page_followers(Id::from_bits(7), None, 10).unwrap_err();
            assert!(error.to_string().contains("lock.mdb"), "{error}");
        }
        let lost = WriteError::Unusable(Unusable::LockFile);
        assert_eq!(graph.add_blocking(vec![pair("4", "7")]), Err(lost));
        assert_eq!(graph.usable(), Err(Unusable::LockFile));
        assert!(graph.stats(&mut |_, _| {}).is_err());
        drop(graph);
        let followers = open(dir.path()).page_followers(Id::from_bits(7), None, 10).unwrap();
        assert_eq!(followers.ids, [1, 2, 3].map(Id::from_bits));
    }
}

/// The disk changes a stored list under an open store: that list is refused, others are not.
#[test]
fn list_that_is_damaged_while_open_is_refused_alone() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let marked = 0x0123_4567_89ab_cdef_u64;
    let pairs = vec![pair(&marked.to_string(), "7"), pair("1", "8")];
    assert_eq!(graph.add_blocking(pairs), Ok(2));
    let path = dir.path().join("data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == marked.to_le_bytes()).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 4);
    // In place, as a disk does: the map sees it.
    std::os::unix::fs::FileExt::write_all_at(
        &fs::File::options().write(true).open(&path).unwrap(),
        &bytes,
        0,
    )
    .unwrap();
    let error = graph.page_followers(Id::from_bits(7), None, 10).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    assert_eq!(graph.page_followers(Id::from_bits(8), None, 10).unwrap().ids, [Id::from_bits(1)]);
    assert!(matches!(graph.usable(), Err(Unusable::Damaged(_))));
    assert!(matches!(graph.add_blocking(vec![pair("1", "9")]), Err(WriteError::Unusable(_))));
}
