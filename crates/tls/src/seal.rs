//! Plain text to records, into the caller's buffer.
//!
//! Cost: the key is built once for all records that are sealed in one go. Text in one part is
//! sealed where it stands into the buffer; parts are gathered there first.

use std::ops::Deref;

use crate::cipher::{Cipher, TAG_BYTES};
use crate::keys::Flags;
use crate::limits::{
    ALERT_BYTES_MAX, HEADER_BYTES, KEY_UPDATE_BYTES, LAST_RECORDS, OVERHEAD_BYTES_MAX,
    PLAIN_BYTES_MAX, RECORDS_PER_CONNECTION, RECORDS_PER_KEY,
};
use crate::message::OUR_KEY_UPDATE;
use crate::record::{aad_of_tls12, header, kind};
use crate::{Alert, Keys, Suite, Unsealed, Version};

/// Bytes of the nonce that go along with a record of TLS 1.2.
const EXPLICIT_BYTES: usize = 8;

/// What one call has sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// Bytes of the text.
    pub text: usize,
    /// Bytes in the buffer, which are sent in this order or never: their numbers are used up.
    pub bytes: usize,
}

/// Seals records of one connection, one after the other.
pub struct Sealer<'k> {
    keys: &'k mut Keys,
    cipher: Option<Cipher>,
}

impl Keys {
    /// What seals this connection's records.
    pub fn sealer(&mut self) -> Sealer<'_> {
        Sealer { keys: self, cipher: None }
    }
}

impl Sealer<'_> {
    /// Seals text of `parts`, from `skip` bytes on, as one record: as much as a record and `out`
    /// have room for. Before it stands our key update, where one is due.
    ///
    /// `out` has [`SEALED_BYTES_MAX`](crate::limits::SEALED_BYTES_MAX) bytes for a record of the
    /// largest size.
    pub fn seal<P>(&mut self, parts: &[P], skip: usize, out: &mut [u8]) -> Result<Sealed, Unsealed>
    where
        P: Deref<Target = [u8]>,
    {
        if self.keys.is(Flags::WRITE_CLOSED) {
            return Err(Unsealed::Closed);
        }
        let is_tls13 = self.keys.version() == Version::Tls13;
        if !is_tls13 && self.keys.write_seq >= RECORDS_PER_CONNECTION {
            return Err(Unsealed::Spent);
        }
        let is_update_due =
            self.keys.is(Flags::OWES_UPDATE) || self.keys.write_seq >= RECORDS_PER_KEY;
        let before = match is_tls13 && is_update_due {
            true => self.update(out),
            false => 0,
        };
        let out = &mut out[before..];
        let room = out.len().saturating_sub(OVERHEAD_BYTES_MAX).min(PLAIN_BYTES_MAX);
        let text = Text::of(parts, skip, room);
        if text.len == 0 {
            return Ok(Sealed { text: 0, bytes: before });
        }
        let bytes = before + self.record(kind::DATA, text, out);
        Ok(Sealed { text: text.len, bytes })
    }

    /// Seals `alert`, after which nothing is sealed unless it is a mere warning. Returns its bytes;
    /// none when this side is closed already.
    pub fn alert(&mut self, alert: Alert, out: &mut [u8; ALERT_BYTES_MAX]) -> usize {
        let is_spent = self.keys.write_seq >= RECORDS_PER_CONNECTION + LAST_RECORDS;
        if self.keys.is(Flags::WRITE_CLOSED) || is_spent {
            return 0;
        }
        if alert.level() == 2 || alert == Alert::CLOSE_NOTIFY {
            self.keys.mark(Flags::WRITE_CLOSED, true);
        }
        let text = [alert.level(), alert.0];
        let parts = [&text[..]];
        self.record(kind::ALERT, Text::of(&parts, 0, text.len()), out)
    }

    /// Our key update, and from then on the new key (RFC 8446, section 4.6.3).
    fn update(&mut self, out: &mut [u8]) -> usize {
        debug_assert!(out.len() >= KEY_UPDATE_BYTES, "the caller leaves room for it");
        let parts = [&OUR_KEY_UPDATE[..]];
        let text = Text::of(&parts, 0, OUR_KEY_UPDATE.len());
        let bytes = self.record(kind::HANDSHAKE, text, out);
        debug_assert_eq!(bytes, KEY_UPDATE_BYTES);
        self.keys.update_write();
        self.keys.mark(Flags::OWES_UPDATE, false);
        self.cipher = None;
        bytes
    }

    fn record<P>(&mut self, kind: u8, text: Text<'_, P>, out: &mut [u8]) -> usize
    where
        P: Deref<Target = [u8]>,
    {
        let cipher = self.cipher.get_or_insert_with(|| self.keys.write_cipher());
        let seq = self.keys.write_seq;
        // A nonce that comes twice shows the text of both records to whoever has read them.
        assert!(seq <= RECORDS_PER_CONNECTION + LAST_RECORDS, "this key was to be given up");
        debug_assert!((1..=PLAIN_BYTES_MAX).contains(&text.len));
        let nonce = cipher.nonce(seq);
        let is_tls13 = self.keys.version() == Version::Tls13;
        let is_explicit = !is_tls13 && self.keys.suite() == Suite::Aes128Gcm;
        let explicit = if is_explicit { &nonce[nonce.len() - EXPLICIT_BYTES..] } else { &[] };
        // TLS 1.3 puts the type behind the text and says outside that all is data (RFC 8446,
        // section 5.2).
        let (outer, inner) = if is_tls13 { (kind::DATA, &[kind][..]) } else { (kind, &[][..]) };
        let body = explicit.len() + text.len + inner.len() + TAG_BYTES;
        let header = header(outer, body);
        debug_assert!(HEADER_BYTES + body <= out.len());
        let (start, rest) = out.split_at_mut(HEADER_BYTES + explicit.len());
        start[..HEADER_BYTES].copy_from_slice(&header);
        start[HEADER_BYTES..].copy_from_slice(explicit);
        let (sealed, end) = rest.split_at_mut(text.len);
        let end = &mut end[..inner.len() + TAG_BYTES];
        let of_tls12 = aad_of_tls12(seq, kind, text.len);
        let aad = if is_tls13 { &header[..] } else { &of_tls12[..] };
        // From here on the number is used up, whatever becomes of the record.
        self.keys.write_seq += 1;
        match text.one() {
            Some(text) => cipher.seal_to(nonce, aad, text, sealed, inner, end),
            None => {
                text.gather(sealed);
                cipher.seal(nonce, aad, sealed, inner, end);
            }
        }
        HEADER_BYTES + body
    }
}

/// What is to be sealed: some bytes of some parts.
#[derive(Debug)]
struct Text<'p, P> {
    parts: &'p [P],
    skip: usize,
    len: usize,
}

impl<P> Clone for Text<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Text<'_, P> {}

impl<'p, P: Deref<Target = [u8]>> Text<'p, P> {
    /// Of `parts` the bytes behind `skip`, `most` at most.
    fn of(mut parts: &'p [P], mut skip: usize, most: usize) -> Text<'p, P> {
        while let [first, rest @ ..] = parts
            && skip >= first.len()
        {
            skip -= first.len();
            parts = rest;
        }
        let mut len = 0;
        for part in parts {
            len += part.len();
            if len - skip >= most {
                return Text { parts, skip, len: most };
            }
        }
        // With parts left the first one has more than is skipped.
        Text { parts, skip, len: if parts.is_empty() { 0 } else { len - skip } }
    }

    /// All of it, where it stands in one part.
    fn one(&self) -> Option<&'p [u8]> {
        self.parts.first()?.get(self.skip..self.skip + self.len)
    }

    fn gather(&self, mut out: &mut [u8]) {
        let mut skip = self.skip;
        for part in self.parts {
            let bytes = &part[skip..];
            let take = bytes.len().min(out.len());
            let (place, rest) = out.split_at_mut(take);
            place.copy_from_slice(&bytes[..take]);
            (out, skip) = (rest, 0);
        }
    }
}

#[cfg(test)]
mod tests;
