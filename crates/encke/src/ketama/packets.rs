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
            // Nothing waits in here, so the list's owner waits for no more than this.
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
mod tests;
