//! What the file `epoch` says, as text.
//!
//! ```text
//! encke epoch 1
//! numbers-below 1845…
//! check 0123456789abcdef
//! ```
//!
//! Where events are kept on disk it is `encke epoch 2`, with the epoch that goes on at the next
//! start. It has the epoch's tag, its base and the number at which the process began, and at which
//! it ended, if it ended in order. It also says between which numbers events may be lost.

use std::fmt::Write;
use std::hash::Hasher;

use hub::Tag;
use siphasher::sip::SipHasher13;

use super::LogState;

/// The first line, without and with an epoch that goes on.
const FORMAT: &str = "encke epoch 1";
const FORMAT_OF_RUN: &str = "encke epoch 2";

/// As many ends out of order one epoch may have.
const LOST_MAX: usize = 100;

/// What is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mark {
    /// All numbers below it are reserved.
    pub(crate) until: u64,
    /// The epoch that goes on, where events are kept.
    pub(crate) run: Option<Run>,
}

/// An epoch that goes on at the next start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) tag: Tag,
    /// The number before its first one.
    pub(crate) base: u64,
    /// The number before the first one of the process.
    pub(crate) began: u64,
    /// The last number of the process, if it ended in order.
    pub(crate) ended: Option<u64>,
    /// In which boot of the machine the process began, where the system says so.
    pub(crate) boot: Option<String>,
    /// Between which numbers events may be lost, both exclusive.
    pub(crate) lost: Vec<(u64, u64)>,
}

impl Run {
    /// One that begins now.
    pub(super) fn new(tag: Tag, start: u64) -> Run {
        Run { tag, base: start, began: start, ended: None, boot: None, lost: Vec::new() }
    }

    /// This run after a restart in the `boot` of the machine, when the numbers begin above `start`;
    /// `None` when it is over.
    pub(super) fn gone_on(mut self, start: u64, log: LogState, boot: Option<&str>) -> Option<Run> {
        // Of a process that was killed the kernel has written all that it was given; what a machine
        // that went down had not synced is lost.
        let is_same_boot = boot.is_some() && self.boot.as_deref() == boot;
        if log.is_cut || self.ended.is_none() && !is_same_boot {
            let known = self.began.max(log.last.unwrap_or(0));
            if start.saturating_sub(known) > 1 {
                self.lost.push((known, start));
            }
        }
        // Who was before the log's first event is told of a gap for that.
        let first = log.first.unwrap_or(0);
        self.lost.retain(|&(_, before)| before > first);
        let is_over = self.lost.len() > LOST_MAX;
        (!is_over).then_some(Run { began: start, ended: None, ..self })
    }
}

impl Mark {
    /// The file.
    pub(super) fn text(&self) -> String {
        let format = if self.run.is_some() { FORMAT_OF_RUN } else { FORMAT };
        let mut lines = format!("{format}\nnumbers-below {}\n", self.until);
        if let Some(Run { tag, base, began, ended, boot, lost }) = &self.run {
            // A String takes all that is written to it.
            let _ = writeln!(lines, "epoch {} {base} {began}", tag.to_bits());
            if let Some(last) = ended {
                let _ = writeln!(lines, "ended {last}");
            }
            if let Some(boot) = boot {
                let _ = writeln!(lines, "boot {boot}");
            }
            for (after, before) in lost {
                let _ = writeln!(lines, "lost {after} {before}");
            }
        }
        checked(lines)
    }

    /// What the file says; `None` of one that is damaged, or of another format.
    pub(super) fn parse(file: &str) -> Option<Mark> {
        let mut lines = file.lines();
        let format = lines.next()?;
        let until = lines.next()?.strip_prefix("numbers-below ")?.parse().ok()?;
        let run = match format {
            FORMAT_OF_RUN => Some(run(lines)?),
            _ => None,
        };
        let mark = Mark { until, run };
        (file == mark.text()).then_some(mark)
    }
}

fn run<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Run> {
    let mut words = lines.next()?.strip_prefix("epoch ")?.split(' ').map(str::parse);
    let mut number = || words.next()?.ok();
    let (tag, base, began) = (Tag::of_bits(number()?)?, number()?, number()?);
    let (mut ended, mut boot, mut lost) = (None, None, Vec::new());
    for line in lines {
        if let Some(last) = line.strip_prefix("ended ") {
            ended = last.parse().ok();
        } else if let Some(id) = line.strip_prefix("boot ") {
            boot = Some(id.to_owned());
        } else if let Some((after, before)) =
            line.strip_prefix("lost ").and_then(|both| both.split_once(' '))
        {
            lost.push((after.parse().ok()?, before.parse().ok()?));
        }
    }
    Some(Run { tag, base, began, ended, boot, lost })
}

/// The lines with what tells a damaged file, not a forged one, behind them.
pub(crate) fn checked(lines: String) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(lines.as_bytes());
    let check = hasher.finish();
    format!("{lines}check {check:016x}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(first: u64, last: u64) -> LogState {
        LogState { tag: None, first: Some(first), last: Some(last), is_cut: false }
    }

    #[test]
    fn file_says_what_was_written() {
        let run = Run::new(Tag::of(5 << 50), 7);
        let boot = Some("7cc83d08-7a87-4d2c".to_owned());
        let ended = Run { ended: Some(9), boot, lost: vec![(1, 5), (6, 8)], ..run.clone() };
        for run in [None, Some(run), Some(ended)] {
            let mark = Mark { until: 1 << 60, run };
            let text = mark.text();
            assert_eq!(Mark::parse(&text), Some(mark));
            for at in 0..text.len() {
                assert_eq!(Mark::parse(&text[..at]), None, "cut at {at}");
            }
        }
    }

    #[test]
    fn places_are_lost_with_a_machine_that_went_down_and_with_what_is_cut() {
        let run = Run { boot: Some("a".to_owned()), ..Run::new(Tag::of(0), 100) };
        let killed = run.clone().gone_on(1000, log(120, 150), Some("a")).unwrap();
        assert!(killed.lost.is_empty(), "the kernel has written it");
        let is_cut = LogState { is_cut: true, ..log(120, 150) };
        assert_eq!(&*run.clone().gone_on(1000, is_cut, Some("a")).unwrap().lost, [(150, 1000)]);
        for boot in [None, Some("b")] {
            let lost = run.clone().gone_on(1000, log(120, 150), boot).unwrap().lost;
            assert_eq!(&*lost, [(150, 1000)], "nobody knows what the disk has of it: {boot:?}");
        }
    }

    #[test]
    fn places_are_lost_with_a_process_that_did_not_end_in_order() {
        let run = Run::new(Tag::of(0), 100);
        let killed = run.clone().gone_on(1000, log(120, 150), None).unwrap();
        assert_eq!((killed.began, &*killed.lost), (1000, &[(150, 1000)][..]));
        let silent = run.clone().gone_on(1000, LogState::default(), None).unwrap();
        assert_eq!(&*silent.lost, [(100, 1000)], "it began at 100");
        let ended = Run { ended: Some(170), ..run.clone() };
        assert!(ended.clone().gone_on(1000, log(120, 150), None).unwrap().lost.is_empty());
        let cut = LogState { is_cut: true, ..log(120, 150) };
        assert_eq!(&*ended.gone_on(1000, cut, None).unwrap().lost, [(150, 1000)]);
        let later = killed.gone_on(2000, log(1000, 1500), None).unwrap();
        assert_eq!(&*later.lost, [(1500, 2000)], "what the log has dropped is a gap for that");
    }

    #[test]
    fn epoch_is_over_after_many_ends_out_of_order() {
        let mut run = Some(Run::new(Tag::of(0), 10));
        let mut goes_on = 0;
        while let Some(before) = run {
            run = before.gone_on(10 * (goes_on + 2), log(1, 10 * (goes_on + 1)), None);
            goes_on += 1;
        }
        assert_eq!(goes_on as usize, LOST_MAX + 1);
    }
}
