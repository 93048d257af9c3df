//! The document as browsers ask for it.

use super::*;

fn page() -> Page {
    Page {
        html: b"<p>plain</p>".to_vec(),
        gzip: b"gzip".to_vec(),
        tag: "abc".into(),
        policy: "connect-src 'self' http://{host}:8001".into(),
    }
}

const GET: PageRequest<'_> =
    PageRequest { method: Method::Get, host: Some("[::1]:8000"), gzip: true, known: None };

fn answer(request: PageRequest<'_>) -> (String, String) {
    let mut out = Vec::new();
    page().answer(request, &mut out);
    let text = String::from_utf8(out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn document_comes_compressed_to_who_reads_that_and_plain_to_others() {
    let (head, body) = answer(GET);
    assert_eq!(body, "gzip");
    for line in ["HTTP/1.1 200 OK", "Content-Encoding: gzip", "Content-Length: 4"] {
        assert!(head.lines().any(|one| one == line), "{line}: {head}");
    }
    let (head, body) = answer(PageRequest { gzip: false, ..GET });
    assert_eq!(body, "<p>plain</p>");
    assert!(!head.contains("Content-Encoding") && head.contains("Content-Length: 12"));
}

#[test]
fn head_is_the_same_without_the_body() {
    let (head, body) = answer(PageRequest { method: Method::Head, ..GET });
    assert_eq!((head, body.as_str()), (answer(GET).0, ""));
}

#[test]
fn who_has_the_document_is_told_so() {
    for (known, status) in [("W/\"abc\"", "304"), ("\"abcd\"", "200")] {
        let (head, body) = answer(PageRequest { known: Some(known), ..GET });
        assert_eq!(&head[9..12], status, "{known}");
        assert_eq!(body.is_empty(), status == "304", "{known}");
        assert!(head.contains("ETag: W/\"abc\"\r\n"));
    }
}

#[test]
fn policy_names_the_host_that_the_client_does_and_nothing_worse() {
    for (host, name) in [
        (Some("push.test:8000"), "push.test"),
        (Some("push.test"), "push.test"),
        (Some("[::1]:8000"), "[::1]"),
        (Some("[::1]"), "[::1]"),
        (Some("a;script-src *:8000"), "host.invalid"),
        (Some("'self':80"), "host.invalid"),
        (Some(""), "host.invalid"),
        (None, "host.invalid"),
    ] {
        let (head, _) = answer(PageRequest { host, ..GET });
        let line = format!("connect-src 'self' http://{name}:8001");
        assert!(head.contains(&line), "{host:?}: {head}");
    }
}
