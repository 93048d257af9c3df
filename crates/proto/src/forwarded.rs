//! For whom a proxy asks: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy on the way appends the address that it was called from, so the list is as true as its
//! right end. It is read from there, past the proxies that are trusted, to the first address that
//! is not one of them. What stands to the left of that anybody may have written.
//!
//! Where both fields are there `X-Forwarded-For` counts. It is the one that proxies write unasked,
//! and one that writes it passes a client's own `Forwarded` on.

// The addresses of `std::net`, without its sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Networks;

/// The lists of one request, a value for each header line, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forwarded<'b> {
    /// `Forwarded`.
    pub elements: Vec<&'b [u8]>,
    /// `X-Forwarded-For`.
    pub addresses: Vec<&'b [u8]>,
}

impl Forwarded<'_> {
    /// Whether neither field is there.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty() && self.addresses.is_empty()
    }

    /// The address that a peer among the `trusted` asks for: the last one that is none of them. Of
    /// a way through them alone it is the first. `None` where the last proxy knew no address, or
    /// hides it (RFC 7239, section 6): then the peer itself is all that is known.
    pub fn client(&self, trusted: &Networks) -> Option<IpAddr> {
        let mut client = None;
        let mut is_trusted = |node: Option<IpAddr>| {
            client = node.or(client);
            node.is_some_and(|address| trusted.contain(address))
        };
        // Each stops where it is told: what is further left is not looked at.
        let _ = match self.addresses.is_empty() {
            true => right_to_left(&self.elements, true).all(|it| is_trusted(element_for(it))),
            false => right_to_left(&self.addresses, false).all(|it| is_trusted(address_of(it))),
        };
        client
    }
}

/// The parts of a list on several lines, the last one first; empty ones are none (RFC 9110, section
/// 5.6.1). With `quotes` a comma within quotes parts nothing.
///
/// It is read from its end: a quote that a client left open must not swallow what its proxy put
/// behind it.
fn right_to_left<'l>(lines: &'l [&'l [u8]], quotes: bool) -> impl Iterator<Item = &'l [u8]> {
    let parts = lines.iter().rev().flat_map(move |line| {
        let (mut is_quoted, mut end, mut at) = (false, line.len(), line.len());
        std::iter::from_fn(move || {
            while at > 0 {
                at -= 1;
                is_quoted ^= quotes && line[at] == b'"' && !is_escaped(line, at);
                if line[at] == b',' && !is_quoted {
                    return Some(&line[at + 1..std::mem::replace(&mut end, at)]);
                }
            }
            // What is left of the first comma, once.
            (end > 0).then(|| &line[..std::mem::take(&mut end)])
        })
    });
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Whether a backslash stands before the byte at `at` that no other one takes back.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Splits at each `at` that stands outside a quoted string (RFC 9110, section 5.6.4).
fn split_unquoted(text: &[u8], at: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |&byte| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        is_escaped = is_quoted && byte == b'\\';
        is_quoted ^= byte == b'"';
        byte == at && !is_quoted
    })
}

/// The address in the `for` of one element (RFC 7239, section 4).
fn element_for(element: &[u8]) -> Option<IpAddr> {
    let mut nodes = split_unquoted(element, b';').filter_map(|pair| {
        let (name, value) = pair.trim_ascii().split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    match (nodes.next(), nodes.next()) {
        (Some([b'"', quoted @ .., b'"']), None) => address_of(quoted),
        // A token has no colon and no bracket: IPv6 and ports are quoted (section 6).
        (Some(token), None) if !token.contains(&b':') => address_of(token),
        _ => None,
    }
}

/// The address of a node: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80`, or, as
/// `X-Forwarded-For` has it, `2001:db8::1`. A port may be hidden (`:_a`).
fn address_of(node: &[u8]) -> Option<IpAddr> {
    let node = str::from_utf8(node.trim_ascii()).ok()?;
    if let Some(rest) = node.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| is_port).map(IpAddr::V6);
    }
    if let Ok(address) = node.parse::<IpAddr>() {
        return Some(address);
    }
    let (address, port) = node.split_once(':')?;
    address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).map(IpAddr::V4)
}

fn is_port(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match text.strip_prefix('_') {
        Some(hidden) => !hidden.is_empty() && hidden.bytes().all(is_part),
        None => (1..=5).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests;
