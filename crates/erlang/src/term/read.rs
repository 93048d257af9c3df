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

/// The longest reference, in words, as OTP has it (`ERTS_MAX_REF_NUMBERS`).
const REFERENCE_WORDS_MAX: usize = 5;

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
        let chars = if latin1 { Some(len) } else { utf8_chars(bytes) };
        if chars.is_none_or(|chars| chars > ATOM_CHARS_MAX) {
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
        if words > REFERENCE_WORDS_MAX {
            return Err(Malformed::Content);
        }
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

    /// What follows a tag. Of terms with others in them, how many there are.
    fn head(&mut self) -> Result<Head<'a>, Malformed> {
        Ok(Head::Leaf(match self.u8()? {
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
            tag::SMALL_TUPLE => return Ok(Head::Tuple(self.u8()?.into())),
            tag::LARGE_TUPLE => return Ok(Head::Tuple(self.len()?)),
            tag::LIST => return Ok(Head::List(self.len()?)),
            tag::MAP => return Ok(Head::Map(self.len()?)),
            tag @ (tag::NEW_PID | tag::PID) => View::Pid(self.pid(tag == tag::PID)?),
            tag @ (tag::NEWER_REFERENCE | tag::NEW_REFERENCE) => {
                View::Reference(self.reference(tag == tag::NEW_REFERENCE)?)
            }
            tag @ (tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8) => {
                View::Atom(self.atom_of(tag)?)
            }
            tag::EXPORT => return Ok(Head::Export),
            tag => {
                self.pass_over(tag)?;
                View::Opaque
            }
        }))
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

/// How many characters the text in `bytes` has; `None` if it is none.
fn utf8_chars(bytes: &[u8]) -> Option<usize> {
    // What is longer cannot be an atom, and is not counted.
    let bytes = bytes.get(..=4 * ATOM_CHARS_MAX).unwrap_or(bytes);
    str::from_utf8(bytes).ok().map(|text| text.chars().count())
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

/// What a term begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head<'a> {
    /// A whole term, without others in it.
    Leaf(View<'a>),
    /// So many elements follow.
    Tuple(usize),
    /// So many elements and a tail follow.
    List(usize),
    /// So many keys and values follow in turn.
    Map(usize),
    /// A module, a function and an arity follow.
    Export,
}

impl Head<'_> {
    /// How many terms follow it. A length has 32 bits, so nothing overflows.
    fn inside(&self) -> usize {
        match *self {
            Head::Leaf(_) => 0,
            Head::Tuple(len) => len,
            Head::List(len) => len + 1,
            Head::Map(len) => 2 * len,
            Head::Export => 3,
        }
    }
}

/// The heads of a term and of all terms in it, in the order in which they were sent: the way to go
/// through a term of any depth in one pass, without recursion.
pub(super) struct Heads<'a>(Input<'a>);

impl<'a> Heads<'a> {
    /// The next one. There is one for as long as the heads before announce one.
    pub(super) fn next(&mut self) -> Head<'a> {
        loop {
            match self.0.head().expect("a term is checked when it is read") {
                // A list of nothing is its tail, as OTP reads it. No node sends one.
                Head::List(0) => {}
                head => return head,
            }
        }
    }
}

impl<'a> Term<'a> {
    /// Takes one term off the front of `bytes`; `bytes` stays as it is when there is none.
    pub fn read(bytes: &mut &'a [u8]) -> Result<Term<'a>, Malformed> {
        let mut input = Input(bytes);
        let mut pending = 1_usize;
        while pending > 0 {
            pending = pending - 1 + input.head()?.inside();
            // Each term has a byte at least, so a count that lies ends the loop here.
            if pending > input.0.len() {
                return Err(Malformed::Short);
            }
        }
        let (term, rest) = bytes.split_at(bytes.len() - input.0.len());
        *bytes = rest;
        Ok(Term(term))
    }

    /// What it is. The elements of a list are passed over to find its tail.
    pub fn view(self) -> View<'a> {
        let mut heads = self.heads();
        let head = heads.next();
        let elements = |left| Terms { rest: heads.0.0, left };
        match head {
            Head::Leaf(view) => view,
            Head::Tuple(len) => View::Tuple(elements(len)),
            Head::Map(len) => View::Map(elements(2 * len)),
            Head::List(len) => {
                let mut behind = elements(len);
                behind.by_ref().for_each(drop);
                View::List(elements(len), Term(behind.rest))
            }
            Head::Export => View::Opaque,
        }
    }

    pub(super) fn heads(self) -> Heads<'a> {
        Heads(Input(self.0))
    }
}
