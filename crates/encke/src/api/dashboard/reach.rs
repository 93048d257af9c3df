//! Under which address a browser reaches the public port, when it reached the API.

use std::net::{IpAddr, SocketAddr};

/// The authority (RFC 3986, section 3.2) of the public port, which listens at `listen`, for a
/// client that calls the API's host `host`. Where the port takes connections at the address that
/// the client used, it is the client's name for that; otherwise it is the port's own address.
/// `host` is the client's word, so nothing but a name or an address is taken over from it.
pub(super) fn public_authority(listen: SocketAddr, host: &str) -> String {
    let name = host_name(host);
    let shared = match name.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => listen.ip().is_unspecified() || listen.ip() == address,
        Err(_) => listen.ip().is_unspecified() || listen.ip().is_loopback() && is_name(name),
    };
    if shared { format!("{name}:{}", listen.port()) } else { listen.to_string() }
}

/// `[::1]:8001` is `[::1]`, `example.org` is itself.
fn host_name(host: &str) -> &str {
    let name = |(name, port): (&'_ str, &'_ str)| {
        port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name.len())
    };
    let len = host.rsplit_once(':').and_then(name).unwrap_or(host.len());
    &host[..len]
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

#[cfg(test)]
mod tests {
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
            assert_eq!(public_authority(listen.parse().unwrap(), host), public, "{host}");
        }
    }

    #[test]
    fn nothing_but_a_name_gets_into_the_policy() {
        let listen = "127.0.0.1:8000".parse().unwrap();
        for host in ["a b", "*", "x;script-src *", "a,b", "é", "a/b", "[::1", "x\"y:1"] {
            assert_eq!(public_authority(listen, host), "127.0.0.1:8000", "{host}");
        }
    }
}
