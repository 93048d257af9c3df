//! The keys of blocks: under which a list's blocks stand, in the order of their subjects and ids.

use std::borrow::Cow;

use heed::{BoxedError, BytesDecode, BytesEncode};
use hub::Id;

/// Subject and lowest id, both big-endian: LMDB's order of bytes is the order of both.
pub(super) type Key = [u8; 16];

/// The key of `subject`'s block for the ids from `low` on.
pub(super) fn key(subject: Id, low: u64) -> Key {
    (u128::from(subject.to_bits()) << 64 | u128::from(low)).to_be_bytes()
}

pub(super) fn subject_of(key: &Key) -> Id {
    Id::from_bits((u128::from_be_bytes(*key) >> 64) as u64)
}

/// How LMDB takes and gives a [`Key`]: as it is. Another length means a damaged file.
pub(super) enum KeyCodec {}

impl<'a> BytesEncode<'a> for KeyCodec {
    type EItem = Key;

    fn bytes_encode(key: &'a Key) -> Result<Cow<'a, [u8]>, BoxedError> {
        Ok(Cow::Borrowed(key))
    }
}

impl BytesDecode<'_> for KeyCodec {
    type DItem = Key;

    fn bytes_decode(bytes: &[u8]) -> Result<Key, BoxedError> {
        Ok(bytes.try_into()?)
    }
}
