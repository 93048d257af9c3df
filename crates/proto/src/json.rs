//! The two small pieces of JSON (RFC 8259) that this room needs: to write a string and to read
//! one. Whole values are parsed elsewhere.

use std::str::Chars;

/// Appends `text` as a JSON string, with its quotes.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // Section 7: the control characters below U+0020 must be escaped.
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The characters of the JSON string `text`, unescaped; `None` when it is another kind of value.
///
/// The text was validated by whoever took it in. Where it is not valid after all, and for halves
/// of surrogate pairs, which RFC 8259, section 8.2 lets pass, U+FFFD stands in.
pub(crate) fn string_chars(text: &str) -> Option<impl Iterator<Item = char> + '_> {
    let inner = text.trim_ascii().strip_prefix('"')?.strip_suffix('"')?;
    Some(Unescape { rest: inner.chars() })
}

struct Unescape<'a> {
    rest: Chars<'a>,
}

impl Iterator for Unescape<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.rest.next()? {
            '\\' => Some(self.escape().unwrap_or(char::REPLACEMENT_CHARACTER)),
            c => Some(c),
        }
    }
}

impl Unescape<'_> {
    fn escape(&mut self) -> Option<char> {
        Some(match self.rest.next()? {
            c @ ('"' | '\\' | '/') => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.utf16(),
            _ => return None,
        })
    }

    /// Section 7: four hexadecimal digits are one UTF-16 unit, and a character outside the basic
    /// plane is written as two of them.
    fn utf16(&mut self) -> Option<char> {
        let first = self.unit()?;
        if let Some(c) = char::from_u32(first) {
            return Some(c);
        }
        // A half pair alone must not swallow what follows it, so the second half is read on trial.
        let mut ahead = Unescape { rest: self.rest.clone() };
        if ahead.rest.next() != Some('\\') || ahead.rest.next() != Some('u') {
            return None;
        }
        let second = ahead.unit()?;
        let pair = char::decode_utf16([first as u16, second as u16]).next()?.ok()?;
        self.rest = ahead.rest;
        Some(pair)
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.rest.as_str().get(..4)?;
        let unit = digits.bytes().try_fold(0, |unit, digit| {
            char::from(digit).to_digit(16).map(|value| unit << 4 | value)
        })?;
        self.rest = self.rest.as_str()[4..].chars();
        Some(unit)
    }
}

#[cfg(test)]
mod tests;
