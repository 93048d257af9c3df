//! The list of servers as libketama reads it: one a line, its address, tabs or blanks, its memory.
//!
//! A line whose first character is `#` is a comment, an empty one is nothing. Where the original
//! takes what nobody can have meant, this parser does not follow it but says so, or reads what
//! stands there:
//!
//! | line | libketama | here |
//! | --- | --- | --- |
//! | the last one, without a line end | the memory loses its last digit | the memory as it stands |
//! | `10.0.1.1:11211 600 # old` | the memory loses its last digit | refused |
//! | `10.0.1.1:11211 600MB`, `-600` | 600, a number near 2^64 | refused |
//! | blanks only | refused | nothing |
//! | more than 126 bytes | read as several lines | one line |
//! | an address of more than 22 bytes | cut to 22, or refused | taken up to 255 bytes |
//!
//! Cost: one pass over the bytes, and an allocation for each server.

use thiserror::Error;

use crate::server::{Server, ServerError};

/// Characters of a word that an error quotes: enough to find it in its line.
const QUOTED_CHARS_MAX: usize = 60;

/// A list that cannot be read: in which line, and why.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {fault}")]
pub struct ListError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// Only comments may hold any bytes.
    #[error("these bytes are not UTF-8: save the list as plain text")]
    NotText,
    /// There is an address and nothing else.
    #[error("no memory after {0:?}: a line is an address, a tab or blanks, and a memory")]
    NoMemory(String),
    /// The second word is no number, or not one below 2^64.
    #[error("{0:?} is no memory: write a whole number from 1 on, in the unit of all lines")]
    BadMemory(String),
    /// There is a third word.
    #[error("{0:?} after the memory: one server a line; a comment's `#` is the first of its line")]
    Rest(String),
    /// Address and memory make no server.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Reads a list of servers. It may be empty, of which [`Continuum::new`](crate::Continuum::new)
/// makes an error.
///
/// A server that stands in it twice is taken twice, as the original does: it counts twice when the
/// others' shares are computed, and its points fall on each other.
pub fn parse(list: &[u8]) -> Result<Vec<Server>, ListError> {
    let mut servers = Vec::new();
    for (line, bytes) in (1..).zip(list.split(|&byte| byte == b'\n')) {
        servers.extend(parse_line(bytes).map_err(|fault| ListError { line, fault })?);
    }
    Ok(servers)
}

fn parse_line(line: &[u8]) -> Result<Option<Server>, Fault> {
    if line.starts_with(b"#") {
        return Ok(None);
    }
    let line = str::from_utf8(line).map_err(|_| Fault::NotText)?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let Some(address) = words.next() else { return Ok(None) };
    let Some(memory) = words.next() else { return Err(Fault::NoMemory(quoted(address))) };
    if let Some(rest) = words.next() {
        return Err(Fault::Rest(quoted(rest)));
    }
    let memory = memory.parse().map_err(|_| Fault::BadMemory(quoted(memory)))?;
    Ok(Some(Server::new(address, memory)?))
}

fn quoted(word: &str) -> String {
    word.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
