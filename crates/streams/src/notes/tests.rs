//! Notes on a real disk: found again, given back, synced as often as they must be.

use std::thread;

use tempfile::TempDir;

use super::*;

#[test]
fn notes_are_found_again_and_their_places_are_used_again() {
    let dir = TempDir::new().unwrap();
    let notes = Notes::open(dir.path()).unwrap();
    let long = "p".repeat(NOTE_PATH_BYTES_MAX);
    notes.make("run:1", (1, 8), true).unwrap();
    notes.make(&long, (2, 9), false).unwrap();
    assert_eq!(notes.due(), [""; 0].map(Box::from), "somebody is at both");
    notes.put_off("run:1");
    assert_eq!(notes.due(), ["run:1"].map(Box::from));
    notes.settle("run:1", Outcome::Told, 9);
    assert_eq!((notes.of("run:1"), notes.of("none")), (None, None));
    for number in 1..NOTES_MAX as u64 {
        notes.make(&format!("run:{number}"), (number, 8), false).unwrap();
    }
    assert!(matches!(notes.make("more", (3, 8), false), Err(Refusal::Pending)));
    let again = Notes::open(dir.path()).unwrap();
    let note = again.of(&long).unwrap();
    assert_eq!((note.id, note.position, note.is_old), (2, 9, true));
    assert_eq!(again.due().len(), NOTES_MAX);
    Notes::remove_all(dir.path()).unwrap();
    Notes::remove_all(dir.path()).unwrap();
    assert_eq!(Notes::open(dir.path()).unwrap().due().len(), 0);
}

#[test]
fn stream_that_is_appended_to_again_and_again_has_its_note_synced_once() {
    let dir = TempDir::new().unwrap();
    let notes = Notes::open(dir.path()).unwrap();
    let append = |path, id, position| {
        notes.make(path, (id, position), true).unwrap();
        notes.settle(path, Outcome::Told, position + 1);
        notes.synced.lock().syncs
    };
    assert!((1..9).all(|position| append("a", 1, position) == 1), "one sync for all");
    assert_eq!(append("a", 2, 8), 2, "it was made anew");
    assert_eq!(append("b", 3, 8), 3);
    notes.retire();
    assert_eq!(append("a", 2, 9), 3);
    notes.retire();
    assert_eq!(notes.synced.lock().syncs, 4, "that of b is cleared");
    assert_eq!(append("a", 2, 10), 4);
    let again = Notes::open(dir.path()).unwrap();
    assert_eq!(again.due(), ["a"].map(Box::from));
    assert_eq!(again.of("a").unwrap().position, 11);
    let paths: Vec<String> = (0..NOTES_MAX).map(|number| format!("run:{number}")).collect();
    notes.retire();
    for path in &paths {
        append(path, 4, 8);
    }
    assert_eq!(append("a", 2, 11), 4 + NOTES_MAX as u64 + 1, "others have taken its place");
    assert_eq!(Notes::open(dir.path()).unwrap().due().len(), NOTES_MAX);
}

/// Makes notes of as many streams at one time; which of them are made.
fn make_at_once(notes: &Notes, count: u64) -> Vec<bool> {
    notes.synced.lock().waits_for = notes.group.asked() + count;
    thread::scope(|scope| {
        let make = |number: u64| notes.make(&number.to_string(), (number, 8), true).is_ok();
        let made: Vec<_> = (0..count).map(|number| scope.spawn(move || make(number))).collect();
        made.into_iter().map(|made| made.join().unwrap()).collect()
    })
}

#[test]
fn notes_that_are_made_while_one_is_synced_share_the_next_sync() {
    let dir = TempDir::new().unwrap();
    let notes = Notes::open(dir.path()).unwrap();
    assert_eq!(make_at_once(&notes, 9), [true; 9]);
    let synced = notes.synced.lock();
    assert_eq!(synced.syncs, 2, "the first one's, and one of all others");
    assert!(synced.bytes.chunks(PLACE_BYTES).filter_map(read).count() == 9);
}

#[test]
fn note_that_a_failed_sync_has_lost_is_on_disk_before_it_counts() {
    let dir = TempDir::new().unwrap();
    let notes = Notes::open(dir.path()).unwrap();
    notes.synced.lock().failing = 1;
    let made = make_at_once(&notes, 9);
    assert_eq!(made.iter().filter(|is_made| **is_made).count(), 8, "{made:?}");
    let synced = notes.synced.lock();
    for (number, _) in made.iter().enumerate().filter(|(_, is_made)| **is_made) {
        let mut on_disk = synced.bytes.chunks(PLACE_BYTES).filter_map(read);
        assert!(on_disk.any(|(_, id, _)| id == number as u64), "{number}");
    }
}

#[test]
fn torn_note_is_none() {
    let whole = written("run:1", 7, 8);
    let mut place = whole.clone();
    place.resize(PLACE_BYTES, 0);
    assert_eq!(read(&place), Some(("run:1", 7, 8)));
    for cut in 0..whole.len() {
        let mut torn = whole[..cut].to_vec();
        torn.resize(PLACE_BYTES, 0);
        assert_eq!(read(&torn), None, "cut at {cut}");
    }
    assert_eq!(read(&[0xff; PLACE_BYTES]), None);
}
