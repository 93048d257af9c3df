//! The opening handshake (RFC 6455, section 4.2), server side: what a client asks for is checked,
//! and the head that agrees to it is written.
//!
//! The request is read by [`request`](crate::request), which also sees to `Host` and `Upgrade`;
//! whether its `Origin` may connect is the caller's to say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::Problem;
use crate::request::{PROTOCOL_PREFIX, Upgrade};
use crate::websocket::extensions;
use crate::websocket::token::is_token_byte;

/// The one subprotocol there is: events and commands as the protocol's page describes them. A
/// client that asks for none gets the same without a name.
pub const SUBPROTOCOL: &str = "encke";

/// Section 1.3: appended to the key before it is hashed.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// 20 bytes in base64.
const ACCEPT_LEN: usize = 28;

/// What both sides have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    accept: [u8; ACCEPT_LEN],
    /// The subprotocol, when the client asked for ours.
    pub protocol: Option<&'static str>,
    /// Whether messages may be compressed (RFC 7692).
    pub deflate: bool,
}

/// Answers what the client asks for. Messages may be compressed if it asks for that and `deflate`
/// allows it.
///
/// A client that asks for other subprotocols than ours gets none of them (section 4.2.2, item 5.4),
/// and decides by itself whether it stays. Extensions that we do not have are left out of the
/// answer, as section 9.1 has it.
///
/// # Errors
/// The request is not a handshake of version 13: 426 when it is of another version, else 400.
pub fn agree(upgrade: &Upgrade<'_>, deflate: bool) -> Result<Agreement, Problem> {
    if !upgrade.in_connection {
        return Err(Problem::bad_request(
            "Connection does not list Upgrade (RFC 9110, section 7.8). If a proxy stands before \
             the server, let it pass upgrades on.",
        ));
    }
    if upgrade.version.map(str::trim_ascii) != Some("13") {
        return Err(Problem::websocket_version());
    }
    let key = upgrade.key.map(str::trim_ascii).filter(|key| is_key(key));
    let key = key.ok_or_else(|| {
        Problem::bad_request(
            "Sec-WebSocket-Key is not 16 bytes in base64 (RFC 6455, section 4.1). Send a new \
             random one with each connection.",
        )
    })?;
    let protocol = match upgrade.protocols() {
        Some(list) => choose_protocol(list)?,
        None => None,
    };
    let asked = match &upgrade.extensions {
        Some(list) => extensions::ask_for_deflate(list)?,
        None => false,
    };
    Ok(Agreement { accept: accept(key), protocol, deflate: asked && deflate })
}

/// Appends the head that opens the WebSocket but for its end, see
/// [`end_head`](crate::resume::end_head).
pub fn push_head(agreement: &Agreement, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(&agreement.accept);
    if let Some(protocol) = agreement.protocol {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(protocol.as_bytes());
    }
    if agreement.deflate {
        out.extend_from_slice(b"\r\nSec-WebSocket-Extensions: ");
        out.extend_from_slice(extensions::DEFLATE_ANSWER);
    }
    out.extend_from_slice(b"\r\n");
}

/// Section 4.2.1, item 5.
fn is_key(key: &str) -> bool {
    key.len() == 24 && STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

/// The answer to `key` (section 4.2.2, item 5.4), which proves that a WebSocket server read it.
pub fn accept(key: impl AsRef<[u8]>) -> [u8; ACCEPT_LEN] {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let mut accept = [0; ACCEPT_LEN];
    let len = STANDARD.encode_slice(digest, &mut accept);
    debug_assert_eq!(len, Ok(ACCEPT_LEN), "20 bytes are 28 characters");
    accept
}

/// Ours, if the client asks for it in its list of tokens (section 4.1, item 10).
fn choose_protocol(list: &str) -> Result<Option<&'static str>, Problem> {
    let (mut chosen, mut has_token) = (None, false);
    for name in list.split(',').map(str::trim_ascii) {
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(Problem::bad_request(
                "Sec-WebSocket-Protocol is not a list of names (RFC 6455, section 4.1).",
            ));
        }
        if name == SUBPROTOCOL {
            chosen = Some(SUBPROTOCOL);
        }
        has_token |= name.starts_with(PROTOCOL_PREFIX);
    }
    if has_token && chosen.is_none() {
        // The answer repeats one of those on offer, and a token is nothing to repeat.
        return Err(Problem::bad_request(
            "A token comes with the sub-protocol encke beside it: offer both.",
        ));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests;
