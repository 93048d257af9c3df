//! Lists as the RFC has them, as proxies write them, and as clients would have them read.

use super::*;

fn trusted() -> Networks {
    Networks::new(["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).into())
}

fn client(elements: &[&str], addresses: &[&str]) -> Option<String> {
    let bytes = |lines: &[&'static str]| lines.iter().map(|line| line.as_bytes()).collect();
    // Only what lives as long as the test is asked about.
    let leak = |lines: &[&str]| -> Vec<&'static str> {
        lines.iter().map(|line| &*String::leak((*line).to_owned())).collect()
    };
    let forwarded =
        Forwarded { elements: bytes(&leak(elements)), addresses: bytes(&leak(addresses)) };
    forwarded.client(&trusted()).map(|address| address.to_string())
}

#[test]
fn forwarded_names_the_last_address_that_is_not_trusted() {
    let cases: [(&[&str], Option<&str>); 27] = [
        (&["for=192.0.2.60;proto=http;by=203.0.113.43"], Some("192.0.2.60")),
        (&["For=\"[2001:db8:cafe::17]:4711\""], Some("2001:db8:cafe::17")),
        (&["for=\"[2001:db8:cafe::17]\""], Some("2001:db8:cafe::17")),
        (&["for=192.0.2.43, for=198.51.100.17"], Some("198.51.100.17")),
        (&["for=192.0.2.43", "for=198.51.100.17"], Some("198.51.100.17")),
        (&["for=192.0.2.43, for=10.0.0.1"], Some("192.0.2.43")),
        (
            &["for=1.1.1.1, for=192.0.2.43", "for=\"10.0.0.1:80\" , ,for=10.2.0.1"],
            Some("192.0.2.43"),
        ),
        (&["for=10.0.0.3, for=\"[fd00::1]\""], Some("10.0.0.3")),
        (&["by=10.0.0.1;FOR=\"192.0.2.47:47011\""], Some("192.0.2.47")),
        (&["for=\"192.0.2.47:_obf.us-ed\""], Some("192.0.2.47")),
        (&["host=\"a, for=1.1.1.1\";for=192.0.2.43"], Some("192.0.2.43")),
        (&["for=192.0.2.43;host=\"\\\", for=1.1.1.1\""], Some("192.0.2.43")),
        (&["for=\"1.1.1.1, for=192.0.2.43"], Some("192.0.2.43")),
        (&["host=\"\\\\\";for=1.1.1.1, for=192.0.2.43;host=\"\\\\\""], Some("192.0.2.43")),
        (&["for=_hidden"], None),
        (&["for=unknown"], None),
        (&["for=1.1.1.1, for=unknown"], None),
        (&["for=1.1.1.1, for=_SEVKISEK"], None),
        (&["for=1.1.1.1, for=_x, for=10.0.0.1"], Some("10.0.0.1")),
        (&["for=1.1.1.1, proto=https"], None),
        (&["for=1.1.1.1;for=2.2.2.2"], None),
        (&["for=1.1.1.1, for=\"2.2.2.2"], None),
        (&["for=192.0.2.43:80"], None),
        (&["for=2001:db8::1"], None),
        (&["for=\"192.0.2.43:port\""], None),
        (&[""], None),
        (&[], None),
    ];
    for (lines, expected) in cases {
        assert_eq!(client(lines, &[]).as_deref(), expected, "{lines:?}");
    }
}

#[test]
fn x_forwarded_for_names_it_too_and_counts_where_both_are_there() {
    let cases: [(&[&str], Option<&str>); 14] = [
        (&["192.0.2.43"], Some("192.0.2.43")),
        (&["1.1.1.1, 192.0.2.43"], Some("192.0.2.43")),
        (&["1.1.1.1", "192.0.2.43,10.0.0.1"], Some("192.0.2.43")),
        (&["1.1.1.1, 192.0.2.43:1234, 10.0.0.1:80"], Some("192.0.2.43")),
        (&["2001:db8::1"], Some("2001:db8::1")),
        (&["[2001:db8::1]:443"], Some("2001:db8::1")),
        (&["10.0.0.1, fd00::1"], Some("10.0.0.1")),
        (&["\", 192.0.2.43"], Some("192.0.2.43")),
        (&["\"1.1.1.1", "2.2.2.2\\\", 192.0.2.43, 10.0.0.1"], Some("192.0.2.43")),
        (&["1.1.1.1, unknown"], None),
        (&["1.1.1.1, 999.0.0.1"], None),
        (&["1.1.1.1, <script>"], None),
        (&["1.1.1.1,"], Some("1.1.1.1")),
        (&[" , "], None),
    ];
    for (lines, expected) in cases {
        assert_eq!(client(&[], lines).as_deref(), expected, "{lines:?}");
        let both = client(&["for=9.9.9.9"], lines);
        assert_eq!(both.as_deref(), expected, "a client writes the other one: {lines:?}");
    }
}
