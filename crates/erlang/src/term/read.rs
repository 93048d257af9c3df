//! Reading terms: one pass that checks, and views that cannot fail after it.

use super::name::{Atom, Pid, Reference};
use super::{Malformed, Term, Terms, View};

/// The tags of the format, under the names that its documentation gives them.
pub(super) mod tag {
    pub(crate) const NEW_FLOAT: u8 = 70;
    pub(crate) const BIT_BINARY: u8 = 77;
    pub(crate) const NEW_PID: u8 = 88;
    pub(crate) const NEW_PORT: u8 = 89;
    pub(crate) const NEWER_REFERENCE: u8 = 90;
    pub(crate) const SMALL_INTEGER: u8 = 97;
    pub(crate) const INTEGER: u8 = 98;
    pub(crate) const FLOAT: u8 = 99;
    pub(crate) const ATOM: u8 = 100;
    pub(crate) const PORT: u8 = 102;
    pub(crate) const PID: u8 = 103;
    pub(crate) const SMALL_TUPLE: u8 = 104;
    pub(crate) const LARGE_TUPLE: u8 = 105;
    pub(crate) const NIL: u8 = 106;
    pub(crate) const STRING: u8 = 107;
    pub(crate) const LIST: u8 = 108;
    pub(crate) const BINARY: u8 = 109;
    pub(crate) const SMALL_BIG: u8 = 110;
    pub(crate) const LARGE_BIG: u8 = 111;
    pub(crate) const NEW_FUN: u8 = 112;
    pub(crate) const EXPORT: u8 = 113;
    pub(crate) const NEW_REFERENCE: u8 = 114;
    pub(crate) const SMALL_ATOM: u8 = 115;
    pub(crate) const MAP: u8 = 116;
    pub(crate) const ATOM_UTF8: u8 = 118;
    pub(crate) const SMALL_ATOM_UTF8: u8 = 119;
    pub(crate) const V4_PORT: u8 = 120;
}

/// The longest atom, in characters.
const ATOM_CHARS_MAX: usize = 255;

/// Bytes that are taken from the front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<usize, Malformed> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn len(&mut self) -> Result<usize, Malformed> {
        Ok(self.u32()? as usize)
    }

    fn atom(&mut self) -> Result<Atom<'a>, Malformed> {
        let tag = self.u8()?;
        self.atom_of(tag)
    }

    fn atom_of(&mut self, tag: u8) -> Result<Atom<'a>, Malformed> {
        let (len, latin1) = match tag {
            tag::ATOM => (self.u16()?, true),
            tag::SMALL_ATOM => (self.u8()?.into(), true),
            tag::ATOM_UTF8 => (self.u16()?, false),
            tag::SMALL_ATOM_UTF8 => (self.u8()?.into(), false),
            other => return Err(Malformed::Tag(other)),
        };
        let bytes = self.bytes(len)?;
        let is_text = latin1 && len <= ATOM_CHARS_MAX
            || !latin1 && str::from_utf8(bytes).is_ok_and(|text| text.len() <= 4 * ATOM_CHARS_MAX);
        if !is_text {
            return Err(Malformed::Content);
        }
        Ok(Atom { bytes, latin1 })
    }

    /// A creation has become four bytes; the old tags have one.
    fn creation(&mut self, old: bool) -> Result<u32, Malformed> {
        if old { Ok(self.u8()?.into()) } else { self.u32() }
    }

    fn pid(&mut self, old: bool) -> Result<Pid<'a>, Malformed> {
        let node = self.atom()?;
        let (id, serial) = (self.u32()?, self.u32()?);
        Ok(Pid { node, id, serial, creation: self.creation(old)? })
    }

    fn reference(&mut self, old: bool) -> Result<Reference<'a>, Malformed> {
        let words = self.u16()?;
        let node = self.atom()?;
        let creation = self.creation(old)?;
        Ok(Reference { node, creation, words: self.bytes(4 * words)? })
    }

    fn big(&mut self, len: usize) -> Result<(bool, &'a [u8]), Malformed> {
        Ok((self.u8()? != 0, self.bytes(len)?))
    }

    fn old_float(&mut self) -> Result<f64, Malformed> {
        let text = str::from_utf8(self.bytes(31)?).map_err(|_| Malformed::Content)?;
        text.trim_end_matches('\0').parse().map_err(|_| Malformed::Content)
    }

    fn port(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.atom()?;
        self.bytes(bytes).map(drop)
    }

    /// What follows a tag, and how many terms follow that.
    fn head(&mut self) -> Result<(View<'a>, usize), Malformed> {
        let none = Terms { rest: &[], left: 0 };
        let view = match self.u8()? {
            tag::SMALL_INTEGER => View::Integer(self.u8()?.into()),
            tag::INTEGER => View::Integer(i32::from_be_bytes(self.array()?).into()),
            tag::SMALL_BIG => {
                let len = self.u8()?.into();
                view_of_big(self.big(len)?)
            }
            tag::LARGE_BIG => {
                let len = self.len()?;
                view_of_big(self.big(len)?)
            }
            tag::NEW_FLOAT => View::Float(f64::from_be_bytes(self.array()?)),
            tag::FLOAT => View::Float(self.old_float()?),
            tag::BINARY => {
                let len = self.len()?;
                View::Binary(self.bytes(len)?)
            }
            tag::STRING => {
                let len = self.u16()?;
                View::Bytes(self.bytes(len)?)
            }
            tag::NIL => View::Nil,
            tag::SMALL_TUPLE => {
                let arity = self.u8()?.into();
                return Ok((View::Tuple(none), arity));
            }
            tag::LARGE_TUPLE => return Ok((View::Tuple(none), self.len()?)),
            tag::LIST => return Ok((View::List(none, Term(&[])), self.len()? + 1)),
            tag::MAP => return Ok((View::Map(none), 2 * self.len()?)),
            tag @ (tag::NEW_PID | tag::PID) => View::Pid(self.pid(tag == tag::PID)?),
            tag @ (tag::NEWER_REFERENCE | tag::NEW_REFERENCE) => {
                View::Reference(self.reference(tag == tag::NEW_REFERENCE)?)
            }
            tag @ (tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8) => {
                View::Atom(self.atom_of(tag)?)
            }
            // Module, function and arity are terms of their own.
            tag::EXPORT => return Ok((View::Opaque, 3)),
            tag => {
                self.pass_over(tag)?;
                View::Opaque
            }
        };
        Ok((view, 0))
    }

    /// What Encke has no use for.
    fn pass_over(&mut self, tag: u8) -> Result<(), Malformed> {
        match tag {
            tag::PORT => self.port(5),
            tag::NEW_PORT => self.port(8),
            tag::V4_PORT => self.port(12),
            tag::BIT_BINARY => {
                let len = self.len()?;
                self.bytes(1 + len).map(drop)
            }
            tag::NEW_FUN => {
                // The length counts its own four bytes.
                let len = self.len()?.checked_sub(4).ok_or(Malformed::Content)?;
                self.bytes(len).map(drop)
            }
            tag => Err(Malformed::Tag(tag)),
        }
    }
}

/// Numbers of 64 bits are sent as big ones too.
fn view_of_big((negative, magnitude): (bool, &[u8])) -> View<'_> {
    let significant = magnitude.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let magnitude = &magnitude[..significant];
    if magnitude.len() <= 8 {
        let mut bytes = [0; 8];
        bytes[..magnitude.len()].copy_from_slice(magnitude);
        let value = i128::from(u64::from_le_bytes(bytes));
        if let Ok(value) = i64::try_from(if negative { -value } else { value }) {
            return View::Integer(value);
        }
    }
    View::Big(negative, magnitude)
}

impl<'a> Term<'a> {
    /// Takes one term off the front of `bytes`; `bytes` stays as it is when there is none.
    pub fn read(bytes: &mut &'a [u8]) -> Result<Term<'a>, Malformed> {
        let mut input = Input(bytes);
        let mut pending = 1_usize;
        while pending > 0 {
            let (_, inside) = input.head()?;
            pending = pending - 1 + inside;
            // Each term has a byte at least, so a count that lies ends the loop here.
            if pending > input.0.len() {
                return Err(Malformed::Short);
            }
        }
        let (term, rest) = bytes.split_at(bytes.len() - input.0.len());
        *bytes = rest;
        Ok(Term(term))
    }

    /// What it is.
    pub fn view(self) -> View<'a> {
        let mut input = Input(self.0);
        let (view, inside) = input.head().expect("a term is checked when it is read");
        let elements = Terms { rest: input.0, left: inside };
        match view {
            View::Tuple(_) => View::Tuple(elements),
            View::Map(_) => View::Map(elements),
            View::List(..) if inside == 1 => {
                // A list of none but its tail, which no node sends.
                Term(input.0).view()
            }
            View::List(..) => {
                let mut elements = Terms { left: inside - 1, ..elements };
                let all = elements;
                elements.by_ref().for_each(drop);
                View::List(all, Term(elements.rest))
            }
            other => other,
        }
    }
}
