//! The file `kept` in the log's directory: of which epoch its events are, and since which number
//! each rule keeps what it fits.
//!
//! ```text
//! encke kept 1
//! epoch 241…
//! since 1845… room:*
//! check 0123456789abcdef
//! ```
//!
//! Where it is missing or damaged, nothing of before is claimed: a new epoch begins.

use std::fmt::Write;
use std::io;
use std::path::Path;

use archive::KeepRules;
use hub::Tag;
use sys::plain_file;

use crate::epoch::mark::checked;
use crate::epoch::replace;

const NAME: &str = "kept";
const NEW_NAME: &str = "kept.new";
const FORMAT: &str = "encke kept 1";

/// What it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeptFile {
    pub(super) tag: Tag,
    /// The rules' patterns in their order, each with the number.
    rules: Vec<(u64, String)>,
}

impl KeptFile {
    /// The file of the log in `dir`; `None` where there is none, or a damaged one.
    pub(super) fn read(dir: &Path) -> Option<KeptFile> {
        let bytes = plain_file::read(&dir.join(NAME)).ok()?;
        KeptFile::parse(str::from_utf8(&bytes).ok()?)
    }

    /// The next one, when `rules` keep events behind the number `start`.
    pub(super) fn next(
        before: Option<KeptFile>,
        tag: Tag,
        start: u64,
        rules: &KeepRules,
    ) -> KeptFile {
        let before = before.map_or_else(Vec::new, |kept| kept.rules);
        let since = |pattern: &str| {
            let same = before.iter().find(|(_, before)| before == pattern);
            same.map_or(start, |(since, _)| *since)
        };
        let rules = rules.iter().map(|rule| rule.pattern());
        KeptFile { tag, rules: rules.map(|pattern| (since(&pattern), pattern)).collect() }
    }

    /// The numbers in the order of the rules.
    pub(super) fn since(&self) -> Vec<u64> {
        self.rules.iter().map(|(since, _)| *since).collect()
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        replace(dir, (NAME, NEW_NAME), &self.text())
    }

    fn text(&self) -> String {
        let mut lines = format!("{FORMAT}\nepoch {}\n", self.tag.to_bits());
        for (since, pattern) in &self.rules {
            // A String takes all that is written to it.
            let _ = writeln!(lines, "since {since} {pattern}");
        }
        checked(lines)
    }

    fn parse(file: &str) -> Option<KeptFile> {
        let mut lines = file.lines().skip(1);
        let tag = Tag::of_bits(lines.next()?.strip_prefix("epoch ")?.parse().ok()?)?;
        let rules = lines.map_while(|line| line.strip_prefix("since ")).map(|line| {
            let (since, pattern) = line.split_once(' ')?;
            Some((since.parse().ok()?, pattern.to_owned()))
        });
        let kept = KeptFile { tag, rules: rules.collect::<Option<_>>()? };
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
    fn file_is_read_as_it_was_written_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(KeptFile::read(dir.path()), None);
        let kept = KeptFile::next(None, Tag::of(3 << 50), 7, &rules(&["a*", "*"]));
        kept.write(dir.path()).unwrap();
        assert_eq!(KeptFile::read(dir.path()), Some(kept.clone()));
        let text = kept.text();
        for at in 0..text.len() {
            assert_eq!(KeptFile::parse(&text[..at]), None, "cut at {at}");
        }
        assert_eq!(KeptFile::parse(&text.replace("since 7", "since 8")), None);
    }
}
