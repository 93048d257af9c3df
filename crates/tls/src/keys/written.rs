//! Keys written down for the process that goes on with the connection, and read back there.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | the layout: 1 |
//! | 1 | suite and version: 4, and 1 for AES-GCM, and 2 for TLS 1.2 |
//! | 2 | a bit each: 1 we are the client, 2 we owe a key update, 4 we are done, 8 the peer is |
//! | 3 | records without data that have come in a row |
//! | 4..8 | the number of the next record to seal, big-endian |
//! | 8..12 | the number of the next record to open, big-endian |
//! | 12..44 | `read` as [`Keys`] has it |
//! | 44..76 | `write` |
//! | 76..104 | `ready` |
//!
//! The owner's note is not among them. Whoever has these bytes can read and forge the connection:
//! they are wiped when dropped, and go to no file.

use zeroize::Zeroizing;

use super::{Flags, Keys};
use crate::Version;
use crate::limits::{IDLE_RECORDS_MAX, LAST_RECORDS, RECORDS_PER_CONNECTION};

/// Bytes of keys that are written down.
pub const KEYS_BYTES: usize = 104;

/// The layout above. Another one gets another number.
const LAYOUT: u8 = 1;

/// Set in `suite` wherever there are keys.
const IS_SET: u8 = 4;

impl Keys {
    /// The keys for [`Keys::read_back`]. Only one of the two may seal from then on: the same number
    /// under the same key for two texts would give both away.
    pub fn write_down(&self) -> Zeroizing<[u8; KEYS_BYTES]> {
        let mut bytes = Zeroizing::new([0; KEYS_BYTES]);
        let (head, secrets) = bytes.split_at_mut(12);
        head[..4].copy_from_slice(&[LAYOUT, self.suite, self.flags, self.idle_records]);
        head[4..8].copy_from_slice(&self.write_seq.to_be_bytes());
        head[8..].copy_from_slice(&self.read_seq.to_be_bytes());
        secrets[..32].copy_from_slice(&self.read);
        secrets[32..64].copy_from_slice(&self.write);
        secrets[64..].copy_from_slice(&self.ready);
        bytes
    }

    /// Takes the keys that were written down into this place, with the note 0: keys that move leave
    /// a copy behind. Returns `false`, and leaves no keys, if no connection can have such bytes; a
    /// place without keys has them, too.
    pub fn read_back(&mut self, bytes: &[u8]) -> bool {
        self.clear();
        let is_read = self.try_read_back(bytes).is_some();
        if !is_read {
            self.clear();
        }
        is_read
    }

    fn try_read_back(&mut self, bytes: &[u8]) -> Option<()> {
        let bytes: &[u8; KEYS_BYTES] = bytes.try_into().ok()?;
        let (&[layout, suite, flags, idle_records], rest) = bytes.split_first_chunk()?;
        let (write_seq, rest) = rest.split_first_chunk()?;
        let (read_seq, rest) = rest.split_first_chunk()?;
        if layout != LAYOUT {
            return None;
        }
        (self.suite, self.flags, self.idle_records) = (suite, flags, idle_records);
        self.write_seq = u32::from_be_bytes(*write_seq);
        self.read_seq = u32::from_be_bytes(*read_seq);
        let (read, rest) = rest.split_at(self.read.len());
        let (write, ready) = rest.split_at(self.write.len());
        self.read.copy_from_slice(read);
        self.write.copy_from_slice(write);
        self.ready.copy_from_slice(ready);
        self.can_be().then_some(())
    }

    /// Whether a connection can have come to that. A number further on would be one too many.
    fn can_be(&self) -> bool {
        let all =
            Flags::CLIENT.0 | Flags::OWES_UPDATE.0 | Flags::WRITE_CLOSED.0 | Flags::READ_CLOSED.0;
        let is_owed = self.version() == Version::Tls12 && self.is(Flags::OWES_UPDATE);
        self.suite & !3 == IS_SET
            && self.flags & !all == 0
            && !is_owed
            && self.idle_records <= IDLE_RECORDS_MAX + u8::from(self.is(Flags::READ_CLOSED))
            && self.write_seq <= RECORDS_PER_CONNECTION + LAST_RECORDS
    }
}

#[cfg(test)]
mod tests;
