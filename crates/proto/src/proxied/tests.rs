//! Headers of both versions, split wherever they can be, and what breaks their rules.

use super::*;

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&V2_SIGNATURE[..], &[command, family], &len, rest].concat()
}

fn tcp4() -> Vec<u8> {
    [&[192, 0, 2, 1, 198, 51, 100, 1][..], &[0xdc, 0x04, 0x01, 0xbb]].concat()
}

fn tcp6() -> Vec<u8> {
    let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
    [&address.octets()[..], &address.octets(), &[0, 1, 0, 2]].concat()
}

/// Headers, and whom they name.
fn headers() -> Vec<(Vec<u8>, Option<&'static str>)> {
    // PP2_TYPE_AUTHORITY and PP2_TYPE_NOOP.
    let tlvs = b"\x02\x00\x0bexample.org\x04\x00\x03...";
    let long = [0; V2_BYTES_MAX - 16 - 12];
    vec![
        (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".into(), Some("192.0.2.1")),
        (
            b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n".into(),
            Some("255.255.255.255"),
        ),
        (b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n".into(), Some("2001:db8::1")),
        (b"PROXY UNKNOWN\r\n".into(), None),
        (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n".into(), None),
        (v2(0x21, 0x11, &tcp4()), Some("192.0.2.1")),
        (v2(0x21, 0x21, &tcp6()), Some("2001:db8::1")),
        (v2(0x21, 0x11, &[&tcp4(), &tlvs[..]].concat()), Some("192.0.2.1")),
        (v2(0x21, 0x11, &[&tcp4()[..], &long].concat()), Some("192.0.2.1")),
        (v2(0x20, 0x00, &[]), None),
        (v2(0x20, 0x11, &tcp4()), None),
        (v2(0x21, 0x00, &[]), None),
        (v2(0x21, 0x31, &[0; 216]), None),
        (v2(0x21, 0x12, &tcp4()), None),
    ]
}

#[test]
fn header_is_read_wherever_it_is_split() {
    for (header, client) in headers() {
        let client = client.map(|client| client.parse().unwrap());
        let whole = Proxied::Header { client, len: header.len() };
        for request in ["", "GET / HTTP/1.1\r\n", "PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", "\n"] {
            assert_eq!(parse(&[&header, request.as_bytes()].concat()), whole);
        }
        for split in 0..header.len() {
            assert_eq!(parse(&header[..split]), Proxied::NeedMore, "{split} of {header:?}");
        }
    }
}

#[test]
fn request_is_no_header_from_the_byte_on_that_tells() {
    let requests: [(&[u8], usize); 6] = [
        (b"GET / HTTP/1.1\r\n", 1),
        (b"POST / HTTP/1.1\r\n", 2),
        (b"PROXYING / HTTP/1.1\r\n", 6),
        (b"\r\nGET / HTTP/1.1\r\n", 3),
        (b"\r\n\r\nGET / HTTP/1.1\r\n", 5),
        (b"\x16\x03\x01\x02\x00\x01", 1),
    ];
    for (request, tells) in requests {
        for len in 0..request.len() {
            let expected = if len < tells { Proxied::NeedMore } else { Proxied::No };
            assert_eq!(parse(&request[..len]), expected, "{len} of {request:?}");
        }
    }
}

#[test]
fn what_breaks_the_rules_is_told_at_once() {
    let lines = [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 \r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 02\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 +2\r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.1 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
    ];
    for line in lines {
        assert_eq!(parse(line.as_bytes()), Proxied::Broken, "{line:?}");
    }
    let long = format!("PROXY UNKNOWN {}", "x".repeat(V1_BYTES_MAX));
    assert_eq!(parse(&long.as_bytes()[..V1_BYTES_MAX - 1]), Proxied::NeedMore);
    assert_eq!(parse(long.as_bytes()), Proxied::Broken);
    let wrong = [
        v2(0x11, 0x11, &tcp4()),
        v2(0x22, 0x11, &tcp4()),
        v2(0x21, 0x11, &tcp4()[..11]),
        v2(0x21, 0x21, &tcp6()[..35]),
        v2(0x21, 0x11, &[0; V2_BYTES_MAX - 15]),
    ];
    for header in wrong {
        assert_eq!(parse(&header), Proxied::Broken, "{header:?}");
    }
}
