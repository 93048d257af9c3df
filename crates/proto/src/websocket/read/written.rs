//! A reader written down for the process that goes on with the connection, and read back there.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | the layout: 1 |
//! | 1 | a bit each: 1 a close frame has come, 2 a frame is open, 4 a message is open, 8 it is a |
//! |   | text, 16 it is compressed, 32 the open frame is the last of its message |
//! | 1, then so many | the head of a frame as far as it has come |
//! | 8 | bytes of the buffer that belong to the open message |
//! | 1, 8, 4 | of an open frame: opcode, bytes that have not come, key turned to the next of them |
//! | 1, then so many | of an open message: the start of a character at its end |
//!
//! Numbers are big-endian. The caller's buffer goes along with it, as it is.

use super::{OpenFrame, OpenMessage, Reader};
use crate::websocket::CONTROL_BYTES_MAX;
use crate::websocket::head::{Opcode, PartialHead};
use crate::websocket::utf8::Utf8;

/// The layout above. Another one gets another number.
const LAYOUT: u8 = 1;

const CLOSED: u8 = 1;
const FRAME: u8 = 2;
const MESSAGE: u8 = 4;
const TEXT: u8 = 8;
const COMPRESSED: u8 = 16;
const FIN: u8 = 32;

impl Reader {
    /// Appends where the connection stands, for [`Reader::read_back`]: 11 bytes for an idle one, 41
    /// at most.
    pub fn write_down(&self, out: &mut Vec<u8>) {
        let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        let bits = bit(CLOSED, self.closed)
            | bit(FRAME, self.frame.is_some())
            | bit(MESSAGE, self.message.is_some())
            | bit(TEXT, self.message.is_some_and(|message| message.is_text))
            | bit(COMPRESSED, self.message.is_some_and(|message| message.compressed))
            | bit(FIN, self.frame.is_some_and(|frame| frame.fin));
        out.extend_from_slice(&[LAYOUT, bits]);
        push(out, self.head.bytes());
        out.extend_from_slice(&(self.kept as u64).to_be_bytes());
        if let Some(frame) = self.frame {
            out.push(frame.opcode as u8);
            out.extend_from_slice(&frame.left.to_be_bytes());
            out.extend_from_slice(&frame.key);
        }
        if let Some(message) = &self.message {
            push(out, message.utf8.torn());
        }
    }

    /// The reader that was written down, for `buffer`, which was its buffer then. `None` of what no
    /// reader can be, or not with this buffer.
    pub fn read_back(bytes: &[u8], buffer: &[u8]) -> Option<Reader> {
        let (&[layout, bits], mut rest) = bytes.split_first_chunk()?;
        if layout != LAYOUT {
            return None;
        }
        let is = |bit: u8| bits & bit != 0;
        let head = PartialHead::of(take_counted(&mut rest)?)?;
        let kept = usize::try_from(u64::from_be_bytes(take(&mut rest)?)).ok()?;
        let mut frame = None;
        if is(FRAME) {
            let [opcode] = take(&mut rest)?;
            let (opcode, left) = (Opcode::of(opcode)?, u64::from_be_bytes(take(&mut rest)?));
            frame = Some(OpenFrame { opcode, fin: is(FIN), left, key: take(&mut rest)? });
        }
        let mut message = None;
        if is(MESSAGE) {
            let utf8 = Utf8::of_torn(take_counted(&mut rest)?)?;
            message = Some(OpenMessage { is_text: is(TEXT), compressed: is(COMPRESSED), utf8 });
        }
        let reader = Reader { head, frame, message, kept, closed: is(CLOSED) };
        // What was written with other bits than it has was not written by us.
        let mut again = Vec::with_capacity(bytes.len());
        reader.write_down(&mut again);
        (rest.is_empty() && again == bytes && reader.fits(buffer)).then_some(reader)
    }

    /// Whether a connection can have come to that, with this in its buffer.
    fn fits(&self, buffer: &[u8]) -> bool {
        let Some((message, behind)) = buffer.split_at_checked(self.kept) else { return false };
        let is_between = self.frame.is_none();
        if !is_between && (self.closed || !self.head.is_empty()) {
            return false;
        }
        let is_begun = self.message.is_some();
        let (fits, text) = match self.frame {
            None => (is_begun || self.kept == 0, message),
            Some(frame) if frame.opcode.is_control() => {
                let bytes = frame.left.saturating_add(behind.len() as u64);
                let fits = frame.fin && bytes <= CONTROL_BYTES_MAX as u64;
                (fits && (is_begun || self.kept == 0), message)
            }
            Some(frame) => {
                let is_first = frame.opcode != Opcode::Continuation;
                (is_begun && frame.left >> 63 == 0 && (!is_first || self.kept == 0), buffer)
            }
        };
        let is_torn_there = self.message.is_none_or(|message| {
            let torn = message.utf8.torn();
            torn.is_empty() || (message.is_text && !message.compressed && text.ends_with(torn))
        });
        fits && is_torn_there && self.frame.is_none_or(|frame| frame.left > 0)
    }
}

/// Appends up to 255 bytes behind how many they are.
fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u8::MAX), "it would be read back as less");
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

fn take_counted<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let [len] = take(rest)?;
    let (bytes, after) = rest.split_at_checked(usize::from(len))?;
    *rest = after;
    Some(bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}
