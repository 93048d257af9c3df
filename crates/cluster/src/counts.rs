//! How many connections have heard an event, over all nodes.
//!
//! Each member tells the origin of a record to how many connections it has posted each event. It
//! does so as soon as it has nothing more to post, and after a millisecond in any case. The origin
//! adds up over the members of the view at the record's sequence. What does not come is asked for,
//! and after a second the answer is "at least". An answer is never an error for want of a count.

use std::collections::{BTreeMap, VecDeque};

use crate::action::{Epoch, Outcome, Ticket};
use crate::limits::{
    COUNT_DEADLINE_MS, COUNT_WAIT_MS, COUNTS_BYTES, COUNTS_KEPT_MAX, COUNTS_KEPT_MS,
    EARLY_COUNTS_MAX, NEED_AFTER_MS, NEED_RECORDS_MAX, RECORD_EVENTS_MAX,
};
use crate::message::Counted;
use crate::publisher::TicketOutcome;

/// A record of ours whose counts are not all there.
#[derive(Debug)]
struct Sum {
    since_ms: u64,
    /// When to ask for what is missing.
    need_ms: u64,
    /// Who has not said its counts.
    missing: Vec<u64>,
    counts: Vec<u64>,
    tickets: Vec<Option<Ticket>>,
    at_least: bool,
}

/// The origin's half: what is being added up.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    by_sequence: BTreeMap<u64, Sum>,
    /// Nothing is to be done before: no search among thousands after each record.
    check_ms: u64,
    /// Counts that others have said before this node has read its record, by sequence.
    early: BTreeMap<u64, Vec<(u64, Counted)>>,
    early_counts: usize,
    /// The last record that was begun.
    begun: u64,
}

impl Sums {
    /// The record at `sequence` is ours, and `members` will say their counts, or have done so: they
    /// may read the log sooner.
    pub(crate) fn begin(
        &mut self,
        now_ms: u64,
        (epoch, sequence): (Epoch, u64),
        members: Vec<u64>,
        tickets: Vec<Option<Ticket>>,
        told: &mut Vec<TicketOutcome>,
    ) {
        debug_assert!(self.begun < sequence, "records are begun in the order of the log, once");
        debug_assert!(tickets.len() <= RECORD_EVENTS_MAX);
        debug_assert!(!members.is_empty(), "whose record it is is a member itself");
        self.begun = sequence;
        let later = self.early.split_off(&(sequence + 1));
        let mut early = std::mem::replace(&mut self.early, later);
        for (_, counted) in early.values().flatten() {
            self.early_counts -= counted.counts.len();
        }
        debug_assert_eq!(self.early.is_empty(), self.early_counts == 0);
        if tickets.iter().all(Option::is_none) {
            return;
        }
        let counts = vec![0; tickets.len()];
        let need_ms = now_ms + NEED_AFTER_MS;
        let sum =
            Sum { since_ms: now_ms, need_ms, missing: members, counts, tickets, at_least: false };
        if self.by_sequence.is_empty() || need_ms < self.check_ms {
            self.check_ms = need_ms;
        }
        self.by_sequence.insert(sequence, sum);
        for (from, counted) in early.remove(&sequence).unwrap_or_default() {
            self.add(epoch, from, &counted, told);
        }
    }

    /// Counts of the member `from`. Said twice they count once.
    pub(crate) fn add(
        &mut self,
        epoch: Epoch,
        from: u64,
        counted: &Counted,
        told: &mut Vec<TicketOutcome>,
    ) {
        let Some(sum) = self.by_sequence.get_mut(&counted.sequence) else {
            return self.put_by(from, counted);
        };
        let place = sum.missing.iter().position(|&member| member == from);
        let Some(place) = place.filter(|_| counted.counts.len() == sum.counts.len()) else {
            return;
        };
        sum.missing.swap_remove(place);
        for (count, &more) in sum.counts.iter_mut().zip(&counted.counts) {
            *count += u64::from(more);
        }
        if sum.missing.is_empty() {
            self.answer(epoch, counted.sequence, told);
        }
    }

    /// Keeps counts of a record that is not read yet. What there is no room for is asked for later.
    fn put_by(&mut self, from: u64, counted: &Counted) {
        let counts = counted.counts.len();
        let has_room = self.early_counts + counts <= EARLY_COUNTS_MAX;
        if counted.sequence > self.begun && counts > 0 && has_room {
            self.early_counts += counts;
            debug_assert!(self.early_counts <= EARLY_COUNTS_MAX);
            self.early.entry(counted.sequence).or_default().push((from, counted.clone()));
        }
    }

    /// The member is gone: whom it has posted to nobody will know. One that ends in order has said
    /// so, and is waited for like any other.
    pub(crate) fn leave(&mut self, epoch: Epoch, member: u64, told: &mut Vec<TicketOutcome>) {
        let mut ready = Vec::new();
        for (&sequence, sum) in &mut self.by_sequence {
            let before = sum.missing.len();
            sum.missing.retain(|&missing| missing != member);
            sum.at_least |= sum.missing.len() < before;
            if sum.missing.is_empty() {
                ready.push(sequence);
            }
        }
        ready.into_iter().for_each(|sequence| self.answer(epoch, sequence, told));
    }

    /// All are answered with what is there.
    pub(crate) fn end(&mut self, epoch: Epoch, told: &mut Vec<TicketOutcome>) {
        let all: Vec<u64> = self.by_sequence.keys().copied().collect();
        all.into_iter().for_each(|sequence| self.answer(epoch, sequence, told));
        // Another epoch has other sequences.
        *self = Sums::default();
    }

    fn answer(&mut self, epoch: Epoch, sequence: u64, told: &mut Vec<TicketOutcome>) {
        let Some(sum) = self.by_sequence.remove(&sequence) else { return };
        debug_assert!(sequence <= self.begun);
        debug_assert_eq!(sum.tickets.len(), sum.counts.len(), "a sender would have no answer");
        let at_least = sum.at_least || !sum.missing.is_empty();
        for (index, (ticket, delivered)) in (0..).zip(sum.tickets.into_iter().zip(sum.counts)) {
            let number = epoch.number_of(sequence, index);
            let outcome = Outcome::Sent { number, delivered, at_least };
            told.extend(ticket.map(|ticket| (ticket, outcome)));
        }
    }

    /// Answers what has waited for long enough, and says whom to ask for which records.
    pub(crate) fn tick(
        &mut self,
        epoch: Epoch,
        now_ms: u64,
        told: &mut Vec<TicketOutcome>,
    ) -> BTreeMap<u64, Vec<u64>> {
        if now_ms < self.check_ms {
            return BTreeMap::new();
        }
        let over = |sum: &Sum| sum.since_ms + COUNT_DEADLINE_MS <= now_ms;
        let late =
            self.by_sequence.iter().filter(|(_, sum)| over(sum)).map(|(&sequence, _)| sequence);
        let late: Vec<u64> = late.collect();
        late.into_iter().for_each(|sequence| self.answer(epoch, sequence, told));
        let mut needs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (&sequence, sum) in self.by_sequence.iter_mut().filter(|(_, sum)| sum.need_ms <= now_ms)
        {
            sum.need_ms = now_ms + NEED_AFTER_MS;
            for &member in &sum.missing {
                let need = needs.entry(member).or_default();
                if need.len() < NEED_RECORDS_MAX {
                    need.push(sequence);
                }
            }
        }
        let times = |sum: &Sum| sum.need_ms.min(sum.since_ms + COUNT_DEADLINE_MS);
        self.check_ms = self.by_sequence.values().map(times).min().unwrap_or(0);
        debug_assert!(self.by_sequence.is_empty() || self.check_ms > now_ms, "it is due for ever");
        needs
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        (!self.by_sequence.is_empty()).then_some(self.check_ms)
    }

    /// Whether the counts of this record are being added up.
    pub(crate) fn has(&self, sequence: u64) -> bool {
        self.by_sequence.contains_key(&sequence)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_sequence.len()
    }

    /// How many counts are kept for records that were not read.
    #[cfg(test)]
    pub(crate) fn early(&self) -> usize {
        self.early_counts
    }
}

/// Counts of a record that are kept for who needs them again.
#[derive(Debug)]
struct Kept {
    at_ms: u64,
    origin: u64,
    me: u64,
    counted: Counted,
}

/// The members' half: counts that are to be said, and those that were.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By origin, and by what this node was: what is not said yet.
    unsaid: BTreeMap<(u64, u64), Vec<Counted>>,
    unsaid_bytes: usize,
    since_ms: Option<u64>,
    kept: VecDeque<Kept>,
    kept_counts: usize,
}

/// Counts for an origin: the origin, who says them, and the counts.
pub(crate) type Saying = (u64, u64, Vec<Counted>);

impl Counts {
    /// A record of `origin` was posted, while this node was the member `me`.
    pub(crate) fn push(&mut self, now_ms: u64, origin: u64, me: u64, counted: Counted) {
        debug_assert!((1..=RECORD_EVENTS_MAX).contains(&counted.counts.len()));
        let last = self.kept.back().map(|kept| kept.counted.sequence);
        debug_assert!(last < Some(counted.sequence), "what is kept is searched for by sequence");
        self.kept_counts += counted.counts.len();
        self.kept.push_back(Kept { at_ms: now_ms, origin, me, counted: counted.clone() });
        while let Some(oldest) = self.kept.front() {
            let old = oldest.at_ms + COUNTS_KEPT_MS < now_ms;
            if !old && self.kept_counts <= COUNTS_KEPT_MAX {
                break;
            }
            self.kept_counts -= oldest.counted.counts.len();
            self.kept.pop_front();
        }
        debug_assert!(!self.kept.is_empty() && self.kept_counts <= COUNTS_KEPT_MAX);
        self.since_ms.get_or_insert(now_ms);
        // A sequence takes four bytes for years, a count one or two.
        self.unsaid_bytes += 8 + 2 * counted.counts.len();
        self.unsaid.entry((origin, me)).or_default().push(counted);
    }

    /// What is to be said now: all, if nothing is left to post (`idle`), if it has waited for long
    /// enough, or if it is much.
    pub(crate) fn say(&mut self, now_ms: u64, idle: bool) -> Vec<Saying> {
        debug_assert_eq!(self.since_ms.is_some(), !self.unsaid.is_empty());
        debug_assert_eq!(self.unsaid_bytes == 0, self.unsaid.is_empty());
        let over = self.since_ms.is_some_and(|since_ms| since_ms + COUNT_WAIT_MS <= now_ms);
        if !idle && !over && self.unsaid_bytes < COUNTS_BYTES {
            return Vec::new();
        }
        (self.since_ms, self.unsaid_bytes) = (None, 0);
        let unsaid = std::mem::take(&mut self.unsaid).into_iter();
        unsaid.map(|((origin, me), counted)| (origin, me, counted)).collect()
    }

    /// What `origin` needs once more.
    pub(crate) fn need(&self, origin: u64, sequences: &[u64]) -> Vec<Saying> {
        let mut said: BTreeMap<u64, Vec<Counted>> = BTreeMap::new();
        for &sequence in sequences.iter().take(NEED_RECORDS_MAX) {
            // They are kept in the order of the log.
            let place = self.kept.binary_search_by_key(&sequence, |kept| kept.counted.sequence);
            let kept = place.ok().map(|place| &self.kept[place]);
            if let Some(kept) = kept.filter(|kept| kept.origin == origin) {
                said.entry(kept.me).or_default().push(kept.counted.clone());
            }
        }
        said.into_iter().map(|(me, counted)| (origin, me, counted)).collect()
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.since_ms.map(|since_ms| since_ms + COUNT_WAIT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { number: 1, base: 0 };

    fn counted(sequence: u64, counts: &[u32]) -> Counted {
        Counted { sequence, counts: counts.to_vec() }
    }

    fn delivered(told: &[TicketOutcome]) -> Vec<(u64, bool)> {
        let what = |&(_, outcome): &TicketOutcome| match outcome {
            Outcome::Sent { delivered, at_least, .. } => (delivered, at_least),
            other => panic!("{other:?}"),
        };
        told.iter().map(what).collect()
    }

    #[test]
    fn answer_is_the_sum_over_all_members_and_doubles_count_once() {
        let (mut sums, mut told) = (Sums::default(), Vec::new());
        let tickets = vec![Some(Ticket(1)), None, Some(Ticket(3))];
        sums.begin(0, (EPOCH, 9), vec![1, 2], tickets, &mut told);
        for from in [1, 1, 3] {
            sums.add(EPOCH, from, &counted(9, &[5, 6, 7]), &mut told);
        }
        sums.add(EPOCH, 2, &counted(9, &[1]), &mut told);
        assert_eq!(told, []);
        sums.add(EPOCH, 2, &counted(9, &[10, 10, 10]), &mut told);
        assert_eq!(delivered(&told), [(15, false), (17, false)]);
        assert_eq!(told[1].0, Ticket(3));
        assert_eq!(sums.len(), 0);
    }

    #[test]
    fn counts_that_come_before_their_record_is_read_are_kept() {
        let (mut sums, mut told) = (Sums::default(), Vec::new());
        for sequence in [8, 9, 10] {
            sums.add(EPOCH, 2, &counted(sequence, &[5]), &mut told);
        }
        sums.begin(0, (EPOCH, 9), vec![1, 2], vec![Some(Ticket(1))], &mut told);
        assert_eq!((told.len(), sums.early.len(), sums.early_counts), (0, 1, 1));
        sums.add(EPOCH, 1, &counted(9, &[1]), &mut told);
        assert_eq!(delivered(&told), [(6, false)]);
        // Late doubles are nobody's, and others make no room for themselves.
        sums.add(EPOCH, 2, &counted(9, &[5]), &mut told);
        for sequence in 11..2 * EARLY_COUNTS_MAX as u64 {
            sums.add(EPOCH, 2, &counted(sequence, &[5]), &mut told);
        }
        assert_eq!((told.len(), sums.early_counts), (1, EARLY_COUNTS_MAX));
        sums.begin(0, (EPOCH, u64::MAX - 1), vec![1], vec![None], &mut told);
        assert_eq!((sums.early.len(), sums.early_counts), (0, 0));
    }

    #[test]
    fn missing_counts_are_asked_for_and_then_the_answer_is_at_least() {
        let (mut sums, mut told) = (Sums::default(), Vec::new());
        sums.begin(0, (EPOCH, 9), vec![1, 2], vec![Some(Ticket(1))], &mut told);
        sums.add(EPOCH, 1, &counted(9, &[5]), &mut told);
        assert_eq!(sums.deadline(), Some(NEED_AFTER_MS));
        assert_eq!(sums.tick(EPOCH, NEED_AFTER_MS, &mut told), BTreeMap::from([(2, vec![9])]));
        assert!(sums.tick(EPOCH, NEED_AFTER_MS + 1, &mut told).is_empty() && told.is_empty());
        sums.tick(EPOCH, COUNT_DEADLINE_MS, &mut told);
        assert_eq!(delivered(&told), [(5, true)]);
    }

    #[test]
    fn member_that_is_gone_is_not_waited_for() {
        let (mut sums, mut told) = (Sums::default(), Vec::new());
        sums.begin(0, (EPOCH, 9), vec![1, 2], vec![Some(Ticket(1))], &mut told);
        sums.leave(EPOCH, 2, &mut told);
        assert_eq!(told, []);
        sums.add(EPOCH, 1, &counted(9, &[5]), &mut told);
        assert_eq!(delivered(&told), [(5, true)]);
    }

    #[test]
    fn counts_are_said_when_nothing_is_left_to_post_or_after_a_millisecond() {
        let mut counts = Counts::default();
        counts.push(10, 1, 7, counted(3, &[1]));
        counts.push(10, 2, 7, counted(4, &[2]));
        assert_eq!(counts.say(10, false), []);
        assert_eq!(counts.deadline(), Some(11));
        assert_eq!(counts.say(11, false).len(), 2);
        assert_eq!(counts.say(12, true), []);
        assert_eq!(counts.need(1, &[3, 4, 5]), [(1, 7, vec![counted(3, &[1])])]);
        counts.push(COUNTS_KEPT_MS + 11, 1, 7, counted(5, &[1]));
        assert_eq!(counts.need(1, &[3]), []);
        assert_eq!(counts.kept_counts, 1);
    }
}
