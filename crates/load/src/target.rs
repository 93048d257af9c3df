//! Where to send requests: a URL of the form `http://host:port/path` or `https://…`, in which
//! `{id}` stands for the listener's id (RFC 3986). User names are not for load tools on a test
//! bench.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};

use proto::request::split_port;
use tls::rustls::pki_types::ServerName;

/// Why a URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not of the form that is understood.
    #[error("`{0}` is no URL of the form http://host:port/path or https://host:port/path")]
    Form(String),
    /// The host has no address.
    #[error("no address for `{host}`: {error}")]
    Host {
        /// The host and port of the URL.
        host: String,
        /// What the resolver says.
        error: std::io::Error,
    },
}

/// A parsed and resolved URL.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The host's first address.
    pub(crate) address: SocketAddr,
    /// Host and port for the `Host` field.
    pub(crate) host: String,
    /// Whom the server's certificate is to be for, where TLS is spoken.
    pub(crate) tls_name: Option<ServerName<'static>>,
    /// What stands before, between and behind the `{id}`s of the path.
    path: Vec<String>,
}

impl Target {
    /// Parses `url` and resolves its host.
    pub(crate) fn parse(url: &str) -> Result<Target, TargetError> {
        let form = || TargetError::Form(url.to_owned());
        let secured = url.strip_prefix("https://");
        let rest = secured.or_else(|| url.strip_prefix("http://")).ok_or_else(form)?;
        let (host, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !printable(host) || !printable(path) {
            return Err(form());
        }
        let (name, port) = split_port(host);
        let port_given = port.is_some_and(|port| port.parse::<u16>().is_ok());
        let usual = if secured.is_some() { 443 } else { 80 };
        let with_port = if port_given { host.to_owned() } else { format!("{host}:{usual}") };
        let tls_name = match secured {
            Some(_) => Some(server_name(name).ok_or_else(form)?),
            None => None,
        };
        let addresses = with_port.to_socket_addrs();
        let first = addresses.and_then(|mut addresses| {
            let none = || std::io::Error::from(std::io::ErrorKind::NotFound);
            addresses.next().ok_or_else(none)
        });
        let address = first.map_err(|error| TargetError::Host { host: with_port, error })?;
        let path = path.split("{id}").map(str::to_owned).collect();
        Ok(Target { address, host: host.to_owned(), tls_name, path })
    }

    /// Appends the path for the listener `id`.
    pub(crate) fn push_path(&self, id: u64, out: &mut Vec<u8>) {
        for (place, text) in self.path.iter().enumerate() {
            if place > 0 {
                write!(out, "{id}").expect("writing to memory does not fail");
            }
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// As whom the listener `id` is online: the part of the path, or the value of the parameter,
    /// that its number stands in; without one the path's last part.
    pub(crate) fn id(&self, id: u64) -> String {
        let (before, number, after) = match &*self.path {
            [before, after, ..] => (&**before, id.to_string(), &**after),
            path => (path.first().map_or("", |path| before_query(path)), String::new(), ""),
        };
        let begin = before.rfind(['/', '?', '&', '=']).map_or(0, |at| at + 1);
        let end = after.find(['/', '?', '&']).unwrap_or(after.len());
        format!("{}{number}{}", &before[begin..], &after[..end])
    }

    /// What parts the path from a parameter behind it.
    pub(crate) fn separator(&self) -> char {
        if self.path.iter().any(|text| text.contains('?')) { '&' } else { '?' }
    }
}

/// A host, be it a name or an address, as certificates have it.
fn server_name(host: &str) -> Option<ServerName<'static>> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).ok()
}

fn before_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_whom_the_path_names() {
        let id = |path| Target::parse(&format!("http://127.0.0.1:1{path}")).unwrap().id(7);
        assert_eq!(id("/stream/{id}"), "7");
        assert_eq!(id("/stream/user:{id}?x=1"), "user:7");
        assert_eq!(id("/sub?ch=c{id}.x&y={id}"), "c7.x");
        assert_eq!(id("/s/{id}/now"), "7");
        assert_eq!(id("/stream/news?x=/1"), "news");
        assert_eq!(id(""), "");
    }

    fn path(url: &str, id: u64) -> String {
        let mut path = Vec::new();
        Target::parse(url).unwrap().push_path(id, &mut path);
        String::from_utf8(path).unwrap()
    }

    #[test]
    fn id_stands_where_the_url_says() {
        assert_eq!(path("http://127.0.0.1:8000/stream/{id}", 12), "/stream/12");
        assert_eq!(path("http://127.0.0.1:8000/sub?ch={id}&x=1", 7), "/sub?ch=7&x=1");
        assert_eq!(path("http://127.0.0.1:8000/s/{id}?id=x{id}", 7), "/s/7?id=x7");
        assert_eq!(path("http://127.0.0.1:8000/all", 7), "/all");
        assert_eq!(path("http://127.0.0.1:8000", 7), "/");
        let separator = |url: &str| Target::parse(url).unwrap().separator();
        assert_eq!(separator("http://127.0.0.1:8000/poll/{id}"), '?');
        assert_eq!(separator("http://127.0.0.1:8000/poll/{id}?id=7"), '&');
        assert_eq!(separator("http://127.0.0.1:8000/poll?id={id}"), '&');
    }

    #[test]
    fn host_and_port_are_told() {
        let target = Target::parse("http://127.0.0.2:8000/").unwrap();
        assert_eq!(target.address, "127.0.0.2:8000".parse().unwrap());
        assert_eq!(target.host, "127.0.0.2:8000");
        assert_eq!(Target::parse("http://127.0.0.1/").unwrap().address.port(), 80);
        let secured =
            |url: &str| Target::parse(url).unwrap().tls_name.map(|name| name.to_str().into_owned());
        assert_eq!(secured("http://127.0.0.1:1/"), None);
        assert_eq!(secured("https://localhost:1/").unwrap(), "localhost");
        assert_eq!(secured("https://[::1]:1/").unwrap(), "::1");
        assert_eq!(Target::parse("https://127.0.0.1/").unwrap().address.port(), 443);
        let v6 = Target::parse("http://[::1]:9/").unwrap();
        assert_eq!(v6.address, "[::1]:9".parse().unwrap());
    }

    #[test]
    fn what_cannot_be_reached_is_refused() {
        for url in ["", "127.0.0.1:8000", "https://", "http://", "http://u@h/", "http://a/ b"] {
            assert!(matches!(Target::parse(url), Err(TargetError::Form(_))), "{url}");
        }
        assert!(matches!(Target::parse("http://[::1/"), Err(TargetError::Host { .. })));
    }
}
