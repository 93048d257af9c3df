//! The fields of a request that wants to become a WebSocket (RFC 6455, section 4.1).
//!
//! They are gathered here as text. Whether they make a good handshake is for the transport's own
//! module to say, since only that knows the answer that explains it.

use std::borrow::Cow;

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
    /// `Sec-WebSocket-Protocol`: a list, its lines joined with commas.
    pub protocols: Option<Cow<'b, str>>,
    /// `Sec-WebSocket-Extensions`: a list, its lines joined with commas.
    pub extensions: Option<Cow<'b, str>>,
}

impl<'b> Upgrade<'b> {
    /// Takes in the line of the field `sec-websocket-…` whose rest of a name is `name`. An error is
    /// the rule that it breaks.
    pub(super) fn read_line(&mut self, name: &str, value: &'b [u8]) -> Result<(), &'static str> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
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
            join(&mut self.protocols, visible(value)?);
            Ok(())
        } else if is("extensions") {
            join(&mut self.extensions, visible(value)?);
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
fn join<'b>(list: &mut Option<Cow<'b, str>>, line: &'b str) {
    match list {
        None => *list = Some(Cow::Borrowed(line)),
        Some(lines) => {
            let lines = lines.to_mut();
            lines.push_str(", ");
            lines.push_str(line);
        }
    }
}
