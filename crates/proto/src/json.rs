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
mod tests {
    use super::*;
    use crate::testing;

    fn unescaped(text: &str) -> Option<String> {
        string_chars(text).map(Iterator::collect)
    }

    #[test]
    fn written_string_is_what_serde_json_reads() {
        testing::seeded(2_000, |rng| {
            let text = testing::text(rng, 30);
            let mut written = String::new();
            push_string(&mut written, &text);
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
            assert_eq!(unescaped(&written).unwrap(), text);
        });
    }

    #[test]
    fn escapes_of_the_rfc_are_read() {
        let cases = [
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\u0041\u00e9\u20AC""#, "Aé€"),
            // RFC 8259, section 7: the G clef.
            (r#""\uD834\uDD1E""#, "\u{1d11e}"),
            (" \"spaces around\"\r\n", "spaces around"),
            (r#""""#, ""),
        ];
        for (text, value) in cases {
            assert_eq!(unescaped(text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn broken_escapes_are_replaced_and_the_rest_is_kept() {
        let cases = [
            (r#""\ud834""#, "\u{fffd}"),
            (r#""\udd1e\u0041""#, "\u{fffd}A"),
            (r#""\ud834\ud834\udd1e""#, "\u{fffd}\u{1d11e}"),
            (r#""\ud834\n""#, "\u{fffd}\n"),
            (r#""\u12""#, "\u{fffd}12"),
            (r#""\u€x""#, "\u{fffd}€x"),
            (r#""\x""#, "\u{fffd}"),
            (r#""\""#, "\u{fffd}"),
        ];
        for (text, value) in cases {
            assert_eq!(unescaped(text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn other_values_are_not_strings() {
        for text in ["1", "null", "{\"a\":\"b\"}", "[\"a\"]", "", "\"", " "] {
            assert_eq!(unescaped(text), None, "{text}");
        }
    }
}
