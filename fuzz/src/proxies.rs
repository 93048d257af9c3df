//! For whom a proxy asks: PROXY headers and the fields of requests.

use std::net::IpAddr;

use proto::{Forwarded, Networks, Proxied, proxied};

/// A header is the same however much of it has come and whatever stands behind it, and the first
/// version is what a reader by words makes of it.
pub fn proxy_header(bytes: &[u8]) {
    let whole = proxied::parse(bytes);
    for len in 0..bytes.len().min(300) {
        let part = proxied::parse(&bytes[..len]);
        assert!(part == Proxied::NeedMore || part == whole, "{len} bytes: {part:?}, {whole:?}");
    }
    let Proxied::Header { client, len } = whole else { return };
    assert!(len <= bytes.len() && len <= proxied::V2_BYTES_MAX);
    assert_eq!(proxied::parse(&bytes[..len]), whole);
    assert_eq!(proxied::parse(&bytes[..len - 1]), Proxied::NeedMore);
    let Some(line) = bytes[..len].strip_prefix(b"PROXY ") else { return };
    assert!(len <= proxied::V1_BYTES_MAX);
    let line = std::str::from_utf8(line).unwrap().strip_suffix("\r\n").unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let named = match words[..] {
        ["TCP4" | "TCP6", from, ..] => Some(from.parse::<IpAddr>().unwrap()),
        _ => None,
    };
    assert_eq!(client, named);
}

/// Lines of both fields: the address that counts stands there, and nothing that is written before
/// what a trusted proxy wrote changes it.
pub fn forwarded(bytes: &[u8]) {
    let trusted = Networks::new(vec!["10.0.0.0/8".parse().unwrap()]);
    let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let client = |elements: &[&[u8]], addresses: &[&[u8]]| {
        let (elements, addresses) = (elements.to_vec(), addresses.to_vec());
        Forwarded { elements, addresses }.client(&trusted)
    };
    for address in [client(&lines, &[]), client(&[], &lines)].into_iter().flatten() {
        let is_ours = |byte: &u8| byte.is_ascii_hexdigit() || b".:".contains(byte);
        let words = bytes.split(|byte| !is_ours(byte)).filter_map(|word| str::from_utf8(word).ok());
        // Its port may stand behind it.
        let mut starts = words.flat_map(|word| {
            let ends = word.match_indices(':').map(|(at, _)| at).chain([word.len()]);
            ends.map(|end| &word[..end]).collect::<Vec<_>>()
        });
        assert!(starts.any(|word| word.parse() == Ok(address)), "{address} stands nowhere");
    }
    let address = "192.0.2.9".parse().ok();
    let appended = [&lines[..], &[b"192.0.2.9", b" 10.0.0.1 "]].concat();
    assert_eq!(client(&lines, &appended), address);
    let joined = lines.join(&b", "[..]);
    assert_eq!(client(&lines, &[&[&joined[..], b",192.0.2.9, 10.0.0.1"].concat()]), address);
    let by_proxies: [&[u8]; 2] = [b"for=192.0.2.9;proto=http", b"for=\"10.0.0.1:80\""];
    assert_eq!(client(&[&lines[..], &by_proxies].concat(), &[]), address);
    let joined = [&joined[..], by_proxies[0], by_proxies[1]].join(&b", "[..]);
    assert_eq!(client(&[&joined], &[]), address);
}
