//! One document at `/` (RFC 9110, sections 8.4.1 and 13.1.2): ready-made, so that an answer is a
//! head and bytes that already exist.
//!
//! It is one answer whole: styles and scripts stand in the document. Caches may keep it and ask
//! each time whether it still holds.

use crate::Method;
use crate::negotiation::{entity_tag, has_version};
use crate::request::split_port;

/// A document and what its answers say of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The page as HTML.
    pub html: Vec<u8>,
    /// The page, compressed with gzip.
    pub gzip: Vec<u8>,
    /// Names this very document: visible ASCII without quotes.
    pub tag: String,
    /// The content security policy. Each `{host}` in it becomes the name by which the client calls
    /// this machine, so that the page can be let connect to another port of it.
    pub policy: String,
}

/// What the answer depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest<'r> {
    /// [`Method::Head`] gets no body.
    pub method: Method,
    /// The host and port that the client speaks to.
    pub host: Option<&'r str>,
    /// Whether it reads gzip.
    pub gzip: bool,
    /// The tags of the documents that it has: the value of `If-None-Match`.
    pub known: Option<&'r str>,
}

/// What every answer says. `same-origin` keeps other pages from embedding it or holding its window.
const FIELDS: &str = "Cache-Control: no-cache\r\n\
                      Vary: Accept-Encoding\r\n\
                      X-Content-Type-Options: nosniff\r\n\
                      Referrer-Policy: no-referrer\r\n\
                      Cross-Origin-Opener-Policy: same-origin\r\n\
                      Cross-Origin-Resource-Policy: same-origin\r\n\
                      Connection: close\r\n";

impl Page {
    /// Appends the whole answer to a `GET` or a `HEAD`.
    pub fn answer(&self, request: PageRequest<'_>, out: &mut Vec<u8>) {
        debug_assert!(!self.tag.contains('"') && !self.policy.contains(['\r', '\n']));
        let tag = entity_tag(&self.tag);
        let is_known = request.known.is_some_and(|known| has_version(known, &self.tag));
        let status = if is_known { "304 Not Modified" } else { "200 OK" };
        let mut head = format!("HTTP/1.1 {status}\r\nETag: {tag}\r\n{FIELDS}");
        let policy = self.policy.replace("{host}", host_name(request.host));
        head += &format!("Content-Security-Policy: {policy}\r\n");
        let body = if request.gzip { &self.gzip } else { &self.html };
        if !is_known {
            head += "Content-Type: text/html; charset=utf-8\r\n";
            head += if request.gzip { "Content-Encoding: gzip\r\n" } else { "" };
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        out.extend_from_slice(head.as_bytes());
        if !is_known && request.method == Method::Get {
            out.extend_from_slice(body);
        }
    }
}

/// The name in `host:port`, if it may stand in a policy as it is; else one that nobody has.
fn host_name(host: Option<&str>) -> &str {
    let name = host.map_or("", |host| split_port(host).0);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
    if !name.is_empty() && name.bytes().all(plain) { name } else { "host.invalid" }
}

#[cfg(test)]
mod tests;
