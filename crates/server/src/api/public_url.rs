//! Under which address a browser reaches the public port: the one that the operator names
//! (`--public-url`), or what follows from the address at which the browser reached the API.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use proto::request::split_port;

/// The public port as a browser reaches it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicUrl {
    /// Whether TLS is spoken there, by it or by a proxy before it.
    secure: bool,
    /// Of its characters none has a meaning in a content security policy.
    authority: String,
    /// Where a proxy puts it: nothing, or a path without a slash at its end.
    path: String,
}

impl PublicUrl {
    /// The port that listens at `listen`, for a client that calls the API's host `host`. Where the
    /// port takes connections at the address that the client used, it is the client's name for
    /// that; otherwise it is the port's own address. `host` is the client's word, so nothing but a
    /// name or an address is taken over from it.
    /// It speaks TLS when it is `secure`.
    pub(super) fn of(listen: SocketAddr, host: &str, secure: bool) -> PublicUrl {
        let (name, _) = split_port(host);
        let shared = match name.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => listen.ip().is_unspecified() || listen.ip() == address,
            Err(_) => listen.ip().is_unspecified() || listen.ip().is_loopback() && is_name(name),
        };
        let authority =
            if shared { format!("{name}:{}", listen.port()) } else { listen.to_string() };
        PublicUrl { secure, authority, path: String::new() }
    }

    /// The origin of the pages that stand there.
    pub fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// What a page must be let connect to (CSP Level 3, section 2.3.1).
    pub(super) fn sources(&self) -> String {
        let secure = if self.secure { "s" } else { "" };
        format!("http{secure}://{0} ws{secure}://{0}", self.authority)
    }
}

impl Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicUrl, String> {
        let read = || {
            let (scheme, rest) = text.split_once("://")?;
            let secure = ["http", "https"].iter().position(|known| *known == scheme)? == 1;
            let rest = rest.trim_end_matches('/');
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let good = is_authority(authority) && is_path(path);
            good.then(|| PublicUrl { secure, authority: authority.into(), path: path.into() })
        };
        let hint = "write the address at which browsers reach --listen: https://push.example.org";
        read().ok_or_else(|| hint.into())
    }
}

fn is_authority(text: &str) -> bool {
    let (name, port) = split_port(text);
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let good = literal.map_or_else(|| is_name(name), |ip| ip.parse::<Ipv6Addr>().is_ok());
    // A number may have a sign, a port may not.
    let is_port = |port: &str| !port.starts_with('+') && port.parse::<u16>().is_ok();
    good && port.is_none_or(is_port)
}

fn is_path(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

#[cfg(test)]
mod tests;
