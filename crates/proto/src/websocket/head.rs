//! The first bytes of a frame (RFC 6455, section 5.2), gathered and checked.
//!
//! Each byte is checked when it comes, so that a frame which breaks the rules is refused before its
//! payload is waited for.

use crate::websocket::CONTROL_BYTES_MAX;
use crate::websocket::error::ReadError;

/// The bit of the last frame of a message.
pub(crate) const FIN: u8 = 0x80;
/// The bit of a compressed message (RFC 7692, section 6).
pub(crate) const RSV1: u8 = 0x40;
/// The bits that no extension we know has a meaning for.
const RSV2_RSV3: u8 = 0x30;
/// The bit, in the second byte, of a payload that is masked.
pub(crate) const MASKED: u8 = 0x80;

/// Two bytes, a length of eight and a key of four.
const HEAD_MAX: usize = 14;

/// What a frame is (section 11.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// A further fragment of a message.
    Continuation = 0,
    /// A message in UTF-8, or its first fragment.
    Text = 1,
    /// A message of any bytes, or its first fragment.
    Binary = 2,
    /// The last frame of its sender.
    Close = 8,
    /// Asks for a pong with its payload.
    Ping = 9,
    /// The answer to a ping.
    Pong = 10,
}

impl Opcode {
    pub(crate) fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    /// Control frames may stand between the fragments of a message (section 5.5).
    pub(crate) fn is_control(self) -> bool {
        self as u8 & 8 != 0
    }
}

/// What the first bytes of a frame say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) opcode: Opcode,
    pub(crate) fin: bool,
    pub(crate) compressed: bool,
    pub(crate) payload_len: u64,
    /// All zero where there is none, which changes nothing.
    pub(crate) key: [u8; 4],
}

/// The head of a frame as far as it has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PartialHead {
    bytes: [u8; HEAD_MAX],
    len: u8,
}

impl PartialHead {
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// What has come of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The head of which so much has come; `None` where that breaks a rule, or is a whole one.
    pub(crate) fn of(bytes: &[u8]) -> Option<PartialHead> {
        let mut head = PartialHead::default();
        let masked = bytes.get(1).is_some_and(|second| second & MASKED != 0);
        let (_, whole) = head.gather(bytes, masked, true).ok()?;
        whole.is_none().then_some(head)
    }

    /// Takes what it needs off the front of `input`. Returns how many bytes that were, and the head
    /// once it is whole; from then on it gathers the next one. Payloads must be masked if, and
    /// only if, `masked` (section 5.1); only with `deflate` may messages be compressed.
    pub(crate) fn gather(
        &mut self,
        input: &[u8],
        masked: bool,
        deflate: bool,
    ) -> Result<(usize, Option<Head>), ReadError> {
        for (index, &byte) in input.iter().enumerate() {
            let at = usize::from(self.len);
            match at {
                0 => check_first(byte, deflate)?,
                1 => check_second(self.bytes[0], byte, masked)?,
                _ => {}
            }
            self.bytes[at] = byte;
            self.len += 1;
            if at > 0 && at + 1 == self.whole_len() {
                let head = self.parse()?;
                *self = PartialHead::default();
                return Ok((index + 1, Some(head)));
            }
        }
        Ok((input.len(), None))
    }

    /// How long the head is; its second byte says so.
    fn whole_len(&self) -> usize {
        let key = if self.bytes[1] & MASKED != 0 { 4 } else { 0 };
        2 + self.length_len() + key
    }

    fn length_len(&self) -> usize {
        match self.bytes[1] & !MASKED {
            126 => 2,
            127 => 8,
            _ => 0,
        }
    }

    fn parse(&self) -> Result<Head, ReadError> {
        let length_len = self.length_len();
        let (length, rest) = self.bytes[2..].split_at(length_len);
        let long = length.iter().fold(0, |long: u64, &byte| long << 8 | u64::from(byte));
        let payload_len = match length_len {
            2 if long < 126 => return Err(ReadError::LengthNotMinimal),
            8 if long <= 0xffff => return Err(ReadError::LengthNotMinimal),
            8 if long >> 63 != 0 => return Err(ReadError::LengthTooGreat),
            0 => u64::from(self.bytes[1] & !MASKED),
            _ => long,
        };
        let mut key = [0; 4];
        if self.bytes[1] & MASKED != 0 {
            key.copy_from_slice(&rest[..4]);
        }
        let first = self.bytes[0];
        let opcode = Opcode::of(first & 0xf).ok_or(ReadError::ReservedOpcode)?;
        let (fin, compressed) = (first & FIN != 0, first & RSV1 != 0);
        Ok(Head { opcode, fin, compressed, payload_len, key })
    }
}

fn check_first(byte: u8, deflate: bool) -> Result<(), ReadError> {
    let opcode = Opcode::of(byte & 0xf).ok_or(ReadError::ReservedOpcode)?;
    // RFC 7692, section 6.1: the bit stands on the first frame of a message, on no other.
    let may_be_compressed = deflate && matches!(opcode, Opcode::Text | Opcode::Binary);
    if byte & RSV2_RSV3 != 0 || (byte & RSV1 != 0 && !may_be_compressed) {
        return Err(ReadError::ReservedBit);
    }
    match opcode.is_control() && byte & FIN == 0 {
        true => Err(ReadError::FragmentedControl),
        false => Ok(()),
    }
}

fn check_second(first: u8, byte: u8, masked: bool) -> Result<(), ReadError> {
    let control = Opcode::of(first & 0xf).is_some_and(Opcode::is_control);
    if control && usize::from(byte & !MASKED) > CONTROL_BYTES_MAX {
        return Err(ReadError::LongControl);
    }
    match (byte & MASKED != 0, masked) {
        (false, true) => Err(ReadError::Unmasked),
        (true, false) => Err(ReadError::Masked),
        _ => Ok(()),
    }
}
