//! The fields of a query or of a form (WHATWG URL, section 5.1).

use std::borrow::Cow;

use crate::Refusal;
use crate::limits::FIELDS_MAX;

/// The names and values of a query or a body, decoded, in their order. Bytes that are no UTF-8 are
/// replaced, as every form does.
#[derive(Default)]
pub(crate) struct Fields<'f>(Vec<(Cow<'f, str>, Cow<'f, str>)>);

impl<'f> Fields<'f> {
    /// Reads them.
    ///
    /// # Errors
    /// There are more than any request has.
    pub(crate) fn read(text: &'f [u8]) -> Result<Fields<'f>, Refusal> {
        let fields: Vec<_> = form_urlencoded::parse(text).take(FIELDS_MAX + 1).collect();
        if fields.len() > FIELDS_MAX { Err(Refusal::TooManyFields) } else { Ok(Fields(fields)) }
    }

    /// All fields.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The values of one name.
    pub(crate) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.iter().filter(move |&(known, _)| known == name).map(|(_, value)| value)
    }

    /// The first value of one name.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}
