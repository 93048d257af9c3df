//! The id that a client's connection has in each signature: two numbers with a point.

use std::fmt;

use thiserror::Error;

/// The id of one connection, unique for as long as a signature of it is of use. A server that knows
/// its connections by 64 bits drawn at random needs no more: they are its two halves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    /// The number before the point.
    pub first: u64,
    /// The number behind it.
    pub second: u64,
}

/// A text is no socket id: it is not digits, a point and digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("A socket id is digits, a point and digits, as 4711.815.")]
pub struct SocketIdFault;

impl SocketId {
    /// Reads one. `None` is one that no server of this kind gives: with zeros in front, or of a
    /// number that is too large. An event that leaves it out leaves out nobody.
    ///
    /// # Errors
    /// It is none of any server, so the sender of it is mistaken.
    pub fn parse(text: &str) -> Result<Option<SocketId>, SocketIdFault> {
        let (first, second) = text.split_once('.').ok_or(SocketIdFault)?;
        let is_digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(first) || !is_digits(second) {
            return Err(SocketIdFault);
        }
        // A signature is over the text, so two texts are never one connection.
        let number =
            |part: &str| part.parse().ok().filter(|_| part == "0" || !part.starts_with('0'));
        let both = number(first).zip(number(second));
        Ok(both.map(|(first, second)| SocketId { first, second }))
    }

    /// The id whose halves these bits are.
    pub fn of_bits(bits: u64) -> SocketId {
        SocketId { first: bits >> 32, second: bits & u64::from(u32::MAX) }
    }

    /// The bits whose halves it is; `None` of an id that was not made of any.
    pub fn bits(self) -> Option<u64> {
        let halves = u32::try_from(self.first).ok().zip(u32::try_from(self.second).ok());
        halves.map(|(first, second)| u64::from(first) << 32 | u64::from(second))
    }
}

impl fmt::Display for SocketId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.first, self.second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_that_was_written_is_read() {
        let mut random = fastrand::Rng::with_seed(testing::seed());
        for _ in 0..1_000 {
            let id = SocketId { first: random.u64(..) >> 11, second: random.u64(..) };
            assert_eq!(SocketId::parse(&id.to_string()), Ok(Some(id)));
            let bits = random.u64(..);
            assert_eq!(SocketId::of_bits(bits).bits(), Some(bits));
        }
        assert_eq!(SocketId { first: 1 << 32, second: 0 }.bits(), None);
        assert_eq!(SocketId { first: 0, second: 1 << 32 }.bits(), None);
    }

    #[test]
    fn foreign_id_is_told_from_no_id() {
        for foreign in ["01.2", "1.02", "99999999999999999999.1", "00.0"] {
            assert_eq!(SocketId::parse(foreign), Ok(None), "{foreign}");
        }
        for none in ["", ".", "1", "1.", ".1", "1.2.3", "-1.2", "1.2 ", "+1.2", "٣.1"] {
            assert_eq!(SocketId::parse(none), Err(SocketIdFault), "{none}");
        }
    }
}
