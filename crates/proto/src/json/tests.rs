//! Strings as serde_json reads them.

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
