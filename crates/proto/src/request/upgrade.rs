//! The fields of a request that wants to become a WebSocket (RFC 6455, section 4.1).
//!
//! They are gathered here as text. Whether they make a good handshake is for the transport's own
//! module to say, since only that knows the answer that explains it.

use std::borrow::Cow;

use super::secret::{PROTOCOL_PREFIX, Secret};

/// What the header lines say about a WebSocket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Upgrade<'b> {
    /// Whether `Connection` lists `Upgrade`, as it must (RFC 9110, section 7.8). A proxy that was
    /// not told to hand upgrades through drops it.
    pub in_connection: bool,
    /// `Sec-WebSocket-Key`.
    pub key: Option<&'b str>,
    /// `Sec-WebSocket-Version`.
    pub version: Option<&'b str>,
    /// `Sec-WebSocket-Protocol`: a list, its lines joined with commas. One of them may be a token.
    pub protocols: Option<Secret<'b>>,
    /// `Sec-WebSocket-Extensions`: a list, its lines joined with commas.
    pub extensions: Option<Cow<'b, str>>,
}

impl<'b> Upgrade<'b> {
    /// The sub-protocols on offer; one may be a token.
    pub(crate) fn protocols(&self) -> Option<&str> {
        self.protocols.as_ref().map(|Secret(list)| &**list)
    }

    /// The token among them: browsers let a page set no other field of a WebSocket's request.
    pub(super) fn token(&self) -> Option<&str> {
        let mut names = self.protocols()?.split(',').map(str::trim_ascii);
        names.find_map(|name| name.strip_prefix(PROTOCOL_PREFIX))
    }

    /// Takes in the line of the field `sec-websocket-…` whose rest of a name is `name`. An error is
    /// the rule that it breaks.
    pub(super) fn read_line(&mut self, name: &str, value: &'b [u8]) -> Result<(), &'static str> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if value.is_empty() && (is("protocol") || is("extensions")) {
            // As if it were not there: some proxies leave the name of what they take away.
            return Ok(());
        }
        let visible = |value: &'b [u8]| {
            let text = str::from_utf8(value).ok().filter(|text| text.is_ascii());
            text.ok_or("The Sec-WebSocket fields are plain ASCII.")
        };
        if is("key") {
            set(&mut self.key, visible(value)?, "A request has at most one Sec-WebSocket-Key.")
        } else if is("version") {
            let rule = "A request has at most one Sec-WebSocket-Version.";
            set(&mut self.version, visible(value)?, rule)
        } else if is("protocol") {
            let protocols = self.protocols.take().map(|Secret(list)| list);
            self.protocols = Some(Secret(joined(protocols, visible(value)?)));
            Ok(())
        } else if is("extensions") {
            self.extensions = Some(joined(self.extensions.take(), visible(value)?));
            Ok(())
        } else {
            Ok(())
        }
    }
}

fn set<'b>(
    field: &mut Option<&'b str>,
    value: &'b str,
    rule: &'static str,
) -> Result<(), &'static str> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(rule),
    }
}

/// RFC 9110, section 5.3: several lines are as good as one with commas.
fn joined<'b>(list: Option<Cow<'b, str>>, line: &'b str) -> Cow<'b, str> {
    match list {
        None => Cow::Borrowed(line),
        Some(lines) => Cow::Owned(format!("{lines}, {line}")),
    }
}
