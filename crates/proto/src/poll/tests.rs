//! Answers to polls, byte by byte.

use super::*;
use crate::testing::{self, field};

/// An answer as an outside parser reads it: its fields and its body.
fn read(wire: &[u8]) -> (Vec<(String, String)>, Vec<u8>) {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let head_len = response.parse(wire).unwrap().unwrap();
    assert_eq!((response.code, response.version), (Some(200), Some(1)));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let fields = response.headers.iter().map(|field| (field.name.into(), text(field.value)));
    (fields.collect(), wire[head_len..].to_vec())
}

#[test]
fn answer_is_an_array_of_exactly_the_length_it_says() {
    testing::seeded(200, |rng| {
        let texts: Vec<String> = (0..rng.usize(0..5)).map(|_| testing::text(rng, 30)).collect();
        let frames: Vec<Frame> =
            texts.iter().map(|text| event(&serde_json::to_string(text).unwrap())).collect();
        let elements: Vec<&[u8]> =
            frames.iter().enumerate().map(|(before, frame)| element(frame, before)).collect();
        let elements_len = elements.iter().map(|element| element.len()).sum();
        let mut wire = Vec::new();
        Answer { elements_len, ..Answer::default() }.push_head(&mut wire);
        wire.extend(elements.concat());
        wire.extend_from_slice(ARRAY_END);
        let (fields, body) = read(&wire);
        assert_eq!(field(&fields, "Content-Length"), Some(body.len().to_string().as_str()));
        assert_eq!(field(&fields, "Content-Type"), Some("application/json"));
        assert_eq!(serde_json::from_slice::<Vec<String>>(&body).unwrap(), texts);
    });
}

#[test]
fn plain_answer_says_nothing_that_is_not_so() {
    let mut wire = Vec::new();
    Answer::default().push_head(&mut wire);
    wire.extend_from_slice(ARRAY_END);
    let (fields, body) = read(&wire);
    assert_eq!(body, b"[]\n");
    assert_eq!(field(&fields, "Cache-Control"), Some("no-store"));
    assert_eq!(field(&fields, "Connection"), Some("close"));
    assert_eq!(fields.len(), 5);
}

#[test]
fn cursor_gap_and_keep_alive_stand_in_the_head_where_pages_may_read_them() {
    let answer = Answer {
        next: Some("2F3y6mQsYKmaB3xZ"),
        gap: true,
        retry_ms: Some(1234),
        members: Some("00000000000000ff."),
        keep_alive_seconds: Some(75),
        cors: Some(Cors::ANY),
        ..Answer::default()
    };
    let mut wire = Vec::new();
    answer.push_head_only(&mut wire);
    let (fields, body) = read(&wire);
    assert!(body.is_empty());
    assert_eq!(field(&fields, "Encke-Next"), Some("2F3y6mQsYKmaB3xZ"));
    assert_eq!(field(&fields, "Encke-Gap"), Some("true"));
    assert_eq!(field(&fields, "Encke-Retry"), Some("1234"));
    assert_eq!(field(&fields, "Encke-Members"), Some("00000000000000ff."));
    assert_eq!(field(&fields, "Keep-Alive"), Some("timeout=75"));
    assert_eq!(field(&fields, "Connection"), None);
    assert_eq!(field(&fields, "Content-Length"), None);
    assert_eq!(field(&fields, "Access-Control-Allow-Origin"), Some("*"));
    let exposed = field(&fields, "Access-Control-Expose-Headers").unwrap();
    assert_eq!(exposed, "Encke-Next, Encke-Gap, Encke-Retry, Encke-Members");
}
