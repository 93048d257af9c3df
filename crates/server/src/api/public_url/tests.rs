//! Addresses as operators and browsers name them.

use super::*;

#[test]
fn client_s_own_name_is_kept_where_the_port_listens_there() {
    for (listen, host, public) in [
        ("127.0.0.1:8000", "127.0.0.1:8001", "127.0.0.1:8000"),
        ("127.0.0.1:8000", "localhost:8001", "localhost:8000"),
        ("0.0.0.0:8000", "push.example:8001", "push.example:8000"),
        ("0.0.0.0:8000", "10.0.0.5:8001", "10.0.0.5:8000"),
        ("[::]:8000", "[::1]:8001", "[::1]:8000"),
        ("[::]:8000", "[::1]", "[::1]:8000"),
        ("10.0.0.5:8000", "127.0.0.1:8001", "10.0.0.5:8000"),
        ("10.0.0.5:8000", "localhost:8001", "10.0.0.5:8000"),
        ("127.0.0.1:8000", "", "127.0.0.1:8000"),
    ] {
        let url = PublicUrl::of(listen.parse().unwrap(), host, false);
        assert_eq!(url.to_string(), format!("http://{public}"), "{host}");
        assert_eq!(url.sources(), format!("http://{public} ws://{public}"));
    }
}

#[test]
fn nothing_but_a_name_gets_into_the_policy() {
    let listen = "127.0.0.1:8000".parse().unwrap();
    for host in ["a b", "*", "x;script-src *", "a,b", "é", "a/b", "[::1", "x\"y:1"] {
        assert_eq!(PublicUrl::of(listen, host, false).authority, "127.0.0.1:8000", "{host}");
    }
}
#[test]
fn named_url_is_read_as_it_is_written() {
    for (text, url, sources) in [
        (
            "https://push.example.org/",
            "https://push.example.org",
            "https://push.example.org wss://push.example.org",
        ),
        ("http://[::1]:80/a/b/", "http://[::1]:80/a/b", "http://[::1]:80 ws://[::1]:80"),
    ] {
        let read: PublicUrl = text.parse().unwrap();
        assert_eq!((read.to_string().as_str(), read.sources().as_str()), (url, sources));
    }
    for text in [
        "push.example.org",
        "ftp://a.b",
        "https://",
        "https:///a",
        "https://a:b",
        "https://a:",
        "https://u@a.b",
        "https://a.b?c",
        "https://a.b/;script-src *",
        "https://a;b",
        "https://[a]",
        "https://a.b:+80",
    ] {
        assert!(text.parse::<PublicUrl>().is_err(), "{text}");
    }
}
