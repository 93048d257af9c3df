//! The header fields that matter here, gathered in one pass.

use httparse::Header;

use super::accept::Accept;
use super::bearer::Bearer;
use super::secret::Secret;
use super::upgrade::Upgrade;
use crate::negotiation::accepts_gzip;
use crate::place_style::PlaceStyle;
use crate::{Carrier, Forwarded, Problem};

/// What the header lines of one request say.
#[derive(Default)]
pub(super) struct Fields<'b> {
    pub(super) host: Option<&'b str>,
    pub(super) origin: Option<&'b str>,
    pub(super) accept: Accept,
    /// `Last-Event-ID`, whatever it says: a browser fills it in by itself, and would give up if it
    /// were refused. An empty one is what a client has that heard no event yet.
    pub(super) cursor: Option<&'b [u8]>,
    /// Whether `Upgrade` lists a WebSocket, and what else is said about it.
    pub(super) websocket: bool,
    pub(super) upgrade: Upgrade<'b>,
    /// Whether `Connection` asks to close after the answer.
    pub(super) close: bool,
    /// Whether `Accept-Encoding` lists gzip.
    pub(super) gzip: bool,
    /// `If-None-Match`.
    pub(super) known: Option<&'b str>,
    /// `Authorization` and `Cookie`.
    pub(super) bearer: Bearer<'b>,
    /// Whether a browser says that a page of another origin makes the request, which without CORS
    /// names no origin (`Sec-Fetch-Site`, Fetch Metadata Request Headers, section 2.4).
    pub(super) other_site: bool,
    pub(super) by_page: bool,
    /// Whether a browser asks if a page of the open network may connect to this one (Private
    /// Network Access, section 3.1).
    pub(super) private_network: bool,
    /// For whom a proxy asks.
    pub(super) forwarded: Forwarded<'b>,
    /// Whether a browser makes the request, or what behaves as one.
    browser: bool,
    /// Whether `Cache-Control` says that no cache may answer.
    no_cache: bool,
    transfer_encoding: bool,
    /// `Content-Length`: how long a body is announced.
    length: Option<usize>,
    /// Whether `Content-Type` says that the body is JSON, or a form.
    is_json: bool,
    is_form: bool,
    /// `Idempotency-Key`; a second one breaks the rules.
    key: Option<&'b str>,
    /// Whether the client waits with its body until it is told to send it.
    expects: bool,
    /// The first rule that the lines broke.
    broken: Option<&'static str>,
}

impl<'b> Fields<'b> {
    pub(super) fn read(headers: &[Header<'b>]) -> Fields<'b> {
        let mut fields = Fields::default();
        for header in headers {
            fields.read_line(header);
        }
        fields
    }

    fn read_line(&mut self, header: &Header<'b>) {
        let value = header.value.trim_ascii();
        let named = |name: &str| header.name.eq_ignore_ascii_case(name);
        if named("host") {
            match host(value) {
                Some(host) if self.host.is_none() => self.host = Some(host),
                _ => self.broken = Some("A request has one Host, a name and perhaps a port."),
            }
        } else if named("origin") {
            match origin(value) {
                Some(origin) if self.origin.is_none() => self.origin = Some(origin),
                _ => self.broken = Some("A request has at most one Origin, in plain characters."),
            }
        } else if named("accept") {
            self.accept.read_line(value);
        } else if named("upgrade") {
            self.websocket |= lists(value, "websocket");
        } else if named("connection") {
            self.close |= lists(value, "close");
            self.upgrade.in_connection |= lists(value, "upgrade");
        } else if named("accept-encoding") {
            self.gzip |= accepts_gzip(value);
        } else if named("if-none-match") {
            self.known = str::from_utf8(value).ok();
        } else if named("authorization") {
            match str::from_utf8(value) {
                Ok(text) if self.bearer.authorization.is_none() => {
                    self.bearer.authorization = Some(Secret(text.into()));
                }
                _ => self.broken = Some("A request has at most one Authorization, in plain ASCII."),
            }
        } else if named("cookie") {
            // What is not ours to read may be of any form. There is one line, but where a proxy
            // has made several of HTTP/2 (RFC 9113, section 8.2.3).
            self.bearer.add_cookies(str::from_utf8(value).unwrap_or_default());
        } else if named("sec-fetch-site") {
            self.other_site = !matches!(value, b"same-origin" | b"none");
            self.by_page = value != b"none";
        } else if named("access-control-request-private-network") {
            self.private_network = value == b"true";
        } else if named("sec-fetch-mode") {
            self.browser = true;
        } else if named("user-agent") {
            // Browsers without the field before; all of them say so.
            self.browser |= value.starts_with(b"Mozilla/");
        } else if named("cache-control") {
            self.no_cache |= lists(value, "no-cache");
        } else if named("last-event-id") {
            self.cursor = Some(value);
        } else if named("x-forwarded-for") {
            self.forwarded.addresses.push(value);
        } else if named("forwarded") {
            self.forwarded.elements.push(value);
        } else if let Some(name) = strip_prefix_ignore_case(header.name, "sec-websocket-")
            && let Err(rule) = self.upgrade.read_line(name, value)
        {
            self.broken = Some(rule);
        } else {
            self.read_body_line(header);
        }
    }

    /// Reads a line that is about the body, if it is one.
    fn read_body_line(&mut self, header: &Header<'b>) {
        let value = header.value.trim_ascii();
        let named = |name: &str| header.name.eq_ignore_ascii_case(name);
        if named("transfer-encoding") {
            self.transfer_encoding = true;
        } else if named("content-length") {
            match content_length(value) {
                Some(length) if self.length.is_none_or(|before| before == length) => {
                    self.length = Some(length);
                }
                // RFC 9112, section 6.3: where two differ nobody knows where the body ends.
                Some(_) => self.broken = Some("A request has one Content-Length."),
                None => self.broken = Some("Content-Length is not a number."),
            }
        } else if named("content-type") {
            self.is_json = is_of_type(value, b"application/json");
            self.is_form = is_form(value);
        } else if named("idempotency-key") {
            match str::from_utf8(value) {
                Ok(key) if self.key.is_none() => self.key = Some(key),
                _ => self.broken = Some("A request has at most one Idempotency-Key, in ASCII."),
            }
        } else if named("expect") {
            self.expects = value.eq_ignore_ascii_case(b"100-continue");
        }
    }

    /// How the client can be told where its stream begins. An `EventSource` asks past all caches
    /// (WHATWG HTML, section 9.2.2, and Fetch, section 4.6: so `no-cache`), a page's `fetch` does
    /// not of itself.
    pub(super) fn told(&self) -> PlaceStyle {
        match (self.browser, self.no_cache) {
            (true, true) => PlaceStyle::InBlock,
            (true, false) => PlaceStyle::InLine,
            (false, _) => PlaceStyle::InHead,
        }
    }

    /// What every request must keep to, whatever it asks for.
    pub(super) fn check(&self, carrier: Carrier) -> Result<(), Problem> {
        if let Some(rule) = self.broken {
            return Err(Problem::bad_request(rule));
        }
        // RFC 9112, section 3.2: also when the target names the host by itself.
        if self.host.is_none() && carrier == Carrier::Chunked {
            return Err(Problem::bad_request("A request of HTTP/1.1 has a Host field. Add one."));
        }
        Ok(())
    }

    /// What a request without a body must keep to. Since the connection ends after a refusal,
    /// nobody reads a body for a second request.
    pub(super) fn no_body(&self) -> Result<Body<'b>, Problem> {
        match self.transfer_encoding || self.length.is_some_and(|length| length > 0) {
            true => Err(Problem::body_refused()),
            false => Ok(Body::default()),
        }
    }

    /// The body of a request that has one, in JSON.
    pub(super) fn body(&self) -> Result<Body<'b>, Problem> {
        let body = self.any_body()?;
        if self.is_json { Ok(body) } else { Err(Problem::not_json()) }
    }

    /// The body of a request that has a form.
    pub(super) fn form(&self) -> Result<Body<'b>, Problem> {
        let body = self.any_body()?;
        if self.is_form { Ok(body) } else { Err(Problem::not_form()) }
    }

    fn any_body(&self) -> Result<Body<'b>, Problem> {
        let len = self.length.filter(|_| !self.transfer_encoding);
        let len = len.ok_or_else(Problem::length_required)?;
        Ok(Body { len, key: self.key, expects: self.expects })
    }
}

/// The body of a request, which stands behind its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Body<'b> {
    /// Its length in bytes.
    pub len: usize,
    /// `Idempotency-Key`, as it is written.
    pub key: Option<&'b str>,
    /// Whether the client waits with it until it is told to send it (RFC 9110, section 10.1.1).
    pub expects: bool,
}

/// A length in digits. One that no machine has room for is longer than all that may be.
fn content_length(value: &[u8]) -> Option<usize> {
    let digits = str::from_utf8(value).ok().filter(|text| !text.is_empty())?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().unwrap_or(usize::MAX))
}

/// Whether a body of this `Content-Type` is a form, whatever its parameters are.
pub fn is_form(content_type: &[u8]) -> bool {
    is_of_type(content_type, b"application/x-www-form-urlencoded")
}

/// Whether a `Content-Type` is this one, whatever its parameters are.
fn is_of_type(value: &[u8], expected: &[u8]) -> bool {
    let kind = value.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(expected)
}

/// Whether a list of words has `word` among them.
fn lists(value: &[u8], word: &str) -> bool {
    let mut words = value.split(|&byte| byte == b',');
    words.any(|listed| listed.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

fn strip_prefix_ignore_case<'b>(text: &'b str, prefix: &str) -> Option<&'b str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The host and port of a `Host` field, possibly empty (RFC 3986, section 3.2.2 and 3.2.3; RFC
/// 9110, section 7.2). Only the alphabet is checked: nothing is looked up by it.
fn host(value: &[u8]) -> Option<&str> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    if value.iter().all(allowed) { str::from_utf8(value).ok() } else { None }
}

/// An `Origin` field (RFC 6454, section 7.1) has visible ASCII only, so that it may be sent back.
fn origin(value: &[u8]) -> Option<&str> {
    let visible = |byte: &u8| matches!(byte, b' '..=b'~');
    if value.iter().all(visible) { str::from_utf8(value).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::is_form;

    #[test]
    fn content_type_of_a_form_may_have_parameters() {
        for content_type in [
            "application/x-www-form-urlencoded",
            "Application/X-WWW-Form-Urlencoded; charset=UTF-8",
            " application/x-www-form-urlencoded ;x",
        ] {
            assert!(is_form(content_type.as_bytes()), "{content_type}");
        }
        for other in ["", "application/json", "multipart/form-data; boundary=x", "text/plain"] {
            assert!(!is_form(other.as_bytes()), "{other}");
        }
    }
}
