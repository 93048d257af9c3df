//! Heads of answers, good and broken.

use super::*;

const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Transfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n";

#[test]
fn head_is_read_once_it_is_whole() {
    let head_len = STREAM.len() - 8;
    for len in 0..head_len {
        assert_eq!(response_head(&STREAM[..len]), Ok(None), "{len} bytes");
    }
    let head = response_head(STREAM).unwrap().unwrap();
    assert_eq!(head.head_len, head_len);
    assert_eq!((head.status, head.body), (200, BodyLength::Chunked));
    assert_eq!(head.content_type, Some("text/event-stream"));
}

#[test]
fn length_is_the_first_that_rfc_9112_section_6_3_names() {
    let body = |head: &[u8]| response_head(head).map(|head| head.unwrap().body);
    let old = b"HTTP/1.0 200 OK\r\n\r\n";
    assert_eq!(body(old), Ok(BodyLength::UntilClose));
    let known = b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n";
    assert_eq!(body(known), Ok(BodyLength::Known(12)));
    let none = b"HTTP/1.1 204 No Content\r\n\r\n";
    assert_eq!(body(none), Ok(BodyLength::Known(0)));
    let both = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(body(both), Ok(BodyLength::Chunked));
    let gzip = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n";
    assert_eq!(body(gzip), Err(HeadError::UnknownLength));
    let odd = b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n";
    assert_eq!(body(odd), Err(HeadError::UnknownLength));
}

#[test]
fn answer_to_a_poll_says_where_the_next_goes_on() {
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{fields}\r\n");
    let told = |head: &str| {
        let head = response_head(head.as_bytes()).unwrap().unwrap();
        (head.next.map(str::to_owned), head.gap, head.closes)
    };
    assert_eq!(told(&head("")), (None, false, false));
    assert_eq!(told(&head("Encke-Next: 17\r\n")), (Some("17".into()), false, false));
    assert_eq!(told(&head("Encke-Gap: true\r\nConnection: x, Close\r\n")), (None, true, true));
    assert!(told("HTTP/1.0 200 OK\r\n\r\n").2);
}

#[test]
fn what_is_no_head_is_refused() {
    assert_eq!(response_head(b"\x16\x03\x01\x02\x00"), Err(HeadError::Malformed));
    let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    endless.resize(HEAD_BYTES_MAX, b'x');
    assert_eq!(response_head(&endless), Err(HeadError::TooLong));
}
