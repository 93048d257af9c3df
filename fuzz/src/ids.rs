//! Ids as people write them.

use hub::{ID_BYTES_MAX, IdText, Names};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proto::{Parsed, request};

/// A text as an id: good or bad by the contract's rules, one id per text and one text per id, and
/// the same after a trip through path and query.
pub fn id_text(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let good = (1..=ID_BYTES_MAX).contains(&text.len())
        && !text.chars().any(|c| c.is_control() || c.is_whitespace() || "/?#".contains(c));
    let id = IdText::parse(text);
    assert_eq!(id.is_ok(), good, "{text:?}");
    if let Ok(id) = id {
        check_names(id, text);
    }
    // Longer ones do not fit into a head twice.
    if text.len() <= ID_BYTES_MAX {
        check_request(text);
    }
}

fn check_names(id: IdText<'_>, text: &str) {
    let names = Names::new([1; 16]);
    let interned = names.acquire(id);
    assert_eq!(
        interned.as_integer().map(|number| number.to_string() == text),
        match id {
            IdText::Integer(_) => Some(true),
            IdText::Name(_) => None,
        }
    );
    assert_eq!(names.text(interned).as_deref(), Some(text));
    assert_eq!(names.lookup(id), Some(interned));
    names.release(interned);
    assert!(names.is_empty());
}

fn check_request(text: &str) {
    let escaped = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let head = format!("GET /stream/{escaped}?id=x&id={escaped} HTTP/1.1\r\nHost: x\r\n\r\n");
    match request::parse(head.as_bytes(), 0) {
        Parsed::Request(request) => assert_eq!(request.ids, [text, "x", text]),
        other => panic!("{text:?}: {other:?}"),
    }
}
