//! Where a stream is resumed, in few bytes: the id of the event that its listener heard last, or
//! the longer place that a server tells whose gap ends behind it.

use std::fmt;

/// An event's id, or a place; both of the lengths that Encke's have. What it says is nobody's
/// business.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cursor {
    Id([u8; 16]),
    /// Rare, so it stands elsewhere.
    Place(Box<[u8; 27]>),
}

impl Cursor {
    /// Takes note of an id or a place that can stand in a header and in a query as it is.
    pub(super) fn read(text: &[u8]) -> Option<Cursor> {
        if !text.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let id = text.try_into().map(Cursor::Id);
        id.or_else(|_| text.try_into().map(|place| Cursor::Place(Box::new(place)))).ok()
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: &[u8] = match self {
            Cursor::Id(id) => id,
            Cursor::Place(place) => &**place,
        };
        f.write_str(str::from_utf8(text).expect("letters and digits are ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_places_are_told_as_they_came() {
        for text in ["2F7NAE26uSeW7eeX", "2F7NAE26uSeW7eeX2F7NAE26uSe"] {
            assert_eq!(Cursor::read(text.as_bytes()).unwrap().to_string(), text);
        }
        for text in ["", "2F7NAE26uSeW7ee", "2F7NAE26uSeW7eeX2F7NAE26uSe0", "2F7NAE26uSeW7ee\r"] {
            assert_eq!(Cursor::read(text.as_bytes()), None);
        }
    }
}
