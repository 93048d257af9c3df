//! A segment read from its first byte to its last: what counts in it, and what of it is lost.
//!
//! A crash leaves everything before the last mark as it was, and anything behind it. So what
//! cannot be read before a mark is damage: it is told, and what follows counts. What cannot be read
//! behind the last mark of the segment that was written last is a torn tail, which ends there. An
//! older segment was on disk as a whole before the next was begun, and has no torn tail.

#[cfg(test)]
mod cut;

use crate::format::{HEADER, MARK, mark_at};
use crate::record::{View, decode, length};

/// Sums are taken of that many bytes at most in search of a record behind damage; then of marks.
const SEARCH_BYTES_MAX: usize = 256 << 20;

/// What a segment is scanned as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) salt: u32,
    /// The last number before the segment.
    pub(crate) previous: u64,
    /// The first number of the next segment; none for the last segment.
    pub(crate) next: Option<u64>,
    /// The last number before the next segment, if it is known.
    pub(crate) until: Option<u64>,
}

/// What was found in a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Where what counts ends.
    pub(crate) end: u64,
    /// The greatest number known to be in it or before it, lost ones too.
    pub(crate) last: u64,
    /// Between these numbers, both exclusive, records are lost.
    pub(crate) lost: Vec<(u64, u64)>,
}

/// Gives each record with its place, in order.
pub(crate) fn scan(bytes: &[u8], bounds: Bounds, each: &mut dyn FnMut(u32, View<'_>)) -> Scan {
    let below = bounds.next.unwrap_or(u64::MAX);
    let mut found = Scan { end: HEADER, last: bounds.previous, lost: Vec::new() };
    // A place before which all was on disk; looked for once something cannot be read.
    let mut safe = bounds.next.map(|_| bytes.len());
    let mut unread_after = None;
    let mut at = HEADER as usize;
    while at < bytes.len() {
        if let Some(last) = mark_at(bytes, at, bounds.salt) {
            if let Some(after) = unread_after.take()
                && last > after
            {
                found.lost.push((after, last + 1));
                found.last = last;
            }
            at += MARK;
        } else if let Some((record, length)) =
            decode(&bytes[at..], bounds.salt).filter(|(record, _)| record.number > found.last)
        {
            if record.number >= below {
                // A failed sync left it; it was written again into the next segment.
                break;
            }
            if let Some(after) = unread_after.take() {
                found.lost.push((after, record.number));
            }
            found.last = record.number;
            each(at as u32, record);
            at += length;
        } else {
            let marked = || last_mark(bytes, at, bounds.salt).map_or(at, |mark| mark + MARK);
            let safe = *safe.get_or_insert_with(marked);
            let Some(again) = search(&bytes[..safe.max(at)], at + 1, bounds.salt) else { break };
            unread_after.get_or_insert(found.last);
            at = again;
            continue;
        }
        found.end = at as u64;
    }
    if let Some(until) = bounds.until.filter(|until| *until > found.last && at < bytes.len()) {
        found.lost.push((found.last, until.saturating_add(1)));
        found.last = until;
    }
    found
}

/// Where the last mark from a place on begins.
pub(crate) fn last_mark(bytes: &[u8], from: usize, salt: u32) -> Option<usize> {
    (from..bytes.len()).rev().find(|at| mark_at(bytes, *at, salt).is_some())
}

/// The next place that holds a whole record or a mark.
fn search(bytes: &[u8], from: usize, salt: u32) -> Option<usize> {
    let mut summed = 0;
    (from..bytes.len()).find(|at| {
        if mark_at(bytes, *at, salt).is_some() {
            return true;
        }
        let Some(length) = length(&bytes[*at..]).filter(|length| *length <= bytes.len() - *at)
        else {
            return false;
        };
        summed += length;
        summed <= SEARCH_BYTES_MAX && decode(&bytes[*at..], salt).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::format::{Header, mark};

    const SALT: u32 = 77;

    /// Records 1 to 6 with a mark after the third; where each begins, and the mark.
    fn segment() -> (Vec<u8>, Vec<usize>, usize) {
        let header = Header { salt: SALT, previous: 0, sequence: 1 };
        let mut bytes = header.bytes().to_vec();
        let (mut places, mut marked) = (Vec::new(), 0);
        for number in 1..=6 {
            places.push(bytes.len());
            let record =
                Record { number, at_ms: 1, expires_ms: 2, keys: &[b"k"], kind: 0, body: b"body" };
            record.encode(SALT, &mut bytes);
            if number == 3 {
                marked = bytes.len();
                bytes.extend_from_slice(&mark(SALT, marked as u64, 3));
            }
        }
        (bytes, places, marked)
    }

    fn scanned(bytes: &[u8], next: Option<u64>) -> (Scan, Vec<u64>) {
        let mut numbers = Vec::new();
        let bounds = Bounds { salt: SALT, previous: 0, next, until: None };
        let scan = scan(bytes, bounds, &mut |_, record| numbers.push(record.number));
        (scan, numbers)
    }

    #[test]
    fn flip_at_any_bit_before_the_mark_loses_one_record_and_is_told() {
        let (bytes, places, marked) = segment();
        for at in places[0]..marked {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let hit =
                    places.iter().rposition(|place| *place <= at).expect("a record") as u64 + 1;
                let (scan, numbers) = scanned(&flipped, None);
                let expected: Vec<u64> = (1..=6).filter(|number| *number != hit).collect();
                assert_eq!(numbers, expected, "byte {at}, bit {bit}");
                assert_eq!(scan.lost, [(hit - 1, hit + 1)]);
                assert_eq!((scan.end, scan.last), (bytes.len() as u64, 6));
            }
        }
    }

    #[test]
    fn flip_behind_the_last_mark_is_a_torn_tail_there_and_damage_in_an_older_segment() {
        let (bytes, places, _) = segment();
        let mut flipped = bytes.clone();
        flipped[places[4] + 9] ^= 1;
        let (scan, numbers) = scanned(&flipped, None);
        assert_eq!((numbers, scan.end), (vec![1, 2, 3, 4], places[4] as u64));
        assert!(scan.lost.is_empty());
        let (scan, numbers) = scanned(&flipped, Some(7));
        assert_eq!((numbers, scan.lost), (vec![1, 2, 3, 4, 6], vec![(4, 6)]));
    }

    #[test]
    fn segment_cut_at_any_byte_keeps_the_whole_records_before() {
        let (bytes, places, _) = segment();
        for end in HEADER as usize..bytes.len() {
            let (scan, numbers) = scanned(&bytes[..end], None);
            let whole = places.iter().skip(1).filter(|place| **place <= end).count();
            // The third record ends where the mark begins, before the fourth.
            assert!(numbers.len() == whole || (whole == 2 && numbers.len() == 3), "{end}");
            assert!(scan.end <= end as u64 && scan.lost.is_empty());
        }
    }

    #[test]
    fn record_in_a_body_is_not_taken_for_one_and_a_lost_last_record_is_told_by_the_mark() {
        let mut inner = Vec::new();
        let record =
            Record { number: 2, at_ms: 1, expires_ms: 2, keys: &[b"k"], kind: 0, body: b"forged" };
        record.encode(SALT + 1, &mut inner);
        let mut bytes = Header { salt: SALT, previous: 0, sequence: 1 }.bytes().to_vec();
        Record { body: &inner, number: 5, ..record }.encode(SALT, &mut bytes);
        let end = bytes.len() as u64;
        bytes.extend_from_slice(&mark(SALT, end, 5));
        bytes[HEADER as usize + 8] ^= 0x40;
        let (scan, numbers) = scanned(&bytes, None);
        assert!(numbers.is_empty());
        assert_eq!((scan.lost, scan.last), (vec![(0, 6)], 5));
    }

    #[test]
    fn what_a_failed_sync_left_in_an_older_segment_does_not_count() {
        let (bytes, ..) = segment();
        let (scan, numbers) = scanned(&bytes, Some(5));
        assert_eq!((numbers, scan.last, scan.lost), (vec![1, 2, 3, 4], 4, vec![]));
    }
}
