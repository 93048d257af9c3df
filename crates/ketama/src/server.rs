//! A server as the continuum knows it: a name and a weight.
//!
//! The name is hashed as it stands and never looked up. The rules for it keep a list readable and
//! an answer short. Libketama has none but that it cuts at 22 bytes.

use thiserror::Error;

/// The longest address, in bytes: what the port protocol's one byte of length can tell.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// A server: its address and its memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    address: Box<str>,
    memory: u64,
}

/// Why an address and a memory make no server.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ServerError {
    /// There is nothing to hash.
    #[error("an address must not be empty: write it as host:port")]
    NoAddress,
    /// Over [`ADDRESS_BYTES_MAX`].
    #[error("an address has at most {ADDRESS_BYTES_MAX} bytes, this one has {0}: shorten it")]
    AddressTooLong(usize),
    /// White space or a control character, or a byte order mark that an editor left.
    #[error("an address must not contain {0:?}: take it out")]
    AddressForbids(char),
    /// It would read as a comment in a list.
    #[error("an address must not begin with `#`: a comment's `#` is the first of its line")]
    AddressIsComment,
    /// It would get no point.
    #[error("a server's memory must not be 0: give it its share, or leave the server out")]
    NoMemory,
}

impl Server {
    /// The server at `address`, which is `host:port` by custom, with `memory` in any unit: only the
    /// ratio to the other servers' counts.
    pub fn new(address: &str, memory: u64) -> Result<Server, ServerError> {
        if address.is_empty() {
            return Err(ServerError::NoAddress);
        }
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(ServerError::AddressTooLong(address.len()));
        }
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
        if let Some(c) = address.chars().find(|&c| forbidden(c)) {
            return Err(ServerError::AddressForbids(c));
        }
        if address.starts_with('#') {
            return Err(ServerError::AddressIsComment);
        }
        if memory == 0 {
            return Err(ServerError::NoMemory);
        }
        Ok(Server { address: address.into(), memory })
    }

    /// Its name, which its points are hashed from.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The weight of the server, by its memory.
    pub fn memory(&self) -> u64 {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_any_word_that_a_list_and_an_answer_can_hold() {
        let longest = "a".repeat(ADDRESS_BYTES_MAX);
        for address in ["10.0.1.1:11211", "cache-é:1", "a#b", &longest] {
            assert_eq!(Server::new(address, 1).unwrap().address(), address);
        }
        assert_eq!(Server::new("", 1), Err(ServerError::NoAddress));
        let long = format!("{longest}a");
        assert_eq!(Server::new(&long, 1), Err(ServerError::AddressTooLong(256)));
        for c in [' ', '\t', '\n', '\0', '\u{7f}', '\u{85}', '\u{a0}', '\u{feff}'] {
            assert_eq!(Server::new(&format!("a{c}"), 1), Err(ServerError::AddressForbids(c)));
        }
        assert_eq!(Server::new("#a", 1), Err(ServerError::AddressIsComment));
    }

    #[test]
    fn memory_is_any_number_but_none() {
        assert_eq!(Server::new("a", 0), Err(ServerError::NoMemory));
        assert_eq!(Server::new("a", u64::MAX).unwrap().memory(), u64::MAX);
    }
}
