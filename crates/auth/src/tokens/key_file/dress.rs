//! Public keys and certificates in whatever dress: in DER, in base64 with its lines or without, in
//! hexadecimal digits, as ssh has them, in UTF-16. Everybody may know one, and whoever knows a
//! secret signs with it, so none of them is ever taken for a secret.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::{Decode, SliceReader, Tag, Tagged};
use zeroize::Zeroizing;

const PEM: &[u8] = b"-----BEGIN ";

/// base64 as people copy it: with its last characters or without, whatever is left in them.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Whether it is one value of DER from its first byte to its last, as keys (RFC 5280, RFC 8017) and
/// certificates are: a sequence that begins with another one or with a number. Of 4 billion random
/// secrets fewer than 400 are, and they are refused.
pub(super) fn is_der(bytes: &[u8]) -> bool {
    let Ok(whole) = AnyRef::from_der(bytes) else { return false };
    let first = SliceReader::new(whole.value()).and_then(|mut inside| AnyRef::decode(&mut inside));
    whole.tag() == Tag::Sequence
        && first.is_ok_and(|first| matches!(first.tag(), Tag::Sequence | Tag::Integer))
}

/// Whether there is PEM in it.
pub(super) fn is_pem(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, PEM).is_some()
}

/// Whether what looks like a secret is a key or a certificate in other clothes. What is looked at
/// may be a secret after all, so each copy is wiped and none grows.
pub(super) fn is_dressed_up(bytes: &[u8]) -> bool {
    match wide(bytes) {
        // UTF-16 hides it from whoever reads bytes.
        Some(text) => {
            let is_json = text.trim_start().starts_with('{');
            is_json || is_pem(text.as_bytes()) || holds_key(&text)
        }
        None => std::str::from_utf8(bytes).is_ok_and(holds_key),
    }
}

/// Whether one of the words of `text`, or all of them together, are a key or a certificate.
fn holds_key(text: &str) -> bool {
    let mut whole = Zeroizing::new(String::with_capacity(text.len()));
    text.split("\\n").flat_map(str::split_whitespace).for_each(|word| whole.push_str(word));
    // ssh has a word before the key, and words before and behind that.
    text.split_whitespace().chain([&**whole]).any(|word| {
        let word = word.trim_matches(|c| matches!(c, '"' | '\'' | ','));
        let inside = [unwrapped(word), of_hex(word)];
        inside.iter().flatten().any(|inside| is_der(inside) || is_pem(inside) || is_ssh(inside))
    })
}

/// UTF-16 with its byte order mark, as text without it.
fn wide(bytes: &[u8]) -> Option<Zeroizing<String>> {
    let of = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let units = bytes[2..].chunks_exact(2).map(|two| of([two[0], two[1]]));
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for decoded in char::decode_utf16(units) {
        text.push(decoded.ok()?);
    }
    Some(text)
}

/// What is in base64, in either alphabet (RFC 4648).
fn unwrapped(word: &str) -> Option<Zeroizing<Vec<u8>>> {
    let standard = |byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let word: Zeroizing<Vec<u8>> = Zeroizing::new(word.bytes().map(standard).collect());
    BASE64.decode(&*word).ok().map(Zeroizing::new)
}

/// What is in hexadecimal digits, with colons between the bytes or without, as `xxd -p` and OpenSSL
/// write it.
fn of_hex(word: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(word.len() / 2));
    let mut high = None;
    for character in word.chars().filter(|&character| character != ':') {
        let digit = character.to_digit(16)? as u8;
        match high.take() {
            Some(high) => bytes.push((high << 4) | digit),
            None => high = Some(digit),
        }
    }
    high.is_none().then_some(bytes)
}

/// Whether it is a key as ssh writes it: its type, after four bytes of length (RFC 4253, section
/// 6.6).
fn is_ssh(bytes: &[u8]) -> bool {
    let kinds: [&[u8]; 4] = [b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-"];
    matches!(bytes, [0, 0, 0, _, kind @ ..] if kinds.iter().any(|known| kind.starts_with(known)))
}
