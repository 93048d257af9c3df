//! The epoch of this run, and the mark on disk that keeps event ids growing over all runs.
//!
//! The file `epoch` in the data directory has the number below which all event numbers are
//! reserved. It is written before a number is used, a quarter of an hour ahead, so a process that
//! is killed has used none above it, and the next one begins there, wherever the clock stands. A
//! run that sends nothing writes nothing more.
//!
//! It is replaced whole: written beside, synced, renamed, and the directory synced (rename(2)). A
//! file that is missing, damaged or of another format is written anew; then ids begin at the clock,
//! which is behind those of before only if it was set back. What a place means does not hang on the
//! file: it has the tag of its epoch, which is drawn at random at each start.
//!
//! A process that takes over from another one goes on with its epoch, and with its file.
//!
//! Nothing waits for it. While it cannot be written, as on a full disk, numbers go on.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use graph::Graph;
use hub::{Epoch, EventIds, Tag};
use siphasher::sip::SipHasher13;
use sys::{clock, plain_file};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The file's name, and that of the one that is to replace it.
const NAME: &str = "epoch";
const NEW_NAME: &str = "epoch.new";

/// Its first line.
const FORMAT: &str = "encke epoch 1";

/// How often it is looked whether more numbers are to be reserved.
const RESERVE_EVERY: Duration = Duration::from_secs(60);

/// The file in its directory, which must be held by this process alone.
#[derive(Debug)]
pub(super) struct EpochFile {
    dir: PathBuf,
    /// Up to where numbers are reserved in it.
    written: u64,
}

/// Begins the next epoch in the data directory `dir`, at `now_ms` since 1970, under a tag out of
/// `random`.
pub(super) fn begin(dir: &Path, random: u64, now_ms: u64) -> (Epoch, EpochFile) {
    let mark = read(dir).unwrap_or_else(|error| {
        tracing::warn!(
            "{}: {error}; it is written anew, and event ids begin at the clock: if that was set \
             back, they may be smaller than before",
            dir.join(NAME).display()
        );
        0
    });
    let epoch = Epoch::begin(Tag::of(random), mark, now_ms);
    let mut file = EpochFile { dir: dir.to_owned(), written: mark };
    file.reserve(epoch.until);
    (epoch, file)
}

/// Goes on with `epoch`, which was begun by the process that had the data directory `dir` before.
/// To be called when the directory is ours, and before a number is used.
pub(super) fn take_over(dir: &Path, epoch: Epoch) -> EpochFile {
    // Whatever is wrong with the file, it is written anew.
    let mut file = EpochFile { dir: dir.to_owned(), written: read(dir).unwrap_or(0) };
    if file.written < epoch.until {
        file.reserve(epoch.until);
    }
    file
}

/// Reserves more numbers when it is time, for as long as the runtime lives, and while the directory
/// is ours: as long as the `graph` in it is open, and was not let go of.
pub(super) async fn keep(mut file: EpochFile, event_ids: Arc<EventIds>, graph: Graph) {
    loop {
        sleep(RESERVE_EVERY).await;
        let (event_ids, graph) = (Arc::clone(&event_ids), graph.clone());
        let reserved = spawn_blocking(move || {
            let _ = graph.while_ours(|| file.reserve_more(&event_ids, clock::unix_ms()));
            drop(graph);
            file
        });
        // Its only end is that of the runtime.
        let Ok(same) = reserved.await else { return };
        file = same;
    }
}

impl EpochFile {
    fn reserve_more(&mut self, event_ids: &EventIds, now_ms: u64) {
        let until = event_ids.to_reserve(now_ms);
        if until > self.written && self.reserve(until) {
            event_ids.reserve(until);
        }
    }

    /// Whether all numbers below `until` are reserved on disk now.
    fn reserve(&mut self, until: u64) -> bool {
        // Whoever starts next begins there: below it numbers may have been given.
        assert!(until >= self.written, "numbers would be given twice");
        match write(&self.dir, until) {
            Ok(()) => self.written = until,
            Err(error) => tracing::warn!(
                "cannot write {}: {error}; the server goes on, but if it is started anew with a \
                 clock that was set back, event ids may be smaller than before",
                self.dir.join(NAME).display()
            ),
        }
        self.written >= until
    }
}

/// The mark; 0 where there is none yet.
fn read(dir: &Path) -> io::Result<u64> {
    match plain_file::read(&dir.join(NAME)) {
        Ok(bytes) => {
            let text = str::from_utf8(&bytes).ok();
            text.and_then(parse).ok_or_else(|| ErrorKind::InvalidData.into())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn write(dir: &Path, until: u64) -> io::Result<()> {
    debug_assert_eq!(parse(&text(until)), Some(until));
    let new = dir.join(NEW_NAME);
    let mut file = plain_file::create(&new, 0o644)?;
    file.write_all(text(until).as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, dir.join(NAME))?;
    File::open(dir)?.sync_all()
}

fn text(until: u64) -> String {
    let lines = format!("{FORMAT}\nnumbers-below {until}\n");
    let check = check(&lines);
    format!("{lines}check {check:016x}\n")
}

fn parse(file: &str) -> Option<u64> {
    let until = file.lines().nth(1)?.strip_prefix("numbers-below ")?.parse().ok()?;
    (file == text(until)).then_some(until)
}

/// What tells a damaged file, not a forged one.
fn check(lines: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(lines.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use hub::Place;

    use super::*;

    const NOW_MS: u64 = 1_760_000_000_000;

    /// A run of the server that ends at once.
    fn run(dir: &Path, now_ms: u64) -> (EventIds, EpochFile) {
        let (epoch, file) = begin(dir, fastrand::u64(..), now_ms);
        (EventIds::new(epoch), file)
    }

    #[test]
    fn ids_grow_over_all_runs_whatever_the_clock_says() {
        let dir = tempfile::tempdir().unwrap();
        let mut last = String::new();
        for now_ms in [NOW_MS, NOW_MS + 1, NOW_MS - 86_400_000, 0, NOW_MS + 5, NOW_MS, NOW_MS] {
            let (ids, mut file) = run(dir.path(), now_ms);
            assert_eq!(ids.known(last.as_bytes()), Place::Unknown, "a place of another epoch");
            for ms in (0..7_200_000).step_by(60_000) {
                let id = ids.next(now_ms + ms).to_string();
                assert!(id > last, "{id} after {last}");
                last = id;
                file.reserve_more(&ids, now_ms + ms);
                assert!(ids.last() < read(dir.path()).unwrap(), "a number that is not reserved");
            }
            assert_eq!(ids.known(last.as_bytes()), Place::Known(ids.last()));
        }
    }

    #[test]
    fn successor_goes_on_with_the_epoch_and_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let (ids, mut file) = run(dir.path(), NOW_MS);
        let begun = ids.epoch();
        let later_ms = NOW_MS + 3_600_000;
        ids.next(later_ms);
        file.reserve_more(&ids, later_ms);
        let epoch = ids.epoch();
        assert!(epoch.until > begun.until);
        let successor = EventIds::new(epoch);
        successor.skip_to(ids.last());
        let written = fs::read(dir.path().join(NAME)).unwrap();
        let mut file = take_over(dir.path(), epoch);
        assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), written, "it has what it needs");
        assert!(successor.next(later_ms).number() > ids.last());
        assert_eq!(
            successor.known(ids.id(ids.last()).to_string().as_bytes()),
            Place::Known(ids.last())
        );
        successor.next(2 * later_ms);
        file.reserve_more(&successor, 2 * later_ms);
        assert!(read(dir.path()).unwrap() > epoch.until);
        // One that was lost, or is behind: it is made anew.
        fs::remove_file(dir.path().join(NAME)).unwrap();
        take_over(dir.path(), epoch);
        assert_eq!(read(dir.path()).unwrap(), epoch.until);
    }

    #[test]
    fn damaged_file_is_found_and_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        run(dir.path(), NOW_MS);
        let good = fs::read(&path).unwrap();
        let mark = read(dir.path()).unwrap();
        assert!(mark > NOW_MS << 20);
        for at in 0..good.len() {
            for wrong in [good[at] ^ 1, good[at] ^ 0x80, b'9'] {
                let mut bytes = good.clone();
                bytes[at] = wrong;
                fs::write(&path, &bytes).unwrap();
                assert!(bytes == good || read(dir.path()).is_err(), "byte {at} is {wrong}");
            }
            fs::write(&path, &good[..at]).unwrap();
            assert!(read(dir.path()).is_err(), "cut at {at}");
        }
        fs::write(&path, good.repeat(2)).unwrap();
        assert!(read(dir.path()).is_err());
        run(dir.path(), NOW_MS);
        assert_eq!(read(dir.path()).unwrap(), mark, "it begins at the clock again");
    }

    #[test]
    fn file_that_cannot_be_written_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let (ids, mut file) = run(&data, NOW_MS);
        file.reserve_more(&ids, NOW_MS);
        let (first, second) = (ids.next(NOW_MS), ids.next(NOW_MS));
        assert!(first.number() < second.number(), "no send waits for it");
        fs::create_dir(&data).unwrap();
        file.reserve_more(&ids, NOW_MS);
        assert!(read(&data).unwrap() > second.number());
    }
}
