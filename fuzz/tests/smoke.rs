//! Every fuzz body over its seeds and over mutants of them: seconds, not hours.
//!
//! The run prints its seed; `ENCKE_SEED=<seed>` makes the same mutants again, and
//! `ENCKE_FUZZ_RUNS=<number>` sets how many there are of each body.

#![allow(clippy::print_stdout, reason = "the harness keeps it until a test fails")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fastrand::Rng;
use fuzz::{TARGETS, Target};
use testing::seed;

/// Enough to try each seed some hundred times, few enough for every test run.
const RUNS: u64 = 20_000;

/// Pieces that mean something to one body or another.
#[rustfmt::skip]
const WORDS: [&str; 45] = [
    "\r\n", "\n", "\r", "\r\n\r\n", "\0", " ", "\t", ":", ",", ";", "?", "&", "=", "/", "%", "%2F",
    "%c3%a9", "+", "id=", "GET ", "HEAD ", "OPTIONS ", "POST ", "/stream/", "/test/", "http://h",
    " HTTP/1.0", "Host: h\r\n", "Origin: http://h\r\n", "Accept: text/event-stream\r\n",
    "Accept: */*;q=0\r\n", "Content-Length: 0\r\n", "Upgrade: websocket\r\n",
    "/poll/", "after=", "wait=", "last_event_id=", "0123456789abcdef", "Last-Event-ID: ",
    "é", "\"", "\\u", "\\ud834", "&lt;", "\u{2003}",
];

fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "erlang_message" => MESSAGES.iter().map(|message| message.to_vec()).collect(),
        "erlang_nested" => NESTED.iter().map(|nested| nested.to_vec()).collect(),
        "log_record" => RECORDS.iter().map(|record| record.to_vec()).collect(),
        "core_message" => CORE.iter().map(|message| message.to_vec()).collect(),
        "websocket_frames" => FRAMES.iter().map(|frames| frames.to_vec()).collect(),
        _ => texts(target).iter().map(|text| text.as_bytes().to_vec()).collect(),
    }
}

/// Frames of clients. The keys are zero, so that what is read is what stands there.
const FRAMES: [&[u8]; 6] = [
    b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
    b"\x01\x84\0\0\0\0\xce\xba\xe1\xbd\x89\x82\0\0\0\0hi\x80\x83\0\0\0\0\xb9\xcf\x83",
    b"\x02\x80\0\0\0\0\0\x81\0\0\0\0a\x8a\x80\0\0\0\0\x80\x80\0\0\0\0\x81\x80\0\0\0\0",
    b"\x88\x87\0\0\0\0\x03\xe8reply\x81\x81\0\0\0\0x",
    b"\xc1\x87\0\0\0\0\xf2\x48\xcd\xc9\xc9\x07\x00\x82\xfe\x00\x7e\0\0\0\0xxxx",
    b"\x82\xff\0\0\0\0\0\x01\0\0\0\0\0\0",
];

/// Records of a log: two events, a join that founds, and a leave.
const RECORDS: [&[u8]; 3] = [
    b"\x01E\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\x06\
      \0\0\0\x02{}\0\x03a\0\0\0\x02{}\x80\0\0\0\x02\x83j",
    b"\x01J\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01n\x01a\
      \x01\x01\x01",
    b"\x01L\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
      \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01",
];

/// What nodes say to each other: a beat, counts, a question, a view of one member.
const CORE: [&[u8]; 4] = [
    b"\x01B\x01\x03\x09\x05\x05\x01\0\0\0\0\0\0\0\x01\x07",
    b"\x01C\x01\x03\x05\x02\x01\x80\x01",
    b"\x01A\x01\x09",
    b"\x01V\x01\x05\0\0\0\0\0\0\0\x01\x01\x03\x01n\x01a\x09\x01",
];

/// Frames of Erlang nodes, as OTP 25 sends them.
const MESSAGES: [&[u8]; 4] = [
    // {any, Node} ! {123, <<"Hi">>}
    b"p\x83h\x04a\x06Xd\0\x03a@b\0\0\0\x57\0\0\0\0\0\0\0\x01w\0d\0\x03any\x83h\x02a{m\0\0\0\x02Hi",
    // A call with an alias, and a term of every kind.
    b"p\x83h\x04a\x06Xw\x03a@b\0\0\0\x57\0\0\0\0\0\0\0\x01w\0w\x06router\x83h\x03w\x09$gen_call\
      h\x02Xw\x03a@b\0\0\0\x57\0\0\0\0\0\0\0\x01l\0\0\0\x01w\x05aliasZ\0\x03w\x03a@b\0\0\0\x01\
      \0\0\0\x01\0\0\0\x02\0\0\0\x03h\x03w\x04sendk\0\x02hit\0\0\0\x02a\x01F?\xf8\0\0\0\0\0\0\
      m\0\0\0\x01xl\0\0\0\x02jn\x09\x01\0\0\0\0\0\0\0\0\x01b\xff\xff\xff\xffv\0\x02\xc3\xa9",
    // MONITOR_P of a name, and the end of a process.
    b"p\x83h\x04a\x13Xw\x03a@b\0\0\0\x57\0\0\0\0\0\0\0\x01w\x06routerZ\0\x01w\x03a@b\
      \0\0\0\x01\0\0\0\x02",
    b"p\x83h\x05a\x15Xw\x03a@b\0\0\0\x57\0\0\0\0\0\0\0\x01Xw\x03e@b\0\0\0\x02\0\0\0\0\0\0\0\x04\
      Z\0\x03w\x03e@b\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\x06w\x06killed",
];

/// Terms within one another: lists of nothing, lists, tails, tuples, ids of tuples, values and keys
/// of maps, exports. The first two bytes are those of `erlang::nested`.
const NESTED: [&[u8]; 8] = [
    b"\x0c\x05l\0\0\0\0j",
    b"\x0c\x05l\0\0\0\x01jj",
    b"\x0c\x06l\0\0\0\x01ja\x01",
    b"\x0c\x02h\x01j",
    b"\x0c\x09h\x02m\0\0\0\x01xa\x01",
    b"\x0c\x07t\0\0\0\x01a\x01j",
    b"\x0c\x05t\0\0\0\x01a\x01a\x02",
    b"\x0c\x01qjjj",
];

fn texts(target: &str) -> &'static [&'static str] {
    match target {
        "request_head" => &[
            "GET /stream/1 HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /stream/a%20b?id=%C3%A9&x=y&id=3 HTTP/1.1\r\nHost: h:80\r\n\
             Accept: text/event-stream;q=0.5, */*;q=0.1\r\nOrigin: http://h:80\r\n\r\n",
            "HEAD http://h/test/1 HTTP/1.0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "GET /stream/1?id=a+b HTTP/1.1\r\nHost: h\r\n\r\n",
            "OPTIONS /stream/1 HTTP/1.1\r\nHost: h\r\nOrigin: null\r\n\r\n",
            "GET /stream/1 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n",
            "GET /stream/1?last_event_id=0123456789abcdef HTTP/1.1\r\nHost: h\r\n\
             Last-Event-ID: 0123456789abcdef\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: a\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n",
            "GET /stream/1 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: a\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol:\r\nSec-WebSocket-Extensions: \t\r\n\r\n",
            "GET /app/key?protocol=7 HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n",
            "GET /poll/1?after=0123456789abcdef&wait=60&id=2 HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "POST /send?token=a HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\nIdempotency-Key: \"k\"\r\nExpect: 100-continue\r\n\r\n{}",
            "GET /.well-known/mercure?topic=a HTTP/1.1\r\nHost: h\r\nLast-Event-ID:\r\n\r\n",
            "QUERY /.well-known/mercure HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\nmatch=a",
            "POST /.well-known/mercure HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\r\nPOST /stream/1 HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ],
        "id_text" => &[
            "123",
            "007",
            "9223372036854775807",
            "9223372036854775808",
            "photo:789",
            "é b",
            "a/b",
            "",
            // The longest id, and one byte more.
            const { str_of(&[b'a'; 255]) },
            const { str_of(&[b'a'; 256]) },
        ],
        "event_frames" => &[
            "alice\n{\"a\": [1, -2.5e3, null, true],\r\n \"b\": \"\\u00e9\\n\\ud834\\udd1e\"}",
            "\"<i>\\n\\t\\\\\\\"&amp;\\ud834\\udd1e\"",
            "photo:789\n [ ] ",
            "a\"b\\c\n0",
        ],
        "classic_message" => &["\0\0\0\0\0\0\0\0\"it's\\u0041\"", "12345678{}", "\"\\ud834\\n\""],
        "chunks" => &["\u{3}abc\u{1}d\0\u{10}0123456789abcdef"],
        // The first character chooses transport and framing.
        "client_stream" => &[
            "\u{0}16\r\n: x\n\nid: 1\nevent: e\nda\r\n9;x=y\r\nta: a\r\n\r\n\r\n0\r\nX: y\r\n\r\n",
            "\u{8}\u{feff}data: a\rdata:b\r\n\r\ndata\n\nid\ndata: c\n\n",
            "\u{9}{\"id\":\"1\"}\n\n{\"id\":\"2\"}\r\n",
            "\u{a}Welcome, id a<br/>\nRecvd msg #1: 'x'<br/>\n<!-- -->\nRecvd msg #2: 'y'<br/>\n",
            "\u{5}HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "\u{3}\u{1}\u{5}Hello",
        ],
        "proxy_header" => &[
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET / HTTP/1.1\r\n",
            "PROXY TCP6 2001:db8::1 ::1 1 2\r\n",
            "PROXY UNKNOWN ffff:: ffff:: 1 2\r\n",
            "\r\n\r\n\0\r\nQUIT\n!\x11\0\x0fabcdABCD\x01\x02\x03\x04\x04\0\0GET /",
            "\r\n\r\n\0\r\nQUIT\n!!\0\x24aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb\0\x01\0\x02",
            "\r\n\r\n\0\r\nQUIT\n \0\0\0",
        ],
        "forwarded" => &[
            "for=192.0.2.60;proto=http;by=203.0.113.43, for=\"[2001:db8:cafe::17]:4711\"",
            "For=\"192.0.2.47:_a\";host=\"a\\\"b, c\"\nfor=unknown, for=_b\n for=10.0.0.1",
            "192.0.2.43, 2001:db8::1,[fe80::1]:80 \n10.1.2.3:4",
        ],
        "server_list" => &[
            "#------ Server -------\t-Mem-#\n10.0.1.1:11211\t600\n10.0.1.2:11211\t300\n",
            "10.0.1.1:11211 100\r\n\n \t\n  10.0.1.2:11211 \t 18446744073709551515\n# \u{feff}",
            "a 1\na 1\nb 1000000\n#a",
        ],
        "websocket_command" => &[
            "{\"login\":[\"a\\u0062\",123,\"c\"]}",
            "{\"logout\":[]}",
            " { \"ping\" : -1.5e3 } ",
            "{\"ping\":1,\"login\":[1]}",
            "{\"send\":{\"about\":1,\"data\":[2]},\"ref\":\"a\"}",
        ],
        // The first is well signed.
        "token" => &[
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.KWE0CAH_3Ofp76OKZjTDGsdcPip8fXiG9ViZDn9J92w",
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ.",
            "eyJhbGciOiJIUzI1NiIsImNyaXQiOltdfQ.e30.AAAA",
        ],
        "token_claims" => &[
            "{\"sub\":\"bob\",\"exp\":4102444800,\"iat\":1.5,\"nbf\":0,\"jti\":\"x\"}",
            "{\"encke\":{\"ids\":[\"a\",7,\"room:*\",\"*\"],\"max_ids\":3,\
             \"max_connections\":1}}",
            " {\"sub\":7,\"aud\":[\"a\"],\"iss\":\"b\",\"x\":[{}]} ",
            "{\"sub\":\"a\\u0062\",\"exp\":1e9}",
        ],
        _ => &["\0\u{10}\u{20}\u{41}\u{52}\u{63}\u{74}", "abcdefgh01234567ABCDEFGHIJKLMNOP"],
    }
}

const fn str_of(ascii: &[u8]) -> &str {
    match str::from_utf8(ascii) {
        Ok(text) => text,
        Err(_) => panic!("a seed is ASCII"),
    }
}

/// One of the seeds, with up to eight changes.
fn mutant(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = rng.choice(seeds).cloned().unwrap_or_default();
    for _ in 0..rng.usize(..=8) {
        let at = rng.usize(..=bytes.len());
        let end = (at + rng.usize(..=8)).min(bytes.len());
        match rng.u8(..8) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, rng.u8(..)),
            3 if at < bytes.len() => bytes[at] = rng.u8(..),
            4 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            5 => drop(bytes.splice(at..at, bytes[at..end].repeat(rng.usize(..40)))),
            6 => {
                let other = rng.choice(seeds).map_or(&[][..], Vec::as_slice);
                bytes.splice(at.., other[at.min(other.len())..].iter().copied());
            }
            _ => {
                let word = rng.choice(WORDS).unwrap_or("");
                bytes.splice(at..at, word.bytes());
            }
        }
    }
    bytes
}

/// Names the bytes that broke a promise before the panic goes on.
fn run(name: &str, target: Target, bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(bytes))) {
        println!("{name} breaks on b\"{}\"", bytes.escape_ascii());
        resume_unwind(panic);
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_body_holds_on_its_seeds_and_their_mutants() {
    let seed = seed();
    let runs = variable("ENCKE_FUZZ_RUNS").unwrap_or(RUNS);
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        seeds.iter().for_each(|bytes| run(name, target, bytes));
        let mut rng = Rng::with_seed(seed);
        for _ in 0..runs {
            run(name, target, &mutant(&mut rng, &seeds));
        }
    }
}

#[test]
fn every_body_holds_on_noise() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    for (name, target) in TARGETS {
        for _ in 0..variable("ENCKE_FUZZ_RUNS").unwrap_or(RUNS) / 10 {
            let len = rng.usize(..600);
            let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            run(name, target, &bytes);
        }
    }
}
