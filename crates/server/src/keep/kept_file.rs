//! The file `kept` in the log's directory: of which epoch its events are, and since which number
//! each rule keeps what it fits.
//!
//! ```text
//! encke kept 1
//! epoch 241…
//! since 1845… room:*
//! topics 1845…
//! read 1846…
//! check 0123456789abcdef
//! ```
//!
//! Where updates of topics are kept, it says since which number they are, whatever their rules say.
//! A version that does not know that keeps none.
//!
//! A node of a cluster also says up to which number it has read the cluster's log, and has on disk
//! what it keeps of that.
//!
//! Where it is missing or damaged, nothing of before is claimed: a new epoch begins.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use archive::KeepRules;
use hub::Tag;
use sys::plain_file;

use crate::epoch::mark::checked;
use crate::epoch::{replace, write_beside};

pub(super) const NAME: &str = "kept";
const NEW_NAME: &str = "kept.new";
const FORMAT: &str = "encke kept 1";

/// What it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeptFile {
    pub(super) tag: Tag,
    /// The rules' patterns in their order, each with the number.
    rules: Vec<(u64, String)>,
    /// The number since which topics are kept.
    topics: Option<u64>,
    /// Up to which number the cluster's log was read.
    pub(super) read: Option<u64>,
}

impl KeptFile {
    /// The file of the log in `dir`; `None` where there is none, or a damaged one.
    pub(super) fn read(dir: &Path) -> Option<KeptFile> {
        let bytes = plain_file::read(&dir.join(NAME)).ok()?;
        KeptFile::parse(str::from_utf8(&bytes).ok()?)
    }

    /// Nothing of before is claimed any more.
    pub(super) fn remove(dir: &Path) -> io::Result<()> {
        match fs::remove_file(dir.join(NAME)) {
            Ok(()) => File::open(dir)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next one, when `rules` keep events behind the number `start`.
    pub(super) fn next(
        before: Option<KeptFile>,
        tag: Tag,
        start: u64,
        rules: &KeepRules,
    ) -> KeptFile {
        let topics = before.as_ref().and_then(|kept| kept.topics);
        let before = before.map_or_else(Vec::new, |kept| kept.rules);
        let since = |pattern: &str| {
            let same = before.iter().find(|(_, before)| before == pattern);
            same.map_or(start, |(since, _)| *since)
        };
        let rules = rules.iter().map(|rule| rule.pattern());
        let rules = rules.map(|pattern| (since(&pattern), pattern)).collect();
        KeptFile { tag, rules, topics, read: None }
    }

    /// Topics are kept, too: behind the number `start`, unless they were before.
    pub(super) fn keep_topics(&mut self, start: u64) {
        self.topics.get_or_insert(start);
    }

    /// They are not.
    pub(super) fn forget_topics(&mut self) {
        self.topics = None;
    }

    /// The number since which they are.
    pub(super) fn topics_since(&self) -> u64 {
        self.topics.unwrap_or(0)
    }

    /// The numbers in the order of the rules.
    pub(super) fn since(&self) -> Vec<u64> {
        self.rules.iter().map(|(since, _)| *since).collect()
    }

    /// Nothing up to the number is claimed.
    pub(super) fn lose(&mut self, up_to: u64) {
        self.rules.iter_mut().for_each(|(since, _)| *since = up_to.max(*since));
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        replace(dir, (NAME, NEW_NAME), &self.text())
    }

    /// Writes it beside the one that stands.
    pub(super) fn write_beside(&self, dir: &Path) -> io::Result<()> {
        write_beside(dir, NEW_NAME, &self.text())
    }

    /// Puts the one that was written beside in its place. If it does not get there, none stands:
    /// the one before may claim what is not kept any more.
    pub(super) fn put_in_place(dir: &Path) -> io::Result<()> {
        let put = fs::rename(dir.join(NEW_NAME), dir.join(NAME));
        put.inspect_err(|_| drop(fs::remove_file(dir.join(NAME))))?;
        File::open(dir)?.sync_all()
    }

    fn text(&self) -> String {
        let mut lines = format!("{FORMAT}\nepoch {}\n", self.tag.to_bits());
        for (since, pattern) in &self.rules {
            // A String takes all that is written to it.
            let _ = writeln!(lines, "since {since} {pattern}");
        }
        if let Some(topics) = self.topics {
            let _ = writeln!(lines, "topics {topics}");
        }
        if let Some(read) = self.read {
            let _ = writeln!(lines, "read {read}");
        }
        checked(lines)
    }

    fn parse(file: &str) -> Option<KeptFile> {
        let mut lines = file.lines().skip(1);
        let tag = Tag::of_bits(lines.next()?.strip_prefix("epoch ")?.parse().ok()?)?;
        let (mut rules, mut topics, mut read) = (Vec::new(), None, None);
        for line in lines {
            if let Some((since, pattern)) =
                line.strip_prefix("since ").and_then(|rule| rule.split_once(' '))
            {
                rules.push((since.parse().ok()?, pattern.to_owned()));
            } else if let Some(number) = line.strip_prefix("topics ") {
                topics = Some(number.parse().ok()?);
            } else if let Some(number) = line.strip_prefix("read ") {
                read = Some(number.parse().ok()?);
            }
        }
        let kept = KeptFile { tag, rules, topics, read };
        (file == kept.text()).then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use archive::KeepRule;

    use super::*;

    fn rules(patterns: &[&str]) -> KeepRules {
        let rule = |pattern: &&str| KeepRule::new(pattern, 1000).unwrap();
        KeepRules::new(patterns.iter().map(rule).collect()).unwrap()
    }

    #[test]
    fn rule_that_stays_keeps_its_number_and_a_new_one_begins() {
        let tag = Tag::of(9 << 50);
        let first = KeptFile::next(None, tag, 5, &rules(&["a*", "b"]));
        assert_eq!(first.since(), [5, 5]);
        let second = KeptFile::next(Some(first), tag, 9, &rules(&["c", "a*"]));
        assert_eq!(second.since(), [9, 5]);
        let third = KeptFile::next(Some(second), tag, 12, &rules(&["b", "a*"]));
        assert_eq!(third.since(), [12, 5], "it was not kept meanwhile");
    }

    #[test]
    fn topics_are_kept_since_a_version_knows_them() {
        let tag = Tag::of(9 << 50);
        let mut first = KeptFile::next(None, tag, 5, &rules(&["*"]));
        assert!(!first.text().contains("topics"));
        first.keep_topics(7);
        let mut second = KeptFile::next(Some(first), tag, 9, &rules(&["*"]));
        second.keep_topics(9);
        assert_eq!((second.since(), second.topics_since()), (vec![5], 7));
        assert_eq!(KeptFile::parse(&second.text()), Some(second));
    }

    #[test]
    fn file_is_read_as_it_was_written_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(KeptFile::read(dir.path()), None);
        let kept = KeptFile::next(None, Tag::of(3 << 50), 7, &rules(&["a*", "*"]));
        for read in [None, Some(9)] {
            let kept = KeptFile { read, ..kept.clone() };
            kept.write(dir.path()).unwrap();
            assert_eq!(KeptFile::read(dir.path()), Some(kept.clone()));
            let text = kept.text();
            for at in 0..text.len() {
                assert_eq!(KeptFile::parse(&text[..at]), None, "cut at {at}");
            }
            assert_eq!(KeptFile::parse(&text.replace("since 7", "since 8")), None);
        }
    }
}
