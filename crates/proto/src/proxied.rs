//! The PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt` of 2020/03/05): what a
//! proxy says of its client before the client's own bytes.
//!
//! Whether it is believed is the caller's to say: anybody can send it. Only the client's address is
//! read. The rest is skipped: ports, the address that the client called, and the TLVs of version 2,
//! the checksum among them, which the specification leaves to receivers that know it.
//!
//! Cost: the first byte, for a client without it.

// The addresses of `std::net`, without its sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest header of version 1, its line end included (section 2.1).
pub const V1_BYTES_MAX: usize = 107;

/// The longest header of version 2 that is taken: addresses have at most 216 bytes, and what
/// proxies add of TLS certificates and of clouds' endpoints is some hundreds.
pub const V2_BYTES_MAX: usize = 4096;

const V1_SIGNATURE: &[u8] = b"PROXY ";

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// What the bytes at the start of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proxied {
    /// The start of a header, or what may be one.
    NeedMore,
    /// The client's own: there is no header.
    No,
    /// A header.
    Header {
        /// The client's address; `None` where the proxy speaks for itself (`LOCAL`), does not know
        /// it (`UNKNOWN`), or it is none of the internet.
        client: Option<IpAddr>,
        /// How many bytes it takes.
        len: usize,
    },
    /// A header that breaks the rules.
    Broken,
}

/// Looks at what has come on a connection so far.
pub fn parse(buf: &[u8]) -> Proxied {
    if begins_with(buf, V1_SIGNATURE) {
        return if buf.len() < V1_SIGNATURE.len() { Proxied::NeedMore } else { parse_v1(buf) };
    }
    if begins_with(buf, V2_SIGNATURE) {
        return parse_v2(buf);
    }
    Proxied::No
}

/// Whether `buf` begins with a signature, or is the beginning of it.
fn begins_with(buf: &[u8], signature: &[u8]) -> bool {
    let len = buf.len().min(signature.len());
    buf[..len] == signature[..len]
}

/// Section 2.1: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443` and CRLF.
fn parse_v1(buf: &[u8]) -> Proxied {
    let window = &buf[..buf.len().min(V1_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return if buf.len() < V1_BYTES_MAX { Proxied::NeedMore } else { Proxied::Broken };
    };
    let line = window[..end].strip_suffix(b"\r").and_then(|line| str::from_utf8(line).ok());
    let client = line.and_then(|line| v1_client(&line[V1_SIGNATURE.len()..]));
    client.map_or(Proxied::Broken, |client| Proxied::Header { client, len: end + 1 })
}

fn v1_client(line: &str) -> Option<Option<IpAddr>> {
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(None);
    }
    let mut words = line.split(' ');
    let family = words.next()?;
    let mut address = || match family {
        "TCP4" => words.next()?.parse().ok().map(IpAddr::V4),
        "TCP6" => words.next()?.parse().ok().map(IpAddr::V6),
        _ => None,
    };
    let (client, _called) = (address()?, address()?);
    let is_port = |word: &str| word.parse::<u16>().is_ok_and(|port| port.to_string() == word);
    let ports = [words.next()?, words.next()?];
    let is_whole = ports.into_iter().all(is_port) && words.next().is_none();
    is_whole.then_some(Some(client))
}

/// Section 2.2: signature, version and command, family, length, addresses, TLVs.
fn parse_v2(buf: &[u8]) -> Proxied {
    const HEAD: usize = 16;
    let Some(&[command, family, high, low]) = buf.get(12..HEAD) else {
        return Proxied::NeedMore;
    };
    let len = HEAD + usize::from(u16::from_be_bytes([high, low]));
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Proxied::Broken,
    };
    if len > V2_BYTES_MAX {
        return Proxied::Broken;
    }
    let Some(rest) = buf.get(HEAD..len) else { return Proxied::NeedMore };
    let client = match family {
        _ if is_local => None,
        // TCP over IPv4 and IPv6: the client's address, the called one, two ports.
        0x11 => match rest.first_chunk::<12>() {
            Some(&[a, b, c, d, ..]) => Some(Ipv4Addr::new(a, b, c, d).into()),
            None => return Proxied::Broken,
        },
        0x21 => match rest.first_chunk::<36>().and_then(|rest| rest.first_chunk::<16>()) {
            Some(&address) => Some(Ipv6Addr::from(address).into()),
            None => return Proxied::Broken,
        },
        // Unspecified, Unix sockets, datagrams.
        _ => None,
    };
    Proxied::Header { client, len }
}

#[cfg(test)]
mod tests;
