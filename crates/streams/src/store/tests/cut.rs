//! Random streams whose file is cut at each byte of its last append, by seed: all before it is
//! there, nothing of it, and it is taken once more.
//!
//! More of them: `ENCKE_SIM_RUNS=100 cargo test -p streams cut`.

use std::path::Path;

use super::*;
use crate::disk::power::Random;

const SEEDS: u64 = 16;

/// Nothing here is about the disk itself, and a file in memory is synced at once.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// Some text, often with zeros at its end: so that zeros behind a cut may be what was there.
fn some_text(random: &mut Random) -> String {
    let letters: String =
        (0..1 + random.below(60)).map(|_| (b'a' + random.below(26) as u8) as char).collect();
    letters + &"\0".repeat(random.below(6) as usize)
}

#[test]
fn random_streams_that_are_cut_at_any_byte_of_the_last_append_have_all_before_it() {
    for seed in testing::simulator_seeds(SEEDS).tried {
        println!("run it again with ENCKE_SEED={seed}");
        let (mut random, dir) = (Random(seed), directory());
        let store = open(&dir);
        store
            .create("s", &Create { data: some_text(&mut random).as_bytes(), ..text() }, None)
            .unwrap();
        let count = 1 + random.below(5);
        let (mut before, mut last, mut from) = (String::new(), String::new(), 0);
        let file = file::file_of(dir.path(), "s");
        let append = |store: &Store, data: &str| {
            let producer = Some(Producer { id: "p", epoch: 0, sequence: count - 1 });
            store.append("s", &Append { producer, ..bytes(data.as_bytes()) }, None).unwrap()
        };
        for sequence in 0..count {
            (before, from) = (all(&store, "s"), fs::metadata(&file).unwrap().len() as usize);
            last = some_text(&mut random);
            let producer = Some(Producer { id: "p", epoch: 0, sequence });
            store.append("s", &Append { producer, ..bytes(last.as_bytes()) }, None).unwrap();
        }
        drop(store);
        let (whole, both) = (fs::read(&file).unwrap(), format!("{before}{last}"));
        for cut in from..whole.len() {
            for zeros in [0, whole.len() - cut] {
                let mut left = whole[..cut].to_vec();
                left.resize(cut + zeros, 0);
                let is_there = left == whole;
                fs::write(&file, left).unwrap();
                let store = open(&dir);
                let found = all(&store, "s");
                let expected = if is_there { &both } else { &before };
                assert_eq!(&found, expected, "seed {seed}, cut at {cut}, then {zeros} zeros");
                assert_eq!(append(&store, &last).repeated, is_there);
                assert_eq!(all(&open(&dir), "s"), both, "seed {seed}, cut at {cut}");
            }
        }
    }
}
