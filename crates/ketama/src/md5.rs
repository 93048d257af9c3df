//! MD5 (RFC 1321) of what is mostly short: one block, laid out in place.
//!
//! The digest of a key is most of a look-up. The hasher of the crate `md-5` copies what comes into
//! a buffer of its own and pads it there, for any length and number of pieces. A text of up to 55
//! bytes, as keys and the names of points are as a rule, needs neither.

use md5::block_api::compress;
use md5::{Digest, Md5};

/// Bytes that the function takes at a time.
const BLOCK_BYTES: usize = 64;

/// Where the length stands in the last block: what is before it is the text and a bit.
const LENGTH_AT: usize = BLOCK_BYTES - 8;

/// The state before the first block (RFC 1321, section 3.3).
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The digest of `text`, as its four words.
pub(crate) fn digest(text: &[u8]) -> [u32; 4] {
    if text.len() >= LENGTH_AT {
        let digest: [u8; 16] = Md5::digest(text).into();
        let (words, _) = digest.as_chunks::<4>();
        return [words[0], words[1], words[2], words[3]].map(u32::from_le_bytes);
    }
    let mut block = [0; BLOCK_BYTES];
    block[..text.len()].copy_from_slice(text);
    block[text.len()] = 0x80;
    block[LENGTH_AT..].copy_from_slice(&(8 * text.len() as u64).to_le_bytes());
    let mut state = START;
    compress(&mut state, &[block]);
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_crate_at_every_length() {
        for len in 0..200 {
            let text: Vec<u8> = (0..len).collect();
            let expected: [u8; 16] = Md5::digest(&text).into();
            assert_eq!(digest(&text).map(u32::to_le_bytes).concat(), expected, "{len} bytes");
        }
    }
}
