//! Terms in Erlang's external format, read in place and written to a buffer.
//!
//! A [`Term`] is a slice of a received frame that is known to hold exactly one well-formed term, so
//! looking into it cannot fail and copies nothing. What Encke has no use for (funs, ports, bit
//! strings) is passed over. Compressed terms and the atom cache are not read: nodes send neither to
//! one that does not ask for them.
//!
//! Standard: "External Term Format" in the documentation of Erlang's run-time system (ERTS), as OTP
//! 25 to 27 write it. Cost: reading a term is one pass over its bytes without recursion or
//! allocation. Going through the elements of a tuple, a list or a map is one more. Nothing here
//! recurses with a term, so its depth is bounded by its length alone. What becomes JSON or text is
//! at most 128 terms deep, since those who read JSON do recurse.

mod json;
mod name;
mod read;
pub mod write;

#[cfg(test)]
mod tests;

use thiserror::Error;

pub use json::{NoJson, is_text_list, push_json, push_string, push_text, write_json};
pub use name::{Atom, Pid, Reference};

/// The first byte of a term that stands alone.
pub const VERSION: u8 = 131;

/// Bytes that are no term, or end within one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Malformed {
    /// The frame ends before the term does.
    #[error("a term is cut short")]
    Short,
    /// A tag that is unknown, or one that we did not offer to read.
    #[error("a term has the tag {0}")]
    Tag(u8),
    /// An atom that is no text, or a length that cannot be.
    #[error("a term holds what its tag does not allow")]
    Content,
    /// Something else than a term's version, or a control message of another shape.
    #[error("no control message of the distribution protocol")]
    Control,
}

/// One well-formed term, without its version byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term<'a>(&'a [u8]);

/// What a term is, and what is in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum View<'a> {
    /// An integer that fits.
    Integer(i64),
    /// A greater one: whether it is negative, and its magnitude, least byte first.
    Big(bool, &'a [u8]),
    /// A number that is not whole, or may not be.
    Float(f64),
    /// A name of the language or of the program.
    Atom(Atom<'a>),
    /// Bytes.
    Binary(&'a [u8]),
    /// A list of bytes, which is how short strings are sent.
    Bytes(&'a [u8]),
    /// The empty list.
    Nil,
    /// A list of at least one element and what stands behind the last one, nil nearly always.
    List(Terms<'a>, Term<'a>),
    /// A tuple.
    Tuple(Terms<'a>),
    /// A map: its keys and values in turn.
    Map(Terms<'a>),
    /// A process.
    Pid(Pid<'a>),
    /// A unique value.
    Reference(Reference<'a>),
    /// A fun, a port, or bits that are not whole bytes.
    Opaque,
}

/// The terms that stand one after the other in a tuple, a list or a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Term<'a> {
    /// The atom, if it is one.
    pub fn atom(self) -> Option<Atom<'a>> {
        match self.view() {
            View::Atom(atom) => Some(atom),
            _ => None,
        }
    }

    /// The process, if it is one.
    pub fn pid(self) -> Option<Pid<'a>> {
        match self.view() {
            View::Pid(pid) => Some(pid),
            _ => None,
        }
    }

    /// The elements, if it is a tuple of so many.
    pub fn tuple<const N: usize>(self) -> Option<[Term<'a>; N]> {
        let View::Tuple(mut elements) = self.view() else { return None };
        if elements.left != N {
            return None;
        }
        Some(std::array::from_fn(|_| elements.next().expect("as many as were counted")))
    }

    /// The elements, if it is a proper list.
    pub fn list(self) -> Option<Terms<'a>> {
        match self.view() {
            View::Nil => Some(Terms { rest: &[], left: 0 }),
            View::List(elements, tail) if tail.view() == View::Nil => Some(elements),
            _ => None,
        }
    }

    /// The term as it was sent, without its version byte.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Terms<'a> {
    type Item = Term<'a>;

    fn next(&mut self) -> Option<Term<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(Term::read(&mut self.rest).expect("what is in a well-formed term is well-formed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Terms<'_> {}
