//! Which requests a lane serves, by their heads.

use std::ops::Range;

use httpd::body::BodyKind;
use proto::is_form;

use crate::api::{AppendHead, AppendTexts, SHORT_BYTES_MAX};

/// What the bytes of a connection begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Look<'b> {
    /// A request that a lane may serve, with its body.
    Whole(LaneAsk<'b>),
    /// The begin of what may become one.
    Partial,
    /// Something else.
    Other,
}

/// A request to send one event, or to append to a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LaneAsk<'b> {
    pub(super) kind: AskKind<'b>,
    /// What its client calls us.
    pub(super) host: &'b str,
    /// The `Authorization` field.
    pub(super) authorization: Option<&'b str>,
    /// Whether somebody on the way has said for whom it asks.
    pub(super) is_forwarded: bool,
    pub(super) body: &'b [u8],
    /// Bytes of all of it.
    pub(super) len: usize,
}

/// What it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AskKind<'b> {
    /// An event, as JSON.
    Send,
    /// An update of the Mercure protocol, as a form.
    Update,
    /// Bytes for a durable stream.
    Append(AppendHead<'b>),
}

/// What a request is for, by how it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begin {
    Send,
    Update,
    Append,
}

/// How requests begin that a lane serves.
const BEGINS: [(&[u8], Begin); 3] = [
    (b"POST /send HTTP/1.1\r\n", Begin::Send),
    (b"POST /.well-known/mercure HTTP/1.1\r\n", Begin::Update),
    (b"POST /v1/stream/", Begin::Append),
];

/// Bytes of the longest of them.
pub(super) const FIRST_LINE_BYTES_MAX: usize = BEGINS[1].0.len();

/// Characters of a URL's path, beside letters and digits (RFC 3986, section 3.3). Whatever else
/// stands there is read elsewhere.
const PATH_MARKS: &[u8] = b"/-._~%!$&'()*+,;=:@";

/// Fields of a head. A client that sends more is served elsewhere.
const FIELDS_MAX: usize = 32;

/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Fields with which a request is more than a plain one: of its framing (RFC 9112, section 6), of
/// what is expected before the body, of pages, of repeats.
const OTHERS: [&str; 7] = [
    "transfer-encoding",
    "expect",
    "upgrade",
    "idempotency-key",
    "origin",
    "content-encoding",
    "cookie",
];

/// Whether `bytes` begin with one of them.
pub(super) fn is_first(bytes: &[u8]) -> bool {
    BEGINS.iter().any(|(line, _)| bytes.starts_with(line))
}

/// Looks at `bytes`.
pub(super) fn look(bytes: &[u8]) -> Look<'_> {
    let begins = |line: &[u8]| bytes.starts_with(line) || line.starts_with(bytes);
    let Some(&(_, begin)) = BEGINS.iter().find(|(line, _)| begins(line)) else {
        return Look::Other;
    };
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => len,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return Look::Partial,
        _ => return Look::Other,
    };
    let (target, version) = (request.path.unwrap_or_default(), request.version);
    let read = read(request.headers, begin).filter(|_| version == Some(1));
    let Some(Read { host: Some(host), length: Some(length), texts, .. }) = read else {
        return Look::Other;
    };
    let Some(kind) = begin.kind(target, texts).filter(|_| length <= begin.length_max()) else {
        return Look::Other;
    };
    let Some(Read { authorization, is_forwarded, .. }) = read else { return Look::Other };
    let body: Range<usize> = head..head.saturating_add(length);
    let len = body.end;
    match bytes.get(body) {
        Some(body) => Look::Whole(LaneAsk { kind, host, authorization, is_forwarded, body, len }),
        None => Look::Partial,
    }
}

impl Begin {
    /// What is asked for at `target` with these fields, if it may be.
    fn kind<'b>(self, target: &'b str, texts: AppendTexts<'b>) -> Option<AskKind<'b>> {
        let media_type = texts.content_type;
        match self {
            Begin::Send => media_type
                .is_none_or(|text| BodyKind::of_text(text) == Some(BodyKind::Json))
                .then_some(AskKind::Send),
            Begin::Update => {
                media_type.is_some_and(|text| is_form(text.as_bytes())).then_some(AskKind::Update)
            }
            Begin::Append => {
                let is_plain =
                    |byte: u8| byte.is_ascii_alphanumeric() || PATH_MARKS.contains(&byte);
                let kind = || AskKind::Append(AppendHead { target, texts });
                target.bytes().all(is_plain).then(kind)
            }
        }
    }

    /// Bytes of the longest body.
    fn length_max(self) -> usize {
        match self {
            Begin::Send | Begin::Update => usize::MAX,
            Begin::Append => SHORT_BYTES_MAX,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Read<'b> {
    host: Option<&'b str>,
    length: Option<usize>,
    authorization: Option<&'b str>,
    /// Those of an append, of which others have the type of their body.
    texts: AppendTexts<'b>,
    is_forwarded: bool,
}

/// What counts of the fields; `None` when one of them makes it another kind of request, or stands
/// there twice.
fn read<'b>(fields: &[httparse::Header<'b>], begin: Begin) -> Option<Read<'b>> {
    let mut read = Read::default();
    for field in fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        // As the library's `HeaderValue::to_str` has it.
        let is_text = |byte: u8| matches!(byte, b'\t' | b' '..=b'~');
        let text = || str::from_utf8(field.value).ok().filter(|text| text.bytes().all(is_text));
        if is("host") {
            set(&mut read.host, text()?)?;
        } else if is("content-length") {
            set(&mut read.length, length(field.value)?)?;
        } else if is("authorization") {
            set(&mut read.authorization, text()?)?;
        } else if is("content-type") {
            set(&mut read.texts.content_type, text()?)?;
        } else if is("connection") {
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if is("forwarded") || is("x-forwarded-for") {
            read.is_forwarded = true;
        } else if OTHERS.into_iter().any(is) {
            return None;
        } else if begin == Begin::Append && is_of_streams(field.name) {
            set(of_append(&mut read.texts, field.name)?, text()?)?;
        }
    }
    Some(read)
}

/// Whether a field says something of durable streams.
fn is_of_streams(name: &str) -> bool {
    let begins =
        |word: &str| name.get(..word.len()).is_some_and(|of| of.eq_ignore_ascii_case(word));
    ["stream-", "producer-", "encke-"].into_iter().any(begins)
}

/// The place of such a field, if a lane reads it.
fn of_append<'t, 'b>(
    texts: &'t mut AppendTexts<'b>,
    name: &str,
) -> Option<&'t mut Option<&'b str>> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match () {
        () if is("stream-closed") => Some(&mut texts.closed),
        () if is("stream-seq") => Some(&mut texts.sequence),
        () if is("producer-id") => Some(&mut texts.producer_id),
        () if is("producer-epoch") => Some(&mut texts.producer_epoch),
        () if is("producer-seq") => Some(&mut texts.producer_seq),
        () => None,
    }
}

/// Sets what may be set once.
fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Digits, as RFC 9112, section 6.2, has them, of a length that could be served.
fn length(value: &[u8]) -> Option<usize> {
    let is_length = (1..=6).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| is_length)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[&str]) -> String {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        format!("POST /send HTTP/1.1\r\n{fields}\r\n")
    }

    #[test]
    fn plain_request_is_read_and_its_half_is_waited_for() {
        let head = head(&[
            "HOST: push.test:80",
            "content-type: Application/JSON; charset=utf-8",
            "Content-Length: 5",
            "Authorization: Bearer x",
            "X-Forwarded-For: 10.0.0.1",
            "Connection: Keep-Alive",
            "User-Agent: test",
            "traceparent: 00-0-0-0",
        ]);
        let text = format!("{head}{{\"a\"}}POST");
        for cut in 0..head.len() + 5 {
            assert_eq!(look(&text.as_bytes()[..cut]), Look::Partial, "{cut}");
        }
        let ask = LaneAsk {
            kind: AskKind::Send,
            host: "push.test:80",
            authorization: Some("Bearer x"),
            is_forwarded: true,
            body: b"{\"a\"}",
            len: head.len() + 5,
        };
        assert_eq!(look(text.as_bytes()), Look::Whole(ask));
    }

    #[test]
    fn update_is_a_form() {
        let first = "POST /.well-known/mercure HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n";
        let form = "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n\r\nx";
        let whole = format!("{first}{form}");
        for cut in 0..whole.len() {
            assert_eq!(look(&whole.as_bytes()[..cut]), Look::Partial, "{cut}");
            assert_eq!(is_first(&whole.as_bytes()[..cut]), cut >= FIRST_LINE_BYTES_MAX, "{cut}");
        }
        let Look::Whole(ask) = look(whole.as_bytes()) else { panic!("it is whole") };
        assert_eq!((ask.kind, ask.body), (AskKind::Update, &b"x"[..]));
        for other in ["\r\nx", "Content-Type: application/json\r\n\r\nx"] {
            assert_eq!(look(format!("{first}{other}").as_bytes()), Look::Other, "{other:?}");
        }
        let query = whole.replace("mercure", "mercure?authorization=x");
        assert_eq!(look(query.as_bytes()), Look::Other);
    }

    #[test]
    fn append_is_read_with_its_fields_and_others_of_its_kind_are_for_others() {
        let head = |target: &str, fields: &str| {
            let first = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n");
            format!("{first}{fields}\r\nhi")
        };
        let fields = "Content-Type: text/plain\r\nPRODUCER-ID: p\r\nProducer-Epoch: 1\r\n\
                      Producer-Seq: 2\r\nStream-Seq: x\r\nStream-Closed: true\r\n";
        let text = head("/v1/stream/run/%C3%BC", fields);
        for cut in 0..text.len() {
            assert_eq!(look(&text.as_bytes()[..cut]), Look::Partial, "{cut}");
        }
        let texts = AppendTexts {
            content_type: Some("text/plain"),
            closed: Some("true"),
            producer_id: Some("p"),
            producer_epoch: Some("1"),
            producer_seq: Some("2"),
            sequence: Some("x"),
        };
        let Look::Whole(ask) = look(text.as_bytes()) else { panic!("it is whole") };
        let append = AppendHead { target: "/v1/stream/run/%C3%BC", texts };
        assert_eq!((ask.kind, ask.body), (AskKind::Append(append), &b"hi"[..]));
        assert!(is_first(text.as_bytes()));
        for other in [
            head("/v1/stream/run?x=1", ""),
            head("/v1/stream/run#x", ""),
            head("/v1/stream/a\"b", ""),
            head("/v1/stream/run", "Stream-Forked-From: /v1/stream/x\r\n"),
            head("/v1/stream/run", "Stream-TTL: 3\r\n"),
            head("/v1/stream/run", "Producer-Id: p\r\nProducer-Id: q\r\n"),
            head("/v1/stream/run", "Encke-Any: x\r\n"),
            head("/v1/stream/run", "").replace("HTTP/1.1", "HTTP/1.0"),
            head("/v1/stream/run", "").replace("Length: 2", "Length: 32769"),
            head("/v1/streams/run", ""),
        ] {
            assert_eq!(look(other.as_bytes()), Look::Other, "{other}");
        }
    }

    #[test]
    fn whatever_else_a_request_may_be_is_for_others() {
        for begin in ["GET /send HTTP/1.1\r\n", "POST /send HTTP/1.0\r\n", "POST /send?a=1", "\r\n"]
        {
            assert_eq!(look(begin.as_bytes()), Look::Other, "{begin:?}");
        }
        let plain = ["Host: a", "Content-Length: 1"];
        assert!(matches!(look(format!("{}1", head(&plain)).as_bytes()), Look::Whole(_)));
        for field in [
            "Host: b",
            "Content-Length: 1",
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Upgrade: h2c",
            "Idempotency-Key: \"x\"",
            "Origin: http://a",
            "Cookie: a=b",
            "Content-Encoding: gzip",
            "Connection: close",
            "Connection: keep-alive, upgrade",
            "Content-Type: application/x-ndjson",
            "Content-Type: text/html",
            " folded: line",
            "No colon",
        ] {
            let text = format!("{}1", head(&[plain[0], plain[1], field]));
            assert_eq!(look(text.as_bytes()), Look::Other, "{field}");
        }
        for fields in [
            &["Host: a"][..],
            &["Content-Length: 1"],
            &["Host: a", "Content-Length: +1"],
            &["Host: a", "Content-Length: 1, 1"],
            &["Host: a", "Content-Length: 1000000"],
            &["Host: a", "Content-Length:"],
        ] {
            assert_eq!(look(format!("{}1", head(fields)).as_bytes()), Look::Other, "{fields:?}");
        }
        let many: Vec<String> = (0..40).map(|n| format!("X-{n}: 1")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(look(head(&many).as_bytes()), Look::Other);
        let long = format!("X: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(look(head(&[&long]).as_bytes()), Look::Other);
        assert_eq!(look(&head(&[&long]).as_bytes()[..HEAD_BYTES_MAX + 1]), Look::Other);
    }
}
