//! Ends of files whose sectors are on disk in part, as after a loss of power.

use super::*;
use crate::record::BODY_BYTES_MAX;

/// What one sector of a disk has.
const SECTOR: usize = 512;

/// A stream that has `kept`, and its file with one long append more; where that begins.
fn with_long_append(dir: &TempDir, kept: &[u8]) -> (Vec<u8>, usize) {
    let store = open(dir);
    store.create("s", &text(), None).unwrap();
    let kept = store.append("s", &bytes(kept), None).unwrap().next.position as usize;
    store.append("s", &bytes(&[b'x'; 10_000]), None).unwrap();
    (fs::read(file::file_of(dir.path(), "s")).unwrap(), kept)
}

#[test]
fn end_whose_begin_is_not_on_disk_is_cut_off() {
    let dir = TempDir::new().unwrap();
    let (whole, kept) = with_long_append(&dir, b"kept");
    // Its first sector, its first page, and all but its last sector.
    for lost in [SECTOR, 4096, whole.len() - SECTOR] {
        let mut torn = whole.clone();
        torn[kept..lost].fill(0);
        fs::write(file::file_of(dir.path(), "s"), &torn).unwrap();
        let store = open(&dir);
        assert_eq!(all(&store, "s"), "kept", "lost up to {lost}");
        store.append("s", &bytes(b" on"), None).unwrap();
        assert_eq!(all(&open(&dir), "s"), "kept on");
    }
}

#[test]
fn sector_that_is_damaged_or_more_than_one_append_is_never_cut_off() {
    let is_damaged = |dir: &TempDir, file: &[u8]| {
        let path = file::file_of(dir.path(), "s");
        fs::write(&path, file).unwrap();
        let head = open(dir).head("s");
        assert!(fs::read(path).unwrap() == file, "nothing is cut off");
        matches!(head, Err(Refusal::Damaged(_)))
    };
    let dir = TempDir::new().unwrap();
    let (mut file, kept) = with_long_append(&dir, b"kept");
    file[kept..SECTOR].fill(0);
    file.resize(kept + BODY_BYTES_MAX + SECTOR, b'x');
    assert!(is_damaged(&dir, &file), "no one append has so much");
    // An append that begins with a sector.
    let dir = TempDir::new().unwrap();
    let less = kept - b"kept".len();
    let (mut file, kept) = with_long_append(&dir, &vec![b'k'; SECTOR - less]);
    assert_eq!(kept, SECTOR);
    file[SECTOR..2 * SECTOR].fill(0);
    assert!(is_damaged(&dir, &file), "the sector was written before");
}
