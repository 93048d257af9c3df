//! The stamp that `spam` puts into a payload and `flood` finds again.
//!
//! Its form is fixed: a marker and hexadecimal fields of known width, inside a JSON string. No
//! transport has to escape any of it (the classic page would escape the quotes of a JSON object),
//! so a reader finds it by one substring search and needs no JSON parser: about 50 ns an event.
//!
//! What makes loss provable: one run of `spam` numbers the events about each subject 1, 2, 3, …
//! and sends them in that order over one API connection. So whoever hears a subject from the
//! run's start on must hear every number, once, in order. See [`crate::flood`] for the reader.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use memchr::memmem::Finder;

const MARKER: &[u8] = b"spam2:";
const FIELDS_LEN: usize = 8 + 8 + 8 + 8 + 16 + 8 + 16;
/// Bytes of a stamp in a payload, without the quotes of the JSON string around it.
pub const STAMP_LEN: usize = MARKER.len() + FIELDS_LEN + 1;

/// What tells a run of `spam` from others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RunName {
    /// Which boot of which machine: clocks of different ones cannot be compared.
    pub boot: u32,
    /// The time of its start in milliseconds on the monotonic clock, cut to 32 bits.
    pub start_ms: u32,
    /// Drawn at random, since runs may start in the same millisecond.
    pub random: u32,
}

impl RunName {
    /// A name for a run of this machine that starts at `start_ns` of the monotonic clock.
    pub fn new(start_ns: u64) -> RunName {
        // The keys of a hash map are the standard library's only source of randomness.
        let random = RandomState::new().build_hasher().finish() as u32;
        RunName { boot: boot(), start_ms: (start_ns / 1_000_000) as u32, random }
    }
}

/// What a stamp says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Who sent it.
    pub run: RunName,
    /// The logical sender.
    pub sender: u32,
    /// The subject, as an integer id.
    pub subject: u64,
    /// The place of the event among the run's events about this subject; the first is 1.
    pub number: u32,
    /// When the event was to be sent, in nanoseconds on the monotonic clock. Not when it really
    /// was: a sender that falls behind must show in the latency.
    pub intended_ns: u64,
}

impl Stamp {
    /// Appends the stamp to a payload.
    pub fn push(&self, out: &mut Vec<u8>) {
        let before = out.len();
        out.extend_from_slice(MARKER);
        push_hex(out, u64::from(self.run.boot), 8);
        push_hex(out, u64::from(self.run.start_ms), 8);
        push_hex(out, u64::from(self.run.random), 8);
        push_hex(out, u64::from(self.sender), 8);
        push_hex(out, self.subject, 16);
        push_hex(out, u64::from(self.number), 8);
        push_hex(out, self.intended_ns, 16);
        out.push(b';');
        debug_assert_eq!(out.len() - before, STAMP_LEN, "it would not be found again");
    }
}

/// Finds the stamps of events in what a stream sends.
#[derive(Clone, Debug)]
pub struct StampFinder {
    marker: Finder<'static>,
}

impl Default for StampFinder {
    fn default() -> StampFinder {
        StampFinder { marker: Finder::new(MARKER) }
    }
}

impl StampFinder {
    /// The first stamp in `event`, if there is one.
    pub fn find(&self, event: &[u8]) -> Option<Stamp> {
        let start = self.marker.find(event)? + MARKER.len();
        let fields = event.get(start..start + FIELDS_LEN)?;
        if event.get(start + FIELDS_LEN) != Some(&b';') {
            return None;
        }
        let mut at = 0;
        let mut next = |len: usize| {
            at += len;
            hex(&fields[at - len..at])
        };
        Some(Stamp {
            run: RunName {
                boot: next(8)? as u32,
                start_ms: next(8)? as u32,
                random: next(8)? as u32,
            },
            sender: next(8)? as u32,
            subject: next(16)?,
            number: next(8)? as u32,
            intended_ns: next(16)?,
        })
    }
}

/// This boot of this machine, as stamps name it.
pub fn boot() -> u32 {
    static BOOT: OnceLock<u32> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // FNV-1a: any hash will do, it only has to tell machines apart.
        id.iter()
            .fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    })
}

fn push_hex(out: &mut Vec<u8>, value: u64, digits: u32) {
    debug_assert!(digits == 16 || value >> (4 * digits) == 0, "its upper digits would be lost");
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend((0..digits).rev().map(|place| DIGITS[(value >> (place * 4) & 15) as usize]));
}

const NO_DIGIT: u8 = 0x80;

const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

fn hex(digits: &[u8]) -> Option<u64> {
    let mut seen = 0;
    let mut value = 0;
    for &digit in digits {
        let place = VALUES[usize::from(digit)];
        seen |= place;
        value = value << 4 | u64::from(place & 15);
    }
    (seen & NO_DIGIT == 0).then_some(value)
}

#[cfg(test)]
mod tests;
