//! Tables of heads, each of them shown in one piece, byte by byte and cut in two at every place.

mod absent;
mod forms;
mod pages;
mod refusals;
mod sends;

use super::*;

/// A head of HTTP/1.1 with a host, the given first words and the given further lines.
fn head(start: &str, lines: &[&str]) -> Vec<u8> {
    let mut head = format!("{start} HTTP/1.1\r\nHost: encke.example:8000\r\n");
    lines.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
    (head + "\r\n").into_bytes()
}

/// What `buf` is, however it arrives: nothing but [`Parsed::NeedMore`], and then the same answer.
fn parse_split(buf: &[u8]) -> Parsed<'_> {
    let whole = parse(buf, 0);
    for len in 0..buf.len() {
        let piece = parse(&buf[..len], 0);
        let last_byte_new = parse(&buf[..len], len.saturating_sub(1));
        assert_eq!(last_byte_new, piece, "with and without a memory, {len} bytes");
        if piece != Parsed::NeedMore {
            // From here on the caller would ask no more.
            (len + 1..buf.len()).for_each(|len| assert_eq!(parse(&buf[..len], 0), whole));
            assert_eq!(piece, whole, "{len} bytes");
            break;
        }
        assert_eq!(parse(buf, len), whole, "cut at {len}");
    }
    whole
}

fn served(buf: &[u8]) -> Request<'_> {
    match parse_split(buf) {
        Parsed::Request(request) => request,
        other => panic!("{}: {other:?}", buf.escape_ascii()),
    }
}

fn refused(buf: &[u8]) -> Refusal<'_> {
    match parse_split(buf) {
        Parsed::Refused(refusal) => refusal,
        other => panic!("{}: {other:?}", buf.escape_ascii()),
    }
}

#[test]
fn stream_request_tells_method_transport_framing_and_origin() {
    let buf = head(
        "GET /stream/alice?id=photo:789",
        &["Accept: text/event-stream", "Origin: http://encke.example:8000"],
    );
    let expected = Request {
        method: Method::Get,
        route: Route::Stream,
        path: "/stream/alice",
        query: "id=photo:789",
        format: Format::Sse,
        carrier: Carrier::Chunked,
        ids: vec!["alice".into(), "photo:789".into()],
        members: vec![],
        cursor: None,
        past: Past::Nothing,
        told: PlaceStyle::InHead,
        wait_seconds: POLL_WAIT_SECONDS_DEFAULT,
        upgrade: None,
        keep_alive: true,
        gzip: false,
        known: None,
        bearer: Bearer::default(),
        other_site: false,
        by_page: false,
        private_network: false,
        forwarded: Forwarded::default(),
        origin: Some("http://encke.example:8000"),
        host: Some("encke.example:8000"),
        body: Body::default(),
        head_len: buf.len(),
    };
    assert_eq!(served(&buf), expected);
}

#[test]
fn client_is_told_where_its_stream_begins_as_it_can_read_it() {
    let chrome = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0 Safari/537.36";
    let cases: [(&str, &[&str], PlaceStyle); 8] = [
        ("GET /stream/1", &[chrome, "Cache-Control: no-cache"], PlaceStyle::InBlock),
        (
            "GET /stream/1",
            &["Sec-Fetch-Mode: cors", "Cache-Control: no-cache"],
            PlaceStyle::InBlock,
        ),
        ("GET /stream/1", &["Sec-Fetch-Mode: cors"], PlaceStyle::InLine),
        ("GET /stream/1?next=0", &[chrome], PlaceStyle::InLine),
        ("GET /stream/1", &["User-Agent: Go-http-client/1.1"], PlaceStyle::InHead),
        ("GET /stream/1", &["Cache-Control: no-cache"], PlaceStyle::InHead),
        ("GET /stream/1?next=1", &["Cache-Control: no-store"], PlaceStyle::InMessage),
        ("GET /stream/1?next=1", &[chrome, "Cache-Control: no-cache"], PlaceStyle::InMessage),
    ];
    for (start, lines, told) in cases {
        assert_eq!(served(&head(start, lines)).told, told, "{start} {lines:?}");
    }
}

#[test]
fn token_is_taken_from_the_query_and_the_fields() {
    let buf = head("GET /stream/a?id=b&token=x%2ey", &["Cookie: t=z", "Cookie: t=late"]);
    let request = served(&buf);
    assert_eq!(request.bearer.token(None, Some("t")), Ok(Some("x.y".into())));
    let buf = head("GET /stream", &["Cookie: t=z", "Cookie: t=late", "Sec-Fetch-Site: same-site"]);
    let request = served(&buf);
    assert_eq!(request.bearer.token(None, Some("t")), Ok(Some("z late".into())));
    assert!(request.other_site);
    let buf = head("GET /stream", &["Authorization: Bearer a", "Authorization: Bearer b"]);
    assert_eq!(refused(&buf).problem.status, 400);
}

#[test]
fn path_and_header_choose_the_transport() {
    let cases: [(&str, &[&str], Format); 8] = [
        ("GET /poll/1", &["Accept: text/event-stream"], Format::Poll),
        ("GET /stream/1", &[], Format::Ndjson),
        ("GET /stream/1", &["accept: text/event-stream"], Format::Sse),
        ("GET /stream/1", &["Accept: text/html;q=0.9", "ACCEPT: text/*;q=0.1"], Format::Sse),
        ("HEAD /stream/1", &["Accept: */*"], Format::Ndjson),
        ("GET /test/1", &["Accept: text/event-stream"], Format::Classic),
        ("GET /test/1", &["Upgrade: websocket"], Format::Classic),
        ("GET /stream/1", &["Upgrade: h2c", "Connection: Upgrade"], Format::Ndjson),
    ];
    for (start, lines, format) in cases {
        assert_eq!(served(&head(start, lines)).format, format, "{start} {lines:?}");
    }
}

#[test]
fn path_leads_to_its_route() {
    let cases = [
        ("/stream/a", Route::Stream),
        ("/test/a", Route::Classic),
        ("/poll/a", Route::Poll),
        ("/", Route::Page),
        ("/?id=%zz&wait=x", Route::Page),
        ("http://other.example/", Route::Page),
        ("/.well-known/acme-challenge/a-b_c?id=%zz", Route::WellKnown),
        ("/.well-known/mercurex", Route::WellKnown),
        ("/.well-known/mercure?topic=%zz&id=%zz&wait=x", Route::Mercure),
        ("/.well-known/mercure/subscriptions?id=%zz", Route::MercureList),
        ("/.well-known/mercure/subscriptions/%zz/b/c", Route::MercureList),
        ("/.well-known/mercure/subscriptionsx", Route::WellKnown),
    ];
    for (target, route) in cases {
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(served(&head(&format!("{method} {target}"), &[])).route, route, "{target}");
        }
    }
}

#[test]
fn ids_are_decoded_path_first() {
    let cases: [(&str, &[&str]); 17] = [
        ("/poll/1?id=2&wait=3", &["1", "2"]),
        ("/", &[]),
        ("/stream/1?id=2&id=3", &["1", "2", "3"]),
        ("/test/1?id=2", &["1", "2"]),
        ("/stream/a%20b", &["a b"]),
        ("/stream/%E2%82%ac?id=%c3%a9", &["€", "é"]),
        ("/stream/€", &["€"]),
        ("/stream/a+b", &["a+b"]),
        ("/stream/a?id=a%2Bb", &["a", "a+b"]),
        ("/stream/a%2Fb", &["a/b"]),
        ("/stream/a?id=b/c?d", &["a", "b/c?d"]),
        ("/stream/a?i%64=b", &["a", "b"]),
        ("/stream/a?id=b%26id%3Dc", &["a", "b&id=c"]),
        ("/stream/a?wait=5&&ID=x&id2=y&=z", &["a"]),
        ("/stream/a?id", &["a", ""]),
        ("/stream/?id=b", &["", "b"]),
        ("/stream/a?id=b=c", &["a", "b=c"]),
    ];
    for (target, ids) in cases {
        assert_eq!(served(&head(&format!("GET {target}"), &[])).ids, ids, "{target}");
    }
}

#[test]
fn page_request_tells_what_the_client_reads_and_has() {
    for (line, gzip) in [
        ("Accept-Encoding: gzip, deflate, br", true),
        ("accept-encoding: br;q=1.0, GZIP;q=0.8", true),
        ("Accept-Encoding: gzip;q=0", false),
        ("Accept-Encoding: gzip; Q=0.00", false),
        ("Accept-Encoding: gzipped, *", false),
        ("Accept-Encoding:", false),
        ("Accept: gzip", false),
    ] {
        assert_eq!(served(&head("GET /", &[line])).gzip, gzip, "{line}");
    }
    let tag = "If-None-Match: W/\"a\", \"b\"";
    assert_eq!(served(&head("GET /", &[tag])).known, Some("W/\"a\", \"b\""));
}

#[test]
fn cursor_comes_from_the_place_that_its_route_has() {
    const ONE: Option<&[u8]> = Some(b"2F3y6mQsYKmaB3xZ");
    const TWO: Option<&[u8]> = Some(b"2F3y6mQsYKnaB3xZ");
    let (one, two) = ("2F3y6mQsYKmaB3xZ", "Last-Event-ID:  2F3y6mQsYKnaB3xZ ");
    type Case<'c> = (&'c str, &'c [&'c str], Option<&'c [u8]>);
    let cases: [Case<'_>; 16] = [
        ("/poll/a?after=", &[], ONE),
        ("/poll/a?after=2F3y6mQsYKnaB3xZ&after=", &[], ONE),
        ("/poll/a?%61fter=", &[], ONE),
        ("/poll/a?last_event_id=", &[two], None),
        ("/stream/a?last_event_id=", &[], ONE),
        ("/stream/a?last_event_id=", &[two], TWO),
        ("/stream/a?after=", &[], ONE),
        ("/stream/a?last=5&after=", &[], ONE),
        ("/stream/a?after=earliest&last_event_id=", &[], ONE),
        ("/stream/a?x=", &[two], TWO),
        ("/stream/a?x=", &["last-event-id:"], None),
        ("/stream/a?x=", &["Last-Event-ID: 17"], Some(b"17")),
        ("/stream/a?x=", &["Last-Event-ID: +F3y6mQsYKmaB3xZ"], Some(b"+F3y6mQsYKmaB3xZ")),
        ("/stream/a?x=", &["Last-Event-ID: \u{e9}"], Some("\u{e9}".as_bytes())),
        ("/test/a?last_event_id=", &[two], None),
        ("/?last_event_id=", &[two], None),
    ];
    for (target, lines, cursor) in cases {
        let buf = head(&format!("GET {target}{one}"), lines);
        assert_eq!(served(&buf).cursor, cursor, "{target} {lines:?}");
    }
}

#[test]
fn past_is_asked_for_where_no_cursor_is_known() {
    let id = "2F3y6mQsYKmaB3xZ";
    let header = "Last-Event-ID: 2F3y6mQsYKnaB3xZ";
    let after = format!("/stream/a?after={id}&last=5");
    let cases: [(&str, &[&str], Past); 14] = [
        ("/stream/a?last=50", &[], Past::Last(50)),
        ("/poll/a?last=050", &[], Past::Last(50)),
        ("/test/a?last=1&last=2", &[], Past::Last(2)),
        ("/stream/a?last=0", &[], Past::Nothing),
        ("/stream/a?last=99999999999999999999", &[], Past::Last(u32::MAX)),
        ("/stream/a?last=5&after=earliest", &[], Past::Earliest),
        ("/stream/a?last_event_id=earliest", &[], Past::Earliest),
        ("/poll/a?after=earliest", &[], Past::Earliest),
        ("/test/a?after=earliest", &[], Past::Earliest),
        ("/stream/a?after=earliest&after=", &[], Past::Nothing),
        ("/stream/a?last=5&after=", &[], Past::Last(5)),
        ("/stream/a?last=5", &["Last-Event-ID:"], Past::Last(5)),
        ("/stream/a?last=5&after=earliest", &[header], Past::Nothing),
        (&after, &[], Past::Nothing),
    ];
    for (target, lines, past) in cases {
        let buf = head(&format!("GET {target}"), lines);
        assert_eq!(served(&buf).past, past, "{target} {lines:?}");
    }
}

#[test]
fn poll_waits_as_long_as_it_says() {
    let cases = [
        ("/poll/a", POLL_WAIT_SECONDS_DEFAULT),
        ("/poll/a?wait=0", 0),
        ("/poll/a?wait=060", 60),
        ("/poll/a?wait=7&wait=8", 8),
        ("/stream/a?wait=7", POLL_WAIT_SECONDS_DEFAULT),
    ];
    for (target, seconds) in cases {
        assert_eq!(served(&head(&format!("GET {target}"), &[])).wait_seconds, seconds, "{target}");
    }
}

#[test]
fn parameters_that_cannot_be_read_are_refused_with_what_to_do() {
    let long = format!("/poll/a?after={}", "0".repeat(17));
    let cases = [
        ("/poll/a?wait=61", "from 0 to 60"),
        ("/poll/a?wait=", "from 0 to 60"),
        ("/poll/a?wait=+1", "from 0 to 60"),
        ("/poll/a?wait=-1", "from 0 to 60"),
        ("/poll/a?wait=1.5", "from 0 to 60"),
        ("/poll/a?wait=256", "from 0 to 60"),
        ("/poll/a?last=", "whole number of events"),
        ("/stream/a?last=-1", "whole number of events"),
        ("/test/a?last=1.5", "whole number of events"),
        ("/stream/a?after=Earliest", "leave after out"),
        ("/poll/a?after=x", "leave after out"),
        ("/poll/a?after=1", "leave after out"),
        ("/poll/a?after=+000000000000001", "leave after out"),
        (&long, "leave after out"),
        ("/stream/a?last_event_id=x", "leave last_event_id out"),
    ];
    for (target, advice) in cases {
        let problem = refused(&head(&format!("GET {target}"), &[])).problem;
        assert_eq!(problem.status, 400, "{target}");
        assert!(problem.detail.contains(advice), "{target}: {}", problem.detail);
    }
}

#[test]
fn upgrade_brings_its_fields() {
    let buf = head(
        "GET /stream/a?id=b",
        &[
            "Connection: keep-alive, upgrade",
            "Upgrade: foo, WebSocket",
            "Accept: text/html",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Protocol: chat",
            "Sec-WebSocket-Protocol: superchat, x",
            "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
            "Sec-WebSocket-Accept: nobody asks",
        ],
    );
    let request = served(&buf);
    let expected = Upgrade {
        in_connection: true,
        key: Some("dGhlIHNhbXBsZSBub25jZQ=="),
        version: Some("13"),
        protocols: Some("chat, superchat, x".into()),
        extensions: Some("permessage-deflate; client_max_window_bits".into()),
    };
    assert_eq!((request.upgrade, request.ids.len()), (Some(expected), 2));
    let bare = head("GET /stream/a", &["Upgrade: websocket"]);
    assert_eq!(served(&bare).upgrade, Some(Upgrade::default()));
}

#[test]
fn upgrade_is_ignored_where_there_is_nothing_to_upgrade() {
    let lines = ["Upgrade: websocket", "Connection: upgrade"];
    for start in ["HEAD /stream/a", "GET /test/a", "GET /poll/a", "GET /", "OPTIONS /stream/a"] {
        assert_eq!(served(&head(start, &lines)).upgrade, None, "{start}");
    }
    let http_1_0 = b"GET /stream/1 HTTP/1.0\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(served(http_1_0).upgrade, None);
}

#[test]
fn connection_stays_in_http_1_1_unless_the_client_says_close() {
    let cases: [(&[&str], bool); 5] = [
        (&[], true),
        (&["Connection: keep-alive"], true),
        (&["Connection: close"], false),
        (&["connection: Upgrade, Close"], false),
        (&["Connection: TE", "Connection: close"], false),
    ];
    for (lines, stays) in cases {
        assert_eq!(served(&head("GET /poll/a", lines)).keep_alive, stays, "{lines:?}");
    }
    let http_1_0 = b"GET /poll/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    assert!(!served(http_1_0).keep_alive);
}

#[test]
fn unescaped_ids_are_borrowed_from_the_head() {
    let buf = head("GET /stream/123?id=456", &[]);
    assert!(served(&buf).ids.iter().all(|id| matches!(id, Cow::Borrowed(_))));
}

#[test]
fn own_origin_is_the_host_under_either_scheme() {
    let cases = [
        ("http://a.example", "a.example", true),
        ("https://a.example", "a.example", true),
        ("http://A.Example:8000", "a.example:8000", true),
        ("http://a.example:8000", "a.example", false),
        ("http://b.example", "a.example", false),
        ("http://a.example.evil", "a.example", false),
        ("null", "null", false),
        ("http://", "", false),
        ("", "", false),
        ("ftp://a.example", "a.example", false),
    ];
    for (origin, host, own) in cases {
        assert_eq!(is_own_origin(origin, host), own, "{origin} at {host}");
    }
}
