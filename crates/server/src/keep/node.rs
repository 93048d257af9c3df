//! The log of a node of a cluster: each node keeps its own out of the cluster's log, which has the
//! numbers.
//!
//! The file `kept` says of which epoch its events are, since which number each rule has kept all,
//! and up to which number the cluster's log was read. A node that starts reads on from there. A
//! part is missing where the cluster's log does not reach back so far, the disk was full meanwhile,
//! or the cluster has another epoch. Then the rules begin anew behind it, and places before it are
//! gaps. That is on disk before anything behind it is.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use dispatch::cluster::KeptLog;
use engine::Router;
use hub::{Epoch, Tag};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, interval};

use super::Keeping;
use super::kept_file::KeptFile;

/// How often it is written down how far the cluster's log was read: it has ten minutes of it.
const SAY_READ_EVERY: Duration = Duration::from_secs(20);

/// Where a log is put that is none of this cluster's: beside ours.
const ASIDE: &str = "log.of-before";

/// So many of them there may be.
const ASIDE_MAX: u32 = 100;

/// Between two tries to write down what is missing, while more goes missing: each waits for the
/// disk, and all that the node posts waits for it.
const SAY_LOST_EVERY: Duration = Duration::from_secs(1);

impl Keeping {
    /// Puts the log aside where it is none of this cluster, which is in `epoch`: all numbers of
    /// its earlier epochs are below the base of that.
    pub(crate) fn put_aside_if_foreign(&self, epoch: Epoch) -> Result<()> {
        let is_ours = KeptFile::read(&self.dir()).is_some_and(|kept| kept.tag == epoch.tag);
        if is_ours || self.archive.last_found() <= epoch.base {
            return Ok(());
        }
        let (dir, aside) = (self.dir(), self.aside()?);
        self.archive.let_go().context("the log of before was not written to its end")?;
        tracing::warn!(
            "the events in {} are of before this server was a node of this cluster: they are put \
             aside, into {}",
            dir.display(),
            aside.display()
        );
        fs::rename(&dir, &aside).with_context(|| format!("cannot rename {}", dir.display()))?;
        self.make_dir()?;
        self.archive.take_back().context("no log was opened")?;
        Ok(())
    }

    /// A path for it where nothing is: what was put aside before stays.
    fn aside(&self) -> Result<PathBuf> {
        let mut paths = (1..=ASIDE_MAX).map(|nth| match nth {
            1 => self.data.join(ASIDE),
            _ => self.data.join(format!("{ASIDE}.{nth}")),
        });
        let free = paths.find(|path| fs::symlink_metadata(path).is_err());
        free.with_context(|| format!("remove the directories {ASIDE} in {}", self.data.display()))
    }

    /// Writes down again and again how far the cluster's log was read, for as long as the runtime
    /// lives.
    pub(super) async fn say_read(self, router: Arc<Router>) {
        let mut looks = interval(SAY_READ_EVERY);
        let mut said = 0;
        loop {
            looks.tick().await;
            let posted = router.event_ids().posted();
            if posted == said || !self.archive.is_on_disk(posted) {
                continue;
            }
            let keeping = self.clone();
            let written = spawn_blocking(move || keeping.set_read(posted));
            if let Ok(true) = written.await {
                said = posted;
            }
        }
    }

    /// All that was posted is written to its end: says so. Waits for the disk.
    pub(crate) fn end_of_node(&self, posted: u64) {
        match self.archive.let_go() {
            Ok(()) => drop(self.set_read(posted)),
            Err(error) => tracing::error!("the last events of the log are not on disk: {error}"),
        }
    }

    /// Whether it is on disk now that the cluster's log was read up to the number.
    fn set_read(&self, number: u64) -> bool {
        let mut claims = self.claims();
        let Some(kept) = &mut *claims else { return false };
        let read = Some(number);
        kept.read = kept.read.max(read);
        kept.write(&self.dir()).is_ok()
    }

    fn claims(&self) -> MutexGuard<'_, Option<KeptFile>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept behind the number `start`, and of `before` what was kept then, too. A node that
    /// is no hub keeps no updates of topics, and others publish some.
    fn next(&self, before: Option<KeptFile>, tag: Tag, start: u64) -> KeptFile {
        let mut kept = KeptFile::next(before, tag, start, self.archive.rules());
        match self.archive.keeps_topics() {
            true => kept.keep_topics(start),
            false => kept.forget_topics(),
        }
        kept
    }

    /// Claims what `kept` says. Until that is on disk nothing more is kept.
    fn claim(&self, kept: KeptFile) {
        let mut claims = self.claims();
        self.archive.pause(true);
        self.archive.set_since(kept.since(), kept.topics_since());
        let written = kept.write(&self.dir());
        self.archive.pause(written.is_err());
        if let Err(error) = written {
            tracing::warn!(
                "{}: {error}; events that are to be kept are not, until there is room",
                self.dir().display()
            );
        }
        *claims = Some(kept);
    }
}

impl KeptLog for Keeping {
    fn read_up_to(&self, tag: Tag) -> Option<u64> {
        let kept = KeptFile::read(&self.dir()).filter(|kept| kept.tag == tag)?;
        Some(kept.read.unwrap_or(0).max(self.archive.last_found()))
    }

    fn last(&self) -> u64 {
        self.archive.last_found()
    }

    fn go_on_behind(&self, tag: Tag, before: u64) {
        let known = self.read_up_to(tag).filter(|&number| number >= before);
        let of_before = KeptFile::read(&self.dir()).filter(|_| known.is_some());
        let read = of_before.as_ref().and_then(|kept| kept.read);
        if known.is_none() {
            tracing::info!(
                "events are kept from {before} on: who comes back from before is told of a gap"
            );
        }
        let start = known.unwrap_or(before);
        let mut kept = self.next(of_before, tag, start);
        kept.read = read;
        self.claim(kept);
    }

    fn lost(&self, tag: Tag, up_to: u64) {
        // What comes after the end of this process the next one reads.
        if self.archive.stats().is_none() {
            return;
        }
        let before = self.claims().clone().filter(|kept| kept.tag == tag);
        let is_new = before.is_none();
        let mut kept = before.unwrap_or_else(|| self.next(None, tag, up_to));
        kept.lose(up_to);
        self.archive.lose(up_to);
        let now = Instant::now();
        let mut said = self.lost_said.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_new && said.is_some_and(|said| now < said + SAY_LOST_EVERY) {
            // Nothing is kept until it is written down.
            self.archive.pause(true);
            self.archive.set_since(kept.since(), kept.topics_since());
            *self.claims() = Some(kept);
            return;
        }
        *said = Some(now);
        self.claim(kept);
    }
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").field("data", &self.data).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use archive::{KeepRule, KeepRules};

    use super::*;
    use crate::KeepConfig;

    async fn opened(data: &std::path::Path, patterns: &[&str]) -> Keeping {
        opened_as(data, patterns, false).await
    }

    async fn opened_as(data: &std::path::Path, patterns: &[&str], is_hub: bool) -> Keeping {
        let rule = |pattern: &&str| KeepRule::new(pattern, 1 << 40).unwrap();
        let rules = KeepRules::new(patterns.iter().map(rule).collect()).unwrap();
        let config = KeepConfig { rules, bytes_max: 64 << 20, always_durable: false };
        let keeping = Keeping::new(data, &config, is_hub);
        keeping.open().await.unwrap();
        keeping
    }

    fn topics_since(keeping: &Keeping) -> u64 {
        KeptFile::read(&keeping.dir()).unwrap().topics_since()
    }

    fn since(keeping: &Keeping) -> Vec<u64> {
        KeptFile::read(&keeping.dir()).unwrap().since()
    }

    #[tokio::test]
    async fn node_claims_what_it_has_read_and_nothing_before_a_hole() {
        let data = tempfile::tempdir().unwrap();
        let (tag, other) = (Tag::of(5 << 50), Tag::of(6 << 50));
        let keeping = opened(data.path(), &["a*"]).await;
        assert_eq!(keeping.read_up_to(tag), None);
        keeping.go_on_behind(tag, 100);
        assert_eq!((since(&keeping), keeping.read_up_to(tag)), (vec![100], Some(0)));
        assert!(keeping.set_read(150));
        assert_eq!((keeping.read_up_to(tag), keeping.read_up_to(other)), (Some(150), None));
        keeping.let_go().await.unwrap();
        // It reads on from where it was, with a further rule.
        let keeping = opened(data.path(), &["b", "a*"]).await;
        keeping.go_on_behind(tag, 140);
        assert_eq!((since(&keeping), keeping.read_up_to(tag)), (vec![150, 100], Some(150)));
        keeping.let_go().await.unwrap();
        // The cluster's log does not reach back so far.
        let keeping = opened(data.path(), &["a*"]).await;
        keeping.go_on_behind(tag, 151);
        assert_eq!(since(&keeping), [151]);
        keeping.lost(tag, 170);
        assert_eq!(since(&keeping), [170]);
        keeping.lost(tag, 160);
        assert_eq!(since(&keeping), [170], "it does not come back");
        keeping.lost(other, 1000);
        assert_eq!((since(&keeping), keeping.read_up_to(tag)), (vec![1000], None));
    }

    #[tokio::test]
    async fn node_claims_no_updates_of_a_time_when_it_was_no_hub() {
        let data = tempfile::tempdir().unwrap();
        let tag = Tag::of(5 << 50);
        for (is_hub, read, topics) in
            [(false, 100, 0), (true, 150, 100), (true, 190, 100), (false, 200, 0), (true, 210, 200)]
        {
            let keeping = opened_as(data.path(), &["*"], is_hub).await;
            keeping.go_on_behind(tag, 50);
            assert_eq!((since(&keeping), topics_since(&keeping)), (vec![50], topics), "{read}");
            assert!(keeping.set_read(read));
            keeping.let_go().await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_missing_one_after_the_other_is_written_down_once_a_second() {
        let data = tempfile::tempdir().unwrap();
        let tag = Tag::of(5 << 50);
        let keeping = opened(data.path(), &["a*"]).await;
        keeping.go_on_behind(tag, 100);
        for (up_to, written) in [(110, 110), (120, 110), (130, 110)] {
            keeping.lost(tag, up_to);
            assert_eq!(since(&keeping), [written], "{up_to}");
            let draft = hub::Draft::new("a1", "1").unwrap();
            let is_paused = up_to != written;
            let room = hub::EventStore::<()>::reserve(&*keeping.archive, &draft);
            assert_eq!(room.is_err(), is_paused, "nothing is kept behind a hole that is not told");
        }
        tokio::time::advance(SAY_LOST_EVERY).await;
        keeping.lost(tag, 140);
        assert_eq!(since(&keeping), [140]);
    }

    #[tokio::test]
    async fn log_that_was_put_aside_stays_when_another_is() {
        let data = tempfile::tempdir().unwrap();
        let keeping = opened(data.path(), &["a*"]).await;
        fs::create_dir(data.path().join(ASIDE)).unwrap();
        assert_eq!(keeping.aside().unwrap(), data.path().join("log.of-before.2"));
    }

    #[tokio::test]
    async fn what_comes_behind_the_end_of_a_process_is_left_to_the_next_one() {
        let data = tempfile::tempdir().unwrap();
        let tag = Tag::of(5 << 50);
        let keeping = opened(data.path(), &["a*"]).await;
        keeping.go_on_behind(tag, 100);
        keeping.end_of_node(120);
        keeping.lost(tag, 130);
        assert_eq!((since(&keeping), keeping.read_up_to(tag)), (vec![100], Some(120)));
    }
}
