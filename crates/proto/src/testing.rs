//! What the tests of this room share.

pub(crate) use ::testing::{random_text as text, seeded};

/// The value of the field `name` of a head, which stands there once or not at all.
pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = fields.iter().filter(|field| field.0 == name);
    let value = values.next().map(|field| field.1.as_str());
    assert!(values.next().is_none(), "{name} stands twice");
    value
}
