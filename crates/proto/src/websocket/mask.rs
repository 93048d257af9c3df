//! This is masking (RFC 6455, section 5.3). Each byte of a client's payload is combined with one of
//! four key bytes by exclusive or, so that no client can choose what bytes a proxy on the way sees.
//!
//! Eight bytes at a time, which the compiler widens to the machine's vectors.

/// Masks or unmasks `bytes` in place; the first of them is combined with `key[0]`. Returns the key
/// for the byte after the last: the same one, turned.
pub(crate) fn apply(bytes: &mut [u8], key: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let turn = bytes.len() % 4;
    let (words, tail) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
    let mut turned = key;
    turned.rotate_left(turn);
    turned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Section 5.3, as it is written.
    fn naive(bytes: &[u8], key: [u8; 4]) -> Vec<u8> {
        bytes.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]).collect()
    }

    #[test]
    fn masking_in_any_pieces_is_masking_at_once() {
        testing::seeded(500, |rng| {
            let key = rng.u32(..).to_ne_bytes();
            let bytes: Vec<u8> = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
            let mut masked = bytes.clone();
            let (mut rest, mut turned) = (&mut masked[..], key);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at_mut(rng.usize(1..=rest.len().min(40)));
                turned = apply(piece, turned);
                rest = after;
            }
            assert_eq!(masked, naive(&bytes, key));
            apply(&mut masked, key);
            assert_eq!(masked, bytes);
        });
    }
}
