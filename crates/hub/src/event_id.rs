//! The id of an event as clients see it: its number, and the tag of the epoch that gave the number.
//!
//! 16 digits of base 62 (0 to 9, A to Z, a to z, which is their order as bytes): 11 of them hold
//! the number, so that ids of growing numbers grow as texts, and 5 hold the tag. To a client it is
//! one opaque word that needs no escape in a header, a query, JSON or HTML.
//!
//! A client that was told of a gap, and has not come to the end of it, has a place with a mark: 11
//! more digits hold the number that the gap ends at.
//!
//! Cost: an id is written once per event, by eleven divisions by a constant, in 13 ns, where
//! hexadecimal digits take 7 (the best of 20,000 rounds of 1,000 on a busy machine). It is read
//! once per client that comes back.

use std::fmt;

/// The length of every id.
pub(crate) const ID_LEN: usize = NUMBER_LEN + TAG_LEN;
/// 62^11 is more than 2^64, 62^10 is less.
const NUMBER_LEN: usize = 11;
const TAG_LEN: usize = 5;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How many tags there are.
const TAGS: u64 = 62_u64.pow(TAG_LEN as u32);

const _: () = {
    assert!(62_u128.pow(NUMBER_LEN as u32) > u64::MAX as u128, "each number has its own digits");
    assert!(TAG_LEN <= size_of::<u64>(), "a tag is kept as a number");
};

/// What tells an epoch from all others: one of 916,132,832 that is drawn at random, as its digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag([u8; TAG_LEN]);

impl Tag {
    /// The tag that belongs to `random`, any number with all its bits by chance.
    pub fn of(random: u64) -> Tag {
        // The upper bits of a product: all tags are as likely, no bit of the number counts for
        // more.
        let drawn = (u128::from(random) * u128::from(TAGS)) >> 64;
        let mut digits = [0; TAG_LEN];
        write_digits(drawn as u64, &mut digits);
        Tag(digits)
    }

    /// The tag as a number, to be kept where only numbers can be.
    pub fn to_bits(self) -> u64 {
        self.0.iter().fold(0, |bits, digit| bits << 8 | u64::from(*digit))
    }

    /// The tag of which [`Tag::to_bits`] has made this number.
    pub(crate) fn from_bits(bits: u64) -> Tag {
        let [.., a, b, c, d, e] = bits.to_be_bytes();
        Tag([a, b, c, d, e])
    }

    /// The tag of a number that may be anybody's: `None` when no tag has it.
    pub fn of_bits(bits: u64) -> Option<Tag> {
        let tag = Tag::from_bits(bits);
        (tag.to_bits() == bits && tag.0.iter().all(u8::is_ascii_alphanumeric)).then_some(tag)
    }
}

/// The id of one event. Where a client says which event it heard last, it is that place, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventId {
    number: u64,
    tag: Tag,
}

impl EventId {
    /// The event `number` of the epoch that `tag` names.
    pub const fn new(number: u64, tag: Tag) -> EventId {
        EventId { number, tag }
    }

    /// The number that orders the event among all.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The tag of its epoch.
    pub const fn tag(self) -> Tag {
        self.tag
    }

    /// Reads an id; `None` when it is none of any Encke's.
    pub fn parse(text: &[u8]) -> Option<EventId> {
        let (first, rest) = text.split_first_chunk::<NUMBER_LEN>()?;
        let tag: [u8; TAG_LEN] = rest.try_into().ok()?;
        let is_tag = tag.iter().all(u8::is_ascii_alphanumeric);
        Some(EventId { number: value(first)?, tag: is_tag.then_some(Tag(tag))? })
    }

    /// Reads a place: an id, and the number up to which its client was told that some may be
    /// missing; 0 where it was told of no gap. `None` when it is none of any Encke's.
    pub fn parse_place(text: &[u8]) -> Option<(EventId, u64)> {
        let (id, mark) = text.split_at_checked(ID_LEN)?;
        let gap_up_to = match mark.len() {
            0 => 0,
            NUMBER_LEN => value(mark)?,
            _ => return None,
        };
        Some((EventId::parse(id)?, gap_up_to))
    }

    /// This id as the place of a client that was told of a gap up to the number `gap_up_to`: behind
    /// it the place is the id alone.
    pub fn place(self, gap_up_to: u64) -> String {
        let mut place = self.to_string();
        if gap_up_to > self.number {
            let mut mark = [0; NUMBER_LEN];
            write_digits(gap_up_to, &mut mark);
            place.push_str(str::from_utf8(&mark).expect("digits are ASCII"));
        }
        place
    }

    /// The digits, all of them ASCII.
    pub(crate) fn digits(self) -> [u8; ID_LEN] {
        let mut digits = [0; ID_LEN];
        let (number, tag) = digits.split_at_mut(NUMBER_LEN);
        write_digits(self.number, number);
        tag.copy_from_slice(&self.tag.0);
        digits
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.digits()).expect("digits are ASCII"))
    }
}

/// Writes `number` to the whole of `digits`.
fn write_digits(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    debug_assert_eq!(number, 0, "two numbers would have one text");
}

/// The number whose digits these are; `None` when one is no digit or it is too great.
fn value(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            b'a'..=b'z' => digit - b'a' + 36,
            _ => return None,
        };
        value.checked_mul(62)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests;
