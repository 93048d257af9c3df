//! What publishers over HTTP/1.1 have in common: a connection that stays, and one answer on it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use client::{BodyLength, response_head};

/// The answer to one event, whole.
pub(crate) struct Answer {
    pub(crate) is_good: bool,
    /// Bytes of it.
    pub(crate) len: usize,
}

/// A connection that waits for nothing.
pub(crate) fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}

/// The answer that `bytes` begin with; `None` when it is not all there yet.
pub(crate) fn answer(bytes: &[u8]) -> Result<Option<Answer>, String> {
    let Some(head) = response_head(bytes).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let BodyLength::Known(body) = head.body else {
        return Err("an answer without a length".to_owned());
    };
    let len = head.head_len + body as usize;
    let is_good = (200..300).contains(&head.status) && !head.closes;
    Ok((bytes.len() >= len).then_some(Answer { is_good, len }))
}

/// How many digits a number has.
pub(crate) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |places| places as usize + 1)
}
