//! Where a client that was away wants to go on.

/// The place in the order of events after which a client has heard nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cursor {
    /// After the event with this number.
    After(u64),
    /// After an event whose id is none of this server's. A header says so, which a browser fills in
    /// by itself: refusing it would make the browser give up, so the stream begins with a gap.
    Unknown,
}

impl Cursor {
    /// The value of a `Last-Event-ID` field. Empty is what a client has that heard no event yet.
    pub(super) fn of_field(value: &[u8]) -> Option<Cursor> {
        let parsed = || str::from_utf8(value).ok().and_then(number);
        (!value.is_empty()).then(|| parsed().map_or(Cursor::Unknown, Cursor::After))
    }
}

/// The number of the event whose id is `text`: 16 hexadecimal digits.
pub(super) fn number(text: &str) -> Option<u64> {
    let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex { u64::from_str_radix(text, 16).ok() } else { None }
}
