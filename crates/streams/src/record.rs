//! Records: what stands in a stream's file.
//!
//! The file begins with [`MAGIC`]. Each record is its length (4 bytes, little-endian, without this
//! head; the upper 7 bits are a check of the others) and a checksum (4 bytes, the lower half of
//! XXH3 over what follows). Then come its fields: kind, flags, and by these the creation's or the
//! append's. The data is the rest.

use xxhash_rust::xxh3::xxh3_64;

use crate::lifetime::Lifetime;
use crate::lineage::{ANCESTORS_MAX, Ancestor, Lineage};
use crate::offset::Offset;
use crate::request::{Append, Create, Producer};

/// The first bytes of a file; the last but one is the version of its form.
pub(crate) const MAGIC: &[u8; 8] = b"ENCKES1\n";

/// Where the first record begins.
pub(crate) const FIRST: u64 = MAGIC.len() as u64;

/// Length and checksum.
pub(crate) const HEAD_BYTES: usize = 8;

/// The bits of a length; those above are their check.
const LEN_BITS: u32 = 25;

/// Bytes of data that one record may have, so that its length fits with all of its fields.
pub(crate) const DATA_BYTES_MAX: usize = 16 << 20;

/// Bytes of a record behind its head: its data, and fields. Those of a fork are the longest: the
/// paths of [`ANCESTORS_MAX`] ancestors, of 1,024 bytes each, as all other texts are at most.
pub(crate) const BODY_BYTES_MAX: usize = DATA_BYTES_MAX + (64 << 10);

const _: () = assert!(BODY_BYTES_MAX < 1 << LEN_BITS);

const CREATE: u8 = 1;
const APPEND: u8 = 2;
/// A creation with a lineage. Versions that know no forks call the file damaged.
const FORK: u8 = 3;
const CLOSES: u8 = 1;
const HAS_PRODUCER: u8 = 2;
const HAS_SEQUENCE: u8 = 4;

/// Bytes of the record of an append.
pub(crate) fn append_bytes(append: &Append<'_>) -> usize {
    let text = |text: &str| 2 + text.len();
    let producer = append.producer.map_or(0, |producer| text(producer.id) + 2 * 8);
    HEAD_BYTES + 2 + producer + append.sequence.map_or(0, text) + append.data.len()
}

/// What a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Record<'b> {
    /// The stream begins, with its number.
    Create { id: u64, path: &'b str, create: Create<'b>, lineage: Option<Lineage> },
    /// More of it.
    Append(Append<'b>),
}

impl<'b> Record<'b> {
    /// The bytes that it appends.
    pub(crate) fn data(&self) -> &'b [u8] {
        match self {
            Record::Create { create, .. } => create.data,
            Record::Append(append) => append.data,
        }
    }

    /// Writes it behind what `out` has.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; HEAD_BYTES]);
        match self {
            Record::Create { id, path, create, lineage } => {
                let kind = if lineage.is_some() { FORK } else { CREATE };
                out.extend([kind, if create.closed { CLOSES } else { 0 }]);
                out.extend(id.to_le_bytes());
                let (kind, number) = match create.lifetime {
                    Lifetime::Unbounded => (0, 0),
                    Lifetime::Ttl(seconds) => (1, seconds),
                    Lifetime::ExpiresAt(ms) => (2, ms),
                };
                out.push(kind);
                out.extend(number.to_le_bytes());
                push_text(out, create.content_type);
                push_text(out, path);
                if let Some(lineage) = lineage {
                    push_lineage(out, lineage);
                }
            }
            Record::Append(append) => {
                let flag = |is: bool, flag| if is { flag } else { 0 };
                let flags = flag(append.closes, CLOSES)
                    | flag(append.producer.is_some(), HAS_PRODUCER)
                    | flag(append.sequence.is_some(), HAS_SEQUENCE);
                out.extend([APPEND, flags]);
                if let Some(producer) = append.producer {
                    push_text(out, producer.id);
                    out.extend(producer.epoch.to_le_bytes());
                    out.extend(producer.sequence.to_le_bytes());
                }
                if let Some(sequence) = append.sequence {
                    push_text(out, sequence);
                }
            }
        }
        out.extend_from_slice(self.data());
        let body = &out[start + HEAD_BYTES..];
        assert!(body.len() <= BODY_BYTES_MAX, "whoever asks has bounded its data and its fields");
        let len = u32::try_from(body.len()).expect("it is bounded far below 4 GiB");
        let sum = checksum(body);
        out[start..start + 4].copy_from_slice(&checked(len).to_le_bytes());
        out[start + 4..start + HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// The record whose body this is; `None` where it cannot be one.
    fn read(body: &'b [u8]) -> Option<Record<'b>> {
        let (&[kind, flags], mut rest) = body.split_first_chunk()?;
        let closes = flags & CLOSES != 0;
        if matches!(kind, CREATE | FORK) {
            return Record::read_create(kind, closes, rest);
        }
        if kind != APPEND {
            return None;
        }
        let producer = if flags & HAS_PRODUCER == 0 {
            None
        } else {
            let id = text(&mut rest)?;
            let (epoch, sequence) = (number(&mut rest)?, number(&mut rest)?);
            Some(Producer { id, epoch, sequence })
        };
        let sequence = if flags & HAS_SEQUENCE == 0 { None } else { Some(text(&mut rest)?) };
        Some(Record::Append(Append { closes, producer, sequence, data: rest, content_type: None }))
    }

    fn read_create(kind: u8, closed: bool, mut rest: &'b [u8]) -> Option<Record<'b>> {
        let id = number(&mut rest)?;
        let (&lifetime, after) = rest.split_first()?;
        rest = after;
        let amount = number(&mut rest)?;
        let lifetime = match lifetime {
            0 => Lifetime::Unbounded,
            1 => Lifetime::Ttl(amount),
            2 => Lifetime::ExpiresAt(amount),
            _ => return None,
        };
        let content_type = text(&mut rest)?;
        let path = text(&mut rest)?;
        let lineage = if kind == FORK { Some(lineage(&mut rest)?) } else { None };
        let create = Create { content_type, lifetime, closed, data: rest };
        Some(Record::Create { id, path, create, lineage })
    }
}

/// What stands at the beginning of some bytes of a file.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Found<'b> {
    /// A record, with its whole length.
    Whole(Record<'b>, usize),
    /// The beginning of one, which needs so many bytes.
    Needs(usize),
    /// No record of so many bytes.
    Bad(usize),
}

/// What stands at the beginning of `bytes`.
pub(crate) fn first(bytes: &[u8]) -> Found<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Found::Needs(HEAD_BYTES);
    };
    let [l0, l1, l2, l3, s0, s1, s2, s3] = *head;
    let word = u32::from_le_bytes([l0, l1, l2, l3]);
    let len = word & ((1 << LEN_BITS) - 1);
    let is_checked = checked(len) == word;
    let len = len as usize;
    // Before as many bytes are read: offsets that clients make up lead to any number.
    if len == 0 || len > BODY_BYTES_MAX || !is_checked {
        return Found::Bad(HEAD_BYTES);
    }
    let Some(body) = rest.get(..len) else { return Found::Needs(HEAD_BYTES + len) };
    let is_whole = checksum(body) == u32::from_le_bytes([s0, s1, s2, s3]);
    match Record::read(body).filter(|_| is_whole) {
        Some(record) => Found::Whole(record, HEAD_BYTES + len),
        None => Found::Bad(HEAD_BYTES + len),
    }
}

/// A length with its check.
fn checked(len: u32) -> u32 {
    len | (xxh3_64(&len.to_le_bytes()) as u32) << LEN_BITS
}

fn checksum(body: &[u8]) -> u32 {
    xxh3_64(body) as u32
}

/// Appends a text of at most 65,535 bytes, which whoever makes records has seen to.
fn push_text(out: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).expect("texts are fields of a head, which is bounded");
    out.extend(len.to_le_bytes());
    out.extend(text.as_bytes());
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    let (len, after) = rest.split_first_chunk::<2>()?;
    let (text, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
    *rest = after;
    std::str::from_utf8(text).ok()
}

fn push_lineage(out: &mut Vec<u8>, lineage: &Lineage) {
    assert!(lineage.ancestors.len() <= ANCESTORS_MAX, "whoever makes forks has seen to it");
    for number in [lineage.at.id, lineage.at.position, lineage.sub_offset] {
        out.extend(number.to_le_bytes());
    }
    out.push(lineage.ancestors.len() as u8);
    for Ancestor { path, id, end } in &lineage.ancestors {
        push_text(out, path);
        out.extend(id.to_le_bytes());
        out.extend(end.to_le_bytes());
    }
}

fn lineage(rest: &mut &[u8]) -> Option<Lineage> {
    let at = Offset { id: number(rest)?, position: number(rest)? };
    let sub_offset = number(rest)?;
    let (&count, after) = rest.split_first()?;
    *rest = after;
    let mut ancestor = || {
        let path = text(rest)?.into();
        Some(Ancestor { path, id: number(rest)?, end: number(rest)? })
    };
    let ancestors = (0..count).map(|_| ancestor()).collect::<Option<_>>()?;
    Some(Lineage { at, sub_offset, ancestors })
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record<'static>> {
        let create = Create {
            content_type: "text/plain",
            lifetime: Lifetime::Ttl(9),
            closed: false,
            data: b"first",
        };
        let producer = Some(Producer { id: "p", epoch: 1, sequence: 2 });
        let append = |closes, producer, sequence, data| {
            Record::Append(Append { closes, producer, sequence, data, content_type: None })
        };
        let source = Ancestor { path: "run/0".into(), id: 5, end: 99 };
        let at = Offset { id: 5, position: 99 };
        let lineage = Lineage { at, sub_offset: 3, ancestors: [source].into() };
        vec![
            Record::Create { id: 7, path: "run/1", create, lineage: None },
            Record::Create { id: 8, path: "run/2", create, lineage: Some(lineage) },
            append(false, None, None, b"x"),
            append(true, producer, Some("09"), b""),
        ]
    }

    #[test]
    fn records_are_read_back_and_a_cut_one_says_what_it_needs() {
        for record in records() {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            assert_eq!(first(&bytes), Found::Whole(record.clone(), bytes.len()));
            for cut in 0..bytes.len() {
                let needs = if cut < HEAD_BYTES { HEAD_BYTES } else { bytes.len() };
                assert_eq!(first(&bytes[..cut]), Found::Needs(needs), "cut at {cut}");
            }
        }
    }

    #[test]
    fn one_wrong_bit_is_found() {
        for record in records() {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            for at in 4..bytes.len() {
                bytes[at] ^= 1;
                assert_eq!(first(&bytes), Found::Bad(bytes.len()), "byte {at}");
                bytes[at] ^= 1;
            }
        }
        let mut long = Vec::new();
        records()[0].write(&mut long);
        for bit in 0..32 {
            let mut bytes = long.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_found = first(&bytes) == Found::Bad(HEAD_BYTES);
            assert!(is_found, "bit {bit} of the length");
        }
        assert_eq!(first(&[0; 64]), Found::Bad(HEAD_BYTES), "zeros are no record");
    }

    #[test]
    fn length_that_no_record_has_is_found_by_its_head() {
        let head = |len: usize| [checked(len as u32).to_le_bytes(), [0; 4]].concat();
        assert_eq!(first(&head(BODY_BYTES_MAX)), Found::Needs(HEAD_BYTES + BODY_BYTES_MAX));
        for long in [BODY_BYTES_MAX + 1, 20 << 20] {
            assert_eq!(first(&head(long)), Found::Bad(HEAD_BYTES), "{long}");
        }
    }
}
