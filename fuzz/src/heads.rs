//! Request heads, and the answers to them.

use proto::request::{HEAD_BYTES_MAX, MARKED_PLACE_LEN, POLL_WAIT_SECONDS_MAX, parse};
use proto::{Carrier, Cors, Format, Method, Parsed, Refusal, Request, Route, response, resume};

/// A client's first bytes: the same answer however they are split, an answer that an outside
/// parser agrees with, and a response that is whole whatever the client wrote.
pub fn request_head(data: &[u8]) {
    let whole = parse(data, 0);
    for cut in [data.len() / 2, data.len().saturating_sub(1), 1, 2] {
        let cut = cut.min(data.len());
        match parse(&data[..cut], 0) {
            Parsed::NeedMore => assert_eq!(parse(data, cut), whole, "cut at {cut}"),
            early => assert_eq!(early, whole, "answered at {cut}"),
        }
    }
    match whole {
        Parsed::NeedMore => assert!(data.len() < HEAD_BYTES_MAX),
        Parsed::Request(request) => {
            check_against_httparse(data, &request);
            check_stream_head(&request);
        }
        Parsed::Refused(refusal) => check_problem(&refusal),
    }
}

fn check_against_httparse(data: &[u8], request: &Request<'_>) {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut outside = httparse::Request::new(&mut headers);
    assert_eq!(outside.parse(data), Ok(httparse::Status::Complete(request.head_len)));
    assert!(request.head_len <= HEAD_BYTES_MAX);
    let method = match request.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Options => "OPTIONS",
        Method::Post => "POST",
        Method::Query => "QUERY",
    };
    assert_eq!(outside.method, Some(method));
    assert_eq!(outside.version == Some(1), request.carrier == Carrier::Chunked);
    assert!(request.host.is_some() || request.carrier == Carrier::Close);
    let origins = outside.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("origin"));
    assert_eq!(origins.count(), usize::from(request.origin.is_some()));
    assert!(request.origin.is_none_or(|origin| origin.bytes().all(|b| (b' '..=b'~').contains(&b))));
    let target = outside.path.unwrap();
    let path = match request.route {
        Route::Stream => "/stream",
        Route::Classic => "/test",
        Route::Poll => "/poll",
        Route::Page => "/",
        Route::WellKnown => "/.well-known/",
        Route::Send => "/send",
        Route::Events => "/events/",
        Route::App => "/app/",
        Route::Durable => "/v1/stream/",
        Route::Mercure => "/.well-known/mercure",
        Route::MercureList => "/.well-known/mercure/subscriptions",
    };
    assert!(target.contains(path) && target.contains(request.path));
    assert!(request.format != Format::Classic || request.route == Route::Classic);
    match (request.method, request.route) {
        (Method::Options, _)
        | (_, Route::Page | Route::WellKnown | Route::Send | Route::App)
        | (_, Route::Durable | Route::Mercure | Route::MercureList) => {
            assert!(request.ids.is_empty());
        }
        _ => assert_eq!(request.ids, naive_ids(target), "{target}"),
    }
    check_what_only_some_have(&outside, request);
}

/// Each wish stands where its route has it, and was written somewhere in the head.
fn check_what_only_some_have(outside: &httparse::Request<'_, '_>, request: &Request<'_>) {
    let sent = |name: &str| outside.headers.iter().any(|h| h.name.eq_ignore_ascii_case(name));
    // Empty lists are as if they were absent.
    let offers = |name: &str| {
        let is_filled = |h: &httparse::Header<'_>| !h.value.trim_ascii().is_empty();
        outside.headers.iter().any(|h| h.name.eq_ignore_ascii_case(name) && is_filled(h))
    };
    // Nobody else has a body. That of an append or an update is not looked at here; any other has a
    // known end.
    let is_query = request.method == Method::Query;
    assert!(!is_query || request.route == Route::Mercure);
    let is_send = request.method == Method::Post && request.route == Route::Send;
    let is_elsewhere = matches!(request.route, Route::Durable | Route::Mercure);
    assert!(request.method != Method::Post || is_send || is_elsewhere);
    assert!(if is_query || is_send { sent("content-length") } else { request.body.len == 0 });
    let target = outside.path.unwrap();
    if let Some(cursor) = request.cursor {
        let is_id = matches!(cursor.len(), 16 | MARKED_PLACE_LEN)
            && cursor.iter().all(u8::is_ascii_alphanumeric);
        assert!(sent("last-event-id") || (is_id && target.contains('=')));
    }
    let continues = matches!(request.route, Route::Stream | Route::Poll | Route::Mercure);
    assert!(request.cursor.is_none() || continues);
    assert!(request.wait_seconds <= POLL_WAIT_SECONDS_MAX);
    let Some(upgrade) = &request.upgrade else { return };
    assert_eq!((request.method, request.carrier), (Method::Get, Carrier::Chunked));
    assert!(matches!(request.route, Route::Stream | Route::App));
    assert!(sent("upgrade"));
    assert!(!upgrade.in_connection || sent("connection"));
    assert_eq!(upgrade.key.is_some(), sent("sec-websocket-key"));
    assert_eq!(upgrade.version.is_some(), sent("sec-websocket-version"));
    assert_eq!(upgrade.protocols.is_some(), offers("sec-websocket-protocol"));
    assert_eq!(upgrade.extensions.is_some(), offers("sec-websocket-extensions"));
}

/// The ids of a target that was served, decoded byte by byte.
fn naive_ids(target: &str) -> Vec<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // A path may end before its id.
    let (before, last) = path.rsplit_once('/').unwrap();
    let has_id = ["stream", "test", "poll"].iter().any(|route| before.ends_with(route));
    let mut ids = Vec::from_iter(has_id.then(|| naive_unescape(last)));
    for part in query.split('&') {
        let mut halves = part.splitn(2, '=');
        // A name that does not decode to UTF-8 is not `id`.
        if naive_bytes(halves.next().unwrap()) == b"id" {
            let value = halves.next().unwrap_or_default();
            assert!(!value.contains('+'), "a space in an id");
            ids.push(naive_unescape(value));
        }
    }
    ids
}

fn naive_unescape(text: &str) -> String {
    let escapes = text.split('%').skip(1);
    escapes.for_each(|escape| assert!(u8::from_str_radix(&escape[..2], 16).is_ok(), "{text}"));
    String::from_utf8(naive_bytes(text)).unwrap()
}

fn naive_bytes(text: &str) -> Vec<u8> {
    let hex = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let mut rest = text.as_bytes();
    let mut out = Vec::new();
    while let [first, tail @ ..] = rest {
        let escape = match tail {
            [high, low, ..] if *first == b'%' => hex(high).zip(hex(low)),
            _ => None,
        };
        out.push(escape.map_or(*first, |(high, low)| high << 4 | low));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    out
}

/// An origin that is let in comes back as it was and forges nothing.
fn check_stream_head(request: &Request<'_>) {
    let mut wire = Vec::new();
    let cors = request.origin.map(Cors::plain);
    response::stream_head(request.format, request.carrier, cors, &mut wire);
    resume::end_head(&mut wire, None, cors);
    let (status, body_len) = read_response(&wire, request.origin);
    assert_eq!((status, body_len), (200, 0));
}

fn check_problem(refusal: &Refusal<'_>) {
    let Refusal { problem, head_only, origin, .. } = refusal;
    assert!([400, 404, 405, 406, 411, 413, 415, 431, 505].contains(&problem.status));
    let mut wire = Vec::new();
    response::problem(problem, *head_only, origin.map(Cors::plain), &mut wire);
    let (status, body_len) = read_response(&wire, *origin);
    assert_eq!(status, problem.status);
    let body = &wire[wire.len() - body_len..];
    if *head_only {
        assert!(body.is_empty());
    } else {
        let json: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(json["status"], problem.status);
        assert_eq!(json["detail"], *problem.detail);
    }
}

/// Reads a response with an outside parser: its status and how many bytes follow its head.
fn read_response(wire: &[u8], origin: Option<&str>) -> (u16, usize) {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let head_len = response.parse(wire).unwrap().unwrap();
    let mut allowed = response.headers.iter().filter(|h| h.name == "Access-Control-Allow-Origin");
    assert_eq!(allowed.next().map(|header| header.value), origin.map(str::as_bytes));
    assert!(allowed.next().is_none());
    (response.code.unwrap(), wire.len() - head_len)
}
