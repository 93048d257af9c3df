//! Which format the `Accept` lines of a request ask for (RFC 9110, section 12.5.1).
//!
//! Each format on offer takes its weight from the most specific range that covers it, whatever
//! the order of the ranges. The heaviest wins; among equals the one that was named more
//! specifically, so that `text/event-stream, */*` means SSE; then NDJSON, the default. Parameters
//! other than the weight do not matter. A range that cannot be read is passed over: a field of such
//! ranges alone is as good as none. What Java's client says of itself, `*; q=.2, */*; q=.2`, is
//! read as it is meant.

use crate::Format;

/// What a line of JSON after the other is called in `application/…`, ours first. None of the names
/// is registered.
pub const NDJSON_SUBTYPES: [&str; 4] = ["x-ndjson", "ndjson", "jsonl", "x-jsonlines"];

/// A weight in thousandths, 0 (never) to 1000.
type Weight = u16;

/// How exactly a range names a type; later variants name it more exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Precision {
    Everything,
    Kind,
    Exact,
}

#[derive(Clone, Copy)]
struct Offer {
    format: Format,
    kind: &'static [u8],
    /// All names that it goes by.
    subtypes: &'static [&'static str],
    /// The most precise range so far that covers it, and that range's weight.
    asked: Option<(Precision, Weight)>,
}

/// What a request's `Accept` lines amount to.
pub(super) struct Accept {
    /// The default first.
    offers: [Offer; 2],
    /// Whether there was any range that can be read: a client without one takes everything.
    specified: bool,
}

impl Default for Accept {
    fn default() -> Accept {
        let offer = |format, kind, subtypes| Offer { format, kind, subtypes, asked: None };
        let ndjson = offer(Format::Ndjson, b"application", &NDJSON_SUBTYPES);
        let sse = offer(Format::Sse, b"text", &["event-stream"]);
        Accept { offers: [ndjson, sse], specified: false }
    }
}

impl Accept {
    /// Takes in one `Accept` line; several are as good as one with commas.
    pub(super) fn read_line(&mut self, value: &[u8]) {
        for element in split_unquoted(value, b',') {
            let element = element.trim_ascii();
            self.specified |= self.read_range(element).is_some();
        }
    }

    /// Nothing where it cannot be read.
    fn read_range(&mut self, element: &[u8]) -> Option<()> {
        let mut parts = split_unquoted(element, b';').map(<[u8]>::trim_ascii);
        let range = match parts.next()? {
            b"*" => b"*/*",
            range => range,
        };
        let slash = range.iter().position(|&byte| byte == b'/')?;
        let (kind, subtype) = (&range[..slash], &range[slash + 1..]);
        let is_range = !kind.is_empty() && !subtype.is_empty() && (kind != b"*" || subtype == b"*");
        let mut weight = 1000;
        for part in parts {
            if let [b'q' | b'Q', b'=', text @ ..] = part {
                weight = parse_weight(text)?;
            }
        }
        debug_assert!(weight <= 1000, "no weight is above 1");
        for offer in &mut self.offers {
            if let Some(precision) = offer.covered_by(kind, subtype) {
                // Of two ranges that are alike, the heavier: the client takes it one way or other.
                offer.asked = offer.asked.max(Some((precision, weight)));
            }
        }
        is_range.then_some(())
    }

    /// The format to serve; `None` when the client takes none that there is.
    pub(super) fn best(&self) -> Option<Format> {
        if !self.specified {
            return Some(self.offers[0].format);
        }
        let mut best = None;
        for offer in &self.offers {
            let Some((precision, weight)) = offer.asked else { continue };
            if weight > 0 && best.is_none_or(|(rank, _)| (weight, precision) > rank) {
                best = Some(((weight, precision), offer.format));
            }
        }
        best.map(|(_, format)| format)
    }
}

impl Offer {
    fn covered_by(&self, kind: &[u8], subtype: &[u8]) -> Option<Precision> {
        if kind == b"*" && subtype == b"*" {
            return Some(Precision::Everything);
        }
        if !kind.eq_ignore_ascii_case(self.kind) {
            return None;
        }
        if subtype == b"*" {
            return Some(Precision::Kind);
        }
        let mut names = self.subtypes.iter().map(|name| name.as_bytes());
        names.any(|name| subtype.eq_ignore_ascii_case(name)).then_some(Precision::Exact)
    }
}

/// RFC 9110, section 12.4.2: `0` or `1`, and up to three decimals. Java's client leaves the `0`
/// out.
fn parse_weight(text: &[u8]) -> Option<Weight> {
    let (whole, decimals) = match text {
        [b'.', decimals @ ..] if !decimals.is_empty() => (&b'0', decimals),
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| decimals.get(at).map_or(0, |digit| Weight::from(digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// The parts of `value` between `separator`s that stand outside quotes (section 5.6.4).
fn split_unquoted(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |&byte| {
        if escaped {
            escaped = false;
        } else if quoted {
            escaped = byte == b'\\';
            quoted = byte != b'"';
        } else if byte == b'"' {
            quoted = true;
        } else {
            return byte == separator;
        }
        false
    })
}

#[cfg(test)]
mod tests;
