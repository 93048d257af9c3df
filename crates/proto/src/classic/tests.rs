//! The page as a browser reads it.

use super::*;
use crate::testing;
use std::io::Read;

fn delivery(number: u64, data: &str, carrier: Carrier) -> Vec<u8> {
    let tail = message(data);
    let prefix = Prefix::new(number, &tail, carrier);
    [prefix.as_bytes(), tail.for_carrier(carrier)].concat()
}

fn page_line(number: u64, data: &str) -> String {
    String::from_utf8(delivery(number, data, Carrier::Close)).unwrap()
}

#[test]
fn welcome_is_the_first_chunk() {
    let mut page = Vec::new();
    welcome("a&b", Carrier::Chunked, &mut page);
    assert_eq!(page, b"19\r\nWelcome, id a&amp;b<br/>\n\r\n");
    page.clear();
    welcome("123", Carrier::Close, &mut page);
    assert_eq!(page, b"Welcome, id 123<br/>\n");
}

#[test]
fn message_shows_strings_by_value_and_the_rest_as_json() {
    let cases = [
        (r#""hello""#, "Recvd msg #7: 'hello'<br/>\n"),
        (r#""it's <b>\u00e9\n""#, "Recvd msg #7: 'it&#39;s &lt;b&gt;é&#10;'<br/>\n"),
        ("42", "Recvd msg #7: '42'<br/>\n"),
        (r#"{"a":[1,null]}"#, "Recvd msg #7: '{&quot;a&quot;:[1,null]}'<br/>\n"),
        (r#""\u0000\u001b\t""#, "Recvd msg #7: '\u{fffd}\u{fffd}\t'<br/>\n"),
    ];
    for (data, line) in cases {
        assert_eq!(page_line(7, data), line);
    }
}

#[test]
fn largest_number_fits_the_prefix() {
    let line = page_line(u64::MAX, "0");
    assert_eq!(line, format!("Recvd msg #{}: '0'<br/>\n", u64::MAX));
}

#[test]
fn outside_decoders_read_the_text_back() {
    testing::seeded(500, |rng| {
        let text = testing::text(rng, 30);
        let number = rng.u64(..) >> rng.u32(..64);
        let mut wire = delivery(number, &serde_json::to_string(&text).unwrap(), Carrier::Chunked);
        wire.extend_from_slice(Carrier::Chunked.end());
        let mut line = String::new();
        chunked_transfer::Decoder::new(&wire[..]).read_to_string(&mut line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let start = format!("Recvd msg #{number}: '");
        let shown = line.strip_prefix(&start).unwrap().strip_suffix("'<br/>\n").unwrap();
        assert!(!shown.contains(['\'', '<', '>', '"']));
        let shows = |c: char| match c {
            '\n' | '\r' | '\t' => c,
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        let expected: String = text.chars().map(shows).collect();
        assert_eq!(html_escape::decode_html_entities(shown), expected);
    });
}
