//! The epoch of this run, and the mark on disk that keeps event ids growing over all runs.
//!
//! The file `epoch` in the data directory has the number below which all event numbers are
//! reserved. It is written before a number is used, a quarter of an hour ahead. So a process that
//! is killed has used none above it, and the next one begins there, wherever the clock stands. A
//! run that sends nothing writes nothing more.
//!
//! It is replaced whole: written beside, synced, renamed, and the directory synced (rename(2)). A
//! file that is missing, damaged or of another format is written anew. Then ids begin at the clock,
//! which is behind those of before only if it was set back. What a place means does not hang on the
//! file: it has the tag of its epoch, which is drawn at random.
//!
//! A process that takes over from another one goes on with its epoch, and with its file. It writes
//! nothing there before all is its own. Where events are kept on disk a restart goes on so, too.
//! Then the file has the epoch's tag as well, and between which numbers events may be lost. A
//! version that does not know such a file takes it for damaged, and begins an epoch of its own.
//!
//! Nothing waits for it. While it cannot be written, as on a full disk, numbers go on.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use graph::Graph;
use hub::{Epoch, EventIds, Tag};
use sys::{clock, machine, plain_file};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use self::mark::{Mark, Run};

pub(crate) mod mark;

/// The file's name, and that of the one that is to replace it.
const NAME: &str = "epoch";
const NEW_NAME: &str = "epoch.new";

/// How often it is looked whether more numbers are to be reserved.
const RESERVE_EVERY: Duration = Duration::from_secs(60);

/// The file in its directory, which must be held by this process alone.
#[derive(Debug)]
pub(super) struct EpochFile {
    dir: PathBuf,
    /// What is written in it, but for the run while something is due.
    written: Mark,
    /// Up to which number is to be reserved once all is ours.
    due: Option<u64>,
}

/// What is known of the log of the events that stay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogState {
    /// Of the epoch whose events are in it; `None` of a log that is none of ours.
    pub(super) tag: Option<Tag>,
    /// The number of its first event and of its last one.
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    /// Whether something is missing at its end.
    pub(super) is_cut: bool,
}

/// An epoch that begins, or goes on after a restart.
pub(super) struct Begun {
    pub(super) epoch: Epoch,
    /// The number before the first one of this process.
    pub(super) start: u64,
    /// Between which numbers events may be lost, both exclusive.
    pub(super) lost: Vec<(u64, u64)>,
    /// Whether the process before kept events in this epoch, and this one does.
    pub(super) goes_on: bool,
    pub(super) file: EpochFile,
}

/// Begins the next epoch in the data directory `dir`, at `now_ms` since 1970, under a tag out of
/// `random`. Where events are kept in a `log`, the epoch before goes on, if its events are in it.
pub(super) fn begin(dir: &Path, random: u64, now_ms: u64, log: Option<LogState>) -> Begun {
    let mark = read(dir).unwrap_or_else(|error| {
        tracing::warn!(
            "{}: {error}; it is written anew, and event ids begin at the clock: if that was set \
             back, they may be smaller than before",
            dir.join(NAME).display()
        );
        Mark::default()
    });
    let last = log.and_then(|log| log.last).unwrap_or(0);
    let Epoch { tag, base: start, until } =
        Epoch::begin(Tag::of(random), mark.until.max(last), now_ms);
    let run = log.map(|log| {
        let (before, boot) = (mark.run.clone(), machine::boot_id());
        let before = before.filter(|run| log.tag == Some(run.tag));
        let run = before.and_then(|run| run.gone_on(start, log, boot.as_deref()));
        Run { boot, ..run.unwrap_or_else(|| Run::new(tag, start)) }
    });
    let (tag, base, lost) = match &run {
        Some(run) => (run.tag, run.base, run.lost.clone()),
        None => (tag, start, Vec::new()),
    };
    let written = Mark { until: mark.until, run };
    let mut file = EpochFile { dir: dir.to_owned(), written, due: None };
    file.reserve(until);
    Begun { epoch: Epoch { tag, base, until }, start, lost, goes_on: base < start, file }
}

/// Goes on with `epoch`, which was begun by the process that had the data directory `dir` before,
/// and in which `last` was its last number. `keeps` says whether events are kept here. The file
/// stays as it is, since that process may yet go on: it is to be [claimed](EpochFile::claim) when
/// all is ours, before a number is used.
pub(super) fn take_over(dir: &Path, epoch: Epoch, last: u64, keeps: bool) -> Begun {
    // Whatever is wrong with the file, it is written anew.
    let before = read(dir).unwrap_or_default();
    let same = before.run.clone().filter(|run| keeps && run.tag == epoch.tag);
    let goes_on = same.is_some();
    let run = keeps.then(|| {
        let new = || Run { base: epoch.base, ..Run::new(epoch.tag, last) };
        Run { began: last, boot: machine::boot_id(), ..same.unwrap_or_else(new) }
    });
    let lost = run.as_ref().map_or_else(Vec::new, |run| run.lost.clone());
    let is_same = run == before.run;
    let is_due = before.until < epoch.until || !is_same;
    let due = is_due.then(|| epoch.until.max(before.until));
    let file = EpochFile { dir: dir.to_owned(), written: Mark { until: before.until, run }, due };
    Begun { epoch, start: last, lost, goes_on, file }
}

/// The process ends in order, and all of its kept events are on disk: `last` is its last number.
pub(super) fn end(dir: &Path, last: u64) {
    let Ok(Mark { until, run: Some(run) }) = read(dir) else { return };
    let mark = Mark { until, run: Some(Run { ended: Some(last), ..run }) };
    if let Err(error) = write(dir, &mark) {
        tracing::warn!(
            "cannot write {}: {error}; some clients that come back to the next server may be told \
             of a gap where there is none",
            dir.join(NAME).display()
        );
    }
}

/// Where the file comes from, which a disk may keep waiting for; `None` where there is none.
pub(super) trait EpochFileComes:
    Future<Output = Option<EpochFile>> + Send + 'static
{
}

impl<F: Future<Output = Option<EpochFile>> + Send + 'static> EpochFileComes for F {}

/// Reserves more numbers when it is time, for as long as the runtime lives, and while the directory
/// is ours: as long as the `graph` in it is open, and was not let go of.
pub(super) async fn keep(file: impl EpochFileComes, event_ids: Arc<EventIds>, graph: Graph) {
    let Some(mut file) = file.await else { return };
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
    /// All is ours: writes what was taken over, unless it stands there.
    pub(super) fn claim(&mut self) {
        if let Some(until) = self.due.take() {
            self.reserve(until);
        }
    }

    fn reserve_more(&mut self, event_ids: &EventIds, now_ms: u64) {
        let until = event_ids.to_reserve(now_ms);
        if until > self.written.until && self.reserve(until) {
            event_ids.reserve(until);
        }
    }

    /// Whether all numbers below `until` are reserved on disk now.
    fn reserve(&mut self, until: u64) -> bool {
        // Whoever starts next begins there: below it numbers may have been given.
        assert!(until >= self.written.until, "numbers would be given twice");
        let mark = Mark { until, run: self.written.run.clone() };
        match write(&self.dir, &mark) {
            Ok(()) => self.written = mark,
            Err(error) => tracing::warn!(
                "cannot write {}: {error}; the server goes on, but if it is started anew with a \
                 clock that was set back, event ids may be smaller than before",
                self.dir.join(NAME).display()
            ),
        }
        self.written.until >= until
    }
}

/// The mark; the least one where there is none yet.
fn read(dir: &Path) -> io::Result<Mark> {
    match plain_file::read(&dir.join(NAME)) {
        Ok(bytes) => {
            let text = str::from_utf8(&bytes).ok();
            text.and_then(Mark::parse).ok_or_else(|| ErrorKind::InvalidData.into())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Mark::default()),
        Err(error) => Err(error),
    }
}

fn write(dir: &Path, mark: &Mark) -> io::Result<()> {
    replace(dir, (NAME, NEW_NAME), &mark.text())
}

/// Puts a file with that text in the place of the one with the first of the names, whole, and under
/// the second one until then.
pub(super) fn replace(dir: &Path, (name, new): (&str, &str), text: &str) -> io::Result<()> {
    write_beside(dir, new, text)?;
    fs::rename(dir.join(new), dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Writes a file with that text under the name `new`, for one that may come in its place later.
pub(super) fn write_beside(dir: &Path, new: &str, text: &str) -> io::Result<()> {
    let mut file = plain_file::create(&dir.join(new), 0o644)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use hub::Place;

    use super::*;

    const NOW_MS: u64 = 1_760_000_000_000;

    /// A run of the server that ends at once.
    fn run(dir: &Path, now_ms: u64) -> (EventIds, EpochFile) {
        let Begun { epoch, file, .. } = begin(dir, fastrand::u64(..), now_ms, None);
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
                assert!(
                    ids.last() < read(dir.path()).unwrap().until,
                    "a number that is not reserved"
                );
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
        let Begun { mut file, .. } = take_over(dir.path(), epoch, ids.last(), false);
        file.claim();
        assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), written, "it has what it needs");
        assert!(successor.next(later_ms).number() > ids.last());
        assert_eq!(
            successor.known(ids.id(ids.last()).to_string().as_bytes()),
            Place::Known(ids.last())
        );
        successor.next(2 * later_ms);
        file.reserve_more(&successor, 2 * later_ms);
        assert!(read(dir.path()).unwrap().until > epoch.until);
        // One that was lost, or is behind: it is made anew.
        fs::remove_file(dir.path().join(NAME)).unwrap();
        take_over(dir.path(), epoch, ids.last(), false).file.claim();
        assert_eq!(read(dir.path()).unwrap().until, epoch.until);
    }

    #[test]
    fn damaged_file_is_found_and_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        run(dir.path(), NOW_MS);
        let good = fs::read(&path).unwrap();
        let mark = read(dir.path()).unwrap();
        assert!(mark.until > NOW_MS << 20);
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
        assert!(read(&data).unwrap().until > second.number());
    }

    #[test]
    fn successor_that_fails_leaves_the_epoch_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let Begun { epoch, .. } = begin(dir.path(), 1 << 50, NOW_MS, Some(LogState::default()));
        let written = fs::read(dir.path().join(NAME)).unwrap();
        for keeps in [true, false] {
            drop(take_over(dir.path(), epoch, epoch.base + 9, keeps));
            assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), written, "keeps: {keeps}");
        }
        let log = LogState { tag: Some(epoch.tag), ..LogState::default() };
        assert!(begin(dir.path(), 2 << 50, NOW_MS + 1, Some(log)).goes_on);
    }

    #[test]
    fn epoch_goes_on_with_a_log_only_if_the_process_before_kept_events() {
        let dir = tempfile::tempdir().unwrap();
        let Begun { epoch, goes_on, .. } =
            begin(dir.path(), 1 << 50, NOW_MS, Some(LogState::default()));
        assert!(!goes_on, "it is the first");
        let last = epoch.base + 9;
        let take_over = |keeps: bool| {
            let mut begun = take_over(dir.path(), epoch, last, keeps);
            begun.file.claim();
            begun.goes_on
        };
        assert!(take_over(true));
        assert!(!take_over(false));
        assert!(!take_over(true), "the one before kept nothing");
        assert!(take_over(true));
        let log = LogState { tag: Some(epoch.tag), ..LogState::default() };
        let again = begin(dir.path(), 2 << 50, NOW_MS, Some(log));
        assert!(again.goes_on && again.epoch.tag == epoch.tag && again.start > last);
        assert!(!begin(dir.path(), 3 << 50, NOW_MS, None).goes_on);
        let later = begin(dir.path(), 4 << 50, NOW_MS, Some(log));
        assert!(!later.goes_on && later.epoch.tag != epoch.tag, "another kept nothing meanwhile");
    }
}
