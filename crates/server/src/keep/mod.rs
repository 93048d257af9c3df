//! Events that stay: the log on disk, from the start of a server to its end.
//!
//! It lies in the directory `log` of the data directory. The epoch whose events are in it goes on
//! at the next start. The file `kept` beside the segments says since when each rule keeps what it
//! fits: a place before that is a gap.
//!
//! An upgrade hands the log over where it hands the store over. What cannot be opened then is tried
//! again, and sends of what is kept are refused meanwhile. What the successor keeps is claimed on
//! disk when all is its own: if it fails, the claims are still those of the server that goes on.

mod kept_file;
mod node;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use archive::{DiskArchive, KeepRules};
use engine::{EventStore, Router};
use journal::{Config, Found, RealDisk, Sync};
use tokio::task::spawn_blocking;
use tokio::time::interval;

use self::kept_file::KeptFile;
use crate::epoch::{self, Begun, LogState};

/// The log's directory within that of the data.
const DIR: &str = "log";

/// How often it is looked whether a segment has expired.
const FORGET_EVERY: Duration = Duration::from_secs(20);

/// Between two tries to open the log that another process has, and how long a start may try.
const TRY_AGAIN: Duration = Duration::from_millis(50);
const TAKE_MAX: Duration = Duration::from_secs(5);

/// Which events are kept, and how.
#[derive(Clone, Debug)]
pub struct KeepConfig {
    /// Of which subjects.
    pub rules: KeepRules,
    /// Bytes of all of them on disk.
    pub bytes_max: u64,
    /// Whether each is answered when it is on disk, whatever its sender asks.
    pub always_durable: bool,
}

/// The log of one server.
#[derive(Clone)]
pub(crate) struct Keeping {
    archive: Arc<DiskArchive>,
    data: PathBuf,
    /// What a node of a cluster says of it on disk; `None` while nothing is said.
    claims: Arc<Mutex<Option<KeptFile>>>,
    /// When it was last written down that some are missing.
    lost_said: Arc<Mutex<Option<tokio::time::Instant>>>,
}

/// What a successor claims: written beside what stands in the log's directory, until all is ours.
pub(crate) struct ClaimsBeside {
    dir: PathBuf,
}

impl ClaimsBeside {
    /// All is ours: from now on it stands.
    pub(crate) fn put_in_place(self) {
        if let Err(error) = KeptFile::put_in_place(&self.dir) {
            tracing::warn!(
                "cannot write {}: {error}; some clients that come back to the next server may be \
                 told of a gap where there is none",
                self.dir.join(kept_file::NAME).display()
            );
        }
    }
}

impl Keeping {
    /// The log in the data directory `data`, which another process has or nobody has opened. Where
    /// the server has a hub updates of topics are kept, too.
    pub(crate) fn new(data: &Path, config: &KeepConfig, has_hub: bool) -> Keeping {
        let journal = Config {
            dir: data.join(DIR),
            bytes_max: config.bytes_max,
            segment_bytes: Config::segment_bytes_for(config.bytes_max),
            sync: if config.always_durable { Sync::Always } else { Sync::Group },
        };
        let archive = DiskArchive::closed(config.rules.clone(), journal, Arc::new(RealDisk))
            .with_topics(has_hub.then_some(mercure::PATH));
        let (archive, claims, lost_said) = (Arc::new(archive), Arc::default(), Arc::default());
        Keeping { archive, data: data.to_owned(), claims, lost_said }
    }

    /// What is on disk.
    pub(crate) fn archive(&self) -> Arc<DiskArchive> {
        Arc::clone(&self.archive)
    }

    /// For the configuration of the engine.
    pub(crate) fn event_store(&self) -> EventStore {
        EventStore(Arc::clone(&self.archive) as Arc<engine::FrameStore>)
    }

    /// Opens the log, and tells the server's log what was in it.
    pub(crate) async fn open(&self) -> Result<LogState> {
        let since = Instant::now();
        self.make_dir()?;
        let mut tries = interval(TRY_AGAIN);
        let found = loop {
            tries.tick().await;
            let archive = Arc::clone(&self.archive);
            match spawn_blocking(move || archive.take_back()).await.context("no log was opened")? {
                Ok(found) => break found.unwrap_or_default(),
                // The one before lets go of it when its last reader has.
                Err(error) if since.elapsed() < TAKE_MAX && is_busy(&error) => {
                    tracing::debug!(%error, "the log is tried again");
                }
                Err(error) => {
                    let dir = self.dir();
                    return Err(error).with_context(|| format!("the log in {}", dir.display()));
                }
            }
        };
        self.tell(&found, since.elapsed());
        if found.is_end_lost {
            // Nothing of before is claimed: a new epoch begins, so everybody is told of a gap.
            let dir = self.dir();
            KeptFile::remove(&dir).with_context(|| format!("cannot write in {}", dir.display()))?;
        }
        let tag = KeptFile::read(&self.dir()).map(|kept| kept.tag);
        let (first, last) = (found.first, found.last);
        Ok(LogState { tag, first, last, is_cut: found.cut.is_some() })
    }

    fn tell(&self, found: &Found, took: Duration) {
        let stats = self.archive.stats();
        let (bytes, segments) = stats.map_or((0, 0), |stats| (stats.bytes, stats.segments));
        let text = |number: Option<u64>| {
            number.map_or_else(|| "none".to_owned(), |number| number.to_string())
        };
        let (first, last) = (text(found.first), text(found.last));
        let seconds = took.as_secs_f64();
        tracing::info!(bytes, segments, first, last, seconds, "the log of kept events is open");
        if let Some(cut) = &found.cut {
            tracing::warn!(
                "{}: {} bytes behind event {} were not written to their end and are cut off; who \
                 comes back from there is told of a gap",
                cut.file.display(),
                cut.bytes,
                cut.after
            );
        }
        for damage in &found.damaged {
            if damage.before == u64::MAX {
                tracing::error!(
                    "{} is damaged: it was written last, and none of its events behind event {} \
                     can be read; everybody who comes back is told of a gap",
                    damage.file.display(),
                    damage.after
                );
                continue;
            }
            tracing::error!(
                "{} is damaged: events between {} and {} cannot be read; who comes back from there \
                 or before is told of a gap",
                damage.file.display(),
                damage.after,
                damage.before
            );
        }
    }

    /// An epoch begins, or goes on in this process: says since when each rule
    /// has kept what it fits. Only if the process before kept events, too, its rules count.
    pub(crate) fn begin(&self, begun: &Begun) -> Result<()> {
        if let Some(kept) = self.new_claims(begun) {
            let dir = self.dir();
            kept.write(&dir).with_context(|| format!("cannot write in {}", dir.display()))?;
        }
        Ok(())
    }

    /// Says so within an upgrade. The server before may yet go on, so what it claims stands until
    /// the answer, if there is one, is put in its place.
    pub(crate) fn begin_beside(&self, begun: &Begun) -> Result<Option<ClaimsBeside>> {
        let Some(kept) = self.new_claims(begun) else { return Ok(None) };
        let dir = self.dir();
        kept.write_beside(&dir).with_context(|| format!("cannot write in {}", dir.display()))?;
        Ok(Some(ClaimsBeside { dir }))
    }

    /// What this process claims from now on; `None` if it stands on disk. A start with the same
    /// rules has nothing new to say, and needs no room for it on a full disk.
    fn new_claims(&self, begun: &Begun) -> Option<KeptFile> {
        let (tag, start) = (begun.epoch.tag, begun.start);
        let stands = KeptFile::read(&self.dir());
        let before = stands.clone().filter(|kept| begun.goes_on && kept.tag == tag);
        let mut kept = KeptFile::next(before, tag, start, self.archive.rules());
        if self.archive.keeps_topics() {
            kept.keep_topics(start);
        }
        self.archive.set_since(kept.since(), kept.topics_since());
        (stands.as_ref() != Some(&kept)).then_some(kept)
    }

    /// Writes all that is kept to its end, and gives the log up. Whether that has succeeded.
    pub(crate) async fn let_go(&self) -> Result<(), String> {
        let archive = Arc::clone(&self.archive);
        let let_go = spawn_blocking(move || archive.let_go()).await;
        let_go.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// Takes the log back that was let go of, as soon as nobody else has it.
    pub(crate) async fn take_back(self) {
        let (mut is_told, mut tries) = (false, interval(TRY_AGAIN));
        loop {
            tries.tick().await;
            let archive = Arc::clone(&self.archive);
            match spawn_blocking(move || archive.take_back()).await {
                Ok(Ok(_)) | Err(_) => return,
                Ok(Err(error)) if !is_told => {
                    is_told = true;
                    tracing::warn!("events that are to be kept are refused: {error}");
                }
                Ok(Err(_)) => {}
            }
        }
    }

    /// Writes all that is kept to its end, and says in the data directory, which must be ours, that
    /// nothing behind the number `last` was sent. Waits for the disk.
    pub(crate) fn end(&self, last: u64) {
        match self.archive.let_go() {
            Ok(()) => epoch::end(&self.data, last),
            Err(error) => tracing::error!("the last events of the log are not on disk: {error}"),
        }
    }

    /// Begins what is done again and again, for as long as the runtime lives. The `router` is that
    /// of a node of a cluster.
    pub(crate) fn begin_chores(&self, router: Option<&Arc<Router>>) {
        tokio::spawn(self.clone().forget());
        if let Some(router) = router {
            tokio::spawn(self.clone().say_read(Arc::clone(router)));
        }
    }

    async fn forget(self) {
        let mut looks = interval(FORGET_EVERY);
        loop {
            looks.tick().await;
            let archive = Arc::clone(&self.archive);
            let forgotten = spawn_blocking(move || archive.drop_expired()).await;
            for damage in self.archive.take_damage_met() {
                tracing::error!(
                    "{} cannot be read everywhere: some events between {} and {} are missing from \
                     what is answered; who comes back from there or before is told of a gap",
                    damage.file.display(),
                    damage.after,
                    damage.before
                );
            }
            match forgotten {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!("a segment of the log is not removed: {error}"),
                Err(_) => return,
            }
        }
    }

    /// Makes the directory, if it is not there, for the user of the server alone: what is kept may
    /// be nobody else's.
    fn make_dir(&self) -> Result<()> {
        let dir = self.dir();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.with_context(|| {
            let cure = "look what has that name, and at owner, mode and room beside it";
            format!("cannot make {}; {cure}", dir.display())
        })
    }

    fn dir(&self) -> PathBuf {
        self.data.join(DIR)
    }
}

fn is_busy(error: &journal::OpenError) -> bool {
    match error {
        journal::OpenError::Io(error) => error.kind() == std::io::ErrorKind::ResourceBusy,
        journal::OpenError::Format { .. } => false,
    }
}
