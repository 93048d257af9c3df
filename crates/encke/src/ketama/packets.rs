//! Packets with a length of one byte, as Erlang's `{packet, 1}` has them: keys in, addresses out.
//!
//! A read takes what has come, up to 64 KiB; all whole packets of it are answered with one write,
//! so a sender that does not wait for each answer pays two system calls for thousands of keys. Two
//! buffers, each bounded: a sender that does not read its answers stops being read.

use std::io::{self, ErrorKind, Read, Write};

use anyhow::Result;
use ketama::Continuum;
use thiserror::Error;
use tokio::sync::watch;

use crate::console::OutputError;

/// What a read takes at most, and at how much a write leaves.
const BATCH_BYTES: usize = 64 * 1024;

/// The longest packet: its length, and so many bytes.
const PACKET_BYTES_MAX: usize = 1 + u8::MAX as usize;

/// Why keys came to a bad end.
#[derive(Debug, Error)]
pub(crate) enum PacketsError {
    #[error("cannot read standard input: {0}")]
    Read(io::Error),
    #[error(
        "standard input ended within a packet, {got} of {whole} bytes into it: write each key as \
         one byte that tells its length, and so many bytes"
    )]
    Half { got: usize, whole: usize },
}

/// Answers the keys of `input` on `output` until `input` ends between two packets. Each is looked
/// up in the continuum that holds when its batch is answered.
pub(crate) fn answer_all(
    input: &mut impl Read,
    output: &mut impl Write,
    continuum: &watch::Receiver<Continuum>,
) -> Result<()> {
    let mut keys = vec![0; BATCH_BYTES];
    let mut answers = Vec::with_capacity(BATCH_BYTES + PACKET_BYTES_MAX);
    let mut filled = 0;
    loop {
        match input.read(&mut keys[filled..]) {
            Ok(0) => return Ok(ended(&keys[..filled])?),
            Ok(len) => filled += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(PacketsError::Read(error).into()),
        }
        let mut taken = 0;
        loop {
            // Nothing waits in here, so the list's keeper waits for no more than this.
            taken += answer(&continuum.borrow(), &keys[taken..filled], &mut answers);
            if answers.is_empty() {
                break;
            }
            output.write_all(&answers).map_err(OutputError::from)?;
            answers.clear();
        }
        // The beginning of the next packet: less than a packet, so the next read has room.
        keys.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Answers whole packets at the beginning of `keys` until there is none or a batch of answers is
/// full. Returns how many bytes they were.
fn answer(continuum: &Continuum, keys: &[u8], answers: &mut Vec<u8>) -> usize {
    let mut rest = keys;
    while answers.len() < BATCH_BYTES
        && let Some((&len, after)) = rest.split_first()
        && let Some((key, after)) = after.split_at_checked(len.into())
    {
        let address = continuum.server(key).address();
        answers.push(u8::try_from(address.len()).expect("an address has at most 255 bytes"));
        answers.extend_from_slice(address.as_bytes());
        rest = after;
    }
    keys.len() - rest.len()
}

/// What the end of the input means when `rest` was not answered.
fn ended(rest: &[u8]) -> Result<(), PacketsError> {
    match rest.first() {
        None => Ok(()),
        Some(&len) => Err(PacketsError::Half { got: rest.len(), whole: 1 + usize::from(len) }),
    }
}

#[cfg(test)]
mod tests {
    use ketama::parse;

    use super::*;

    fn continuum() -> watch::Receiver<Continuum> {
        let list = format!("a:1 1\n{} 1\nc:1 5\n", "b".repeat(255));
        watch::channel(Continuum::new(&parse(list.as_bytes()).unwrap()).unwrap()).1
    }

    /// What comes, so many bytes at a time.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            let (piece, rest) = self.0.split_at(len);
            buffer[..len].copy_from_slice(piece);
            self.0 = rest;
            Ok(len)
        }
    }

    fn packet(key: &[u8]) -> Vec<u8> {
        [&[u8::try_from(key.len()).unwrap()], key].concat()
    }

    #[test]
    fn answers_are_the_same_however_keys_are_split() {
        let continuum = continuum();
        let keys: Vec<Vec<u8>> = (0..=255).map(|len| vec![b'k'; len]).collect();
        let input: Vec<u8> = keys.iter().flat_map(|key| packet(key)).collect();
        let expected: Vec<u8> = keys
            .iter()
            .flat_map(|key| packet(continuum.borrow().server(key).address().as_bytes()))
            .collect();
        for size in [1, 2, 3, 255, 256, 257, 1000, BATCH_BYTES] {
            let mut output = Vec::new();
            answer_all(&mut Pieces(&input, size), &mut output, &continuum).unwrap();
            assert!(output == expected, "in pieces of {size}");
        }
    }

    #[test]
    fn short_keys_with_long_answers_do_not_grow_the_buffer() {
        struct Writes(usize, usize);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.max(bytes.len());
                self.1 += bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let list = format!("{} 1\n", "b".repeat(255));
        let only = Continuum::new(&parse(list.as_bytes()).unwrap()).unwrap();
        let (_sender, continuum) = watch::channel(only);
        let mut writes = Writes(0, 0);
        answer_all(&mut &[0; 100_000][..], &mut writes, &continuum).unwrap();
        assert!(writes.0 <= BATCH_BYTES + PACKET_BYTES_MAX);
        assert_eq!(writes.1, 100_000 * 256);
    }

    #[test]
    fn half_a_packet_at_the_end_is_told() {
        for (input, got, whole) in [(&b"\x01a\x03bc"[..], 3, 4), (b"\x05", 1, 6)] {
            let mut output = Vec::new();
            let error = answer_all(&mut &input[..], &mut output, &continuum()).unwrap_err();
            let error: PacketsError = error.downcast().unwrap();
            assert!(
                matches!(error, PacketsError::Half { got: g, whole: w } if (g, w) == (got, whole))
            );
            assert_eq!(output.is_empty(), got == 1, "what was whole is answered");
        }
    }
}
