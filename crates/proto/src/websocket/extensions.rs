//! What a client asks for in `Sec-WebSocket-Extensions` (RFC 6455, section 9.1), as far as it is
//! `permessage-deflate` (RFC 7692, section 7.1).

use crate::Problem;
use crate::websocket::token::is_token_byte;

/// The answer to an offer that we take: each message is compressed by itself, in both directions,
/// so that an event is compressed once for all and no connection has a window of its own.
pub(crate) const DEFLATE_ANSWER: &[u8] =
    b"permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// Whether the list has an offer of `permessage-deflate` that we can take. A client that wants a
/// smaller window of us (`server_max_window_bits`) is not taken at its word: we have one size.
///
/// # Errors
/// The list breaks the grammar, after which section 9.1 has the handshake fail.
pub(crate) fn ask_for_deflate(list: &str) -> Result<bool, Problem> {
    let mut rest = list.trim_ascii();
    let mut found = false;
    loop {
        let (offer, after) = offer(rest).ok_or_else(malformed)?;
        found |= offer;
        match after.strip_prefix(',') {
            Some(more) => rest = more.trim_ascii_start(),
            None if after.is_empty() => return Ok(found),
            None => return Err(malformed()),
        }
    }
}

fn malformed() -> Problem {
    Problem::bad_request(
        "Sec-WebSocket-Extensions is not a list of extensions (RFC 6455, section 9.1).",
    )
}

/// Reads one extension with its parameters: whether it is one that we take, and what follows it.
fn offer(text: &str) -> Option<(bool, &str)> {
    let (name, mut rest) = token(text)?;
    let mut good = name.eq_ignore_ascii_case("permessage-deflate");
    let mut seen = Vec::new();
    while let Some(after) = rest.strip_prefix(';') {
        let (name, after) = token(after.trim_ascii_start())?;
        let (value, after) = value(after)?;
        good &= !seen.contains(&name) && is_good(name, value);
        seen.push(name);
        rest = after;
    }
    Some((good, rest))
}

/// Whether we can keep to a parameter (RFC 7692, sections 7.1.1 and 7.1.2).
fn is_good(name: &str, value: Option<&str>) -> bool {
    match name {
        "server_no_context_takeover" | "client_no_context_takeover" => value.is_none(),
        // A hint: the client's window may be as large as it likes.
        "client_max_window_bits" => value
            .is_none_or(|bits| matches!(bits, "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15")),
        _ => false,
    }
}

/// A token and what follows it and the space after it.
fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(text.len());
    let (token, rest) = text.split_at(end);
    (!token.is_empty()).then_some((token, rest.trim_ascii_start()))
}

/// The value of a parameter, when it has one: a token, or one in quotes (section 9.1).
fn value(text: &str) -> Option<(Option<&str>, &str)> {
    let Some(text) = text.strip_prefix('=') else { return Some((None, text)) };
    let text = text.trim_ascii_start();
    match text.strip_prefix('"') {
        None => token(text).map(|(value, rest)| (Some(value), rest)),
        Some(quoted) => {
            let (value, rest) = token(quoted)?;
            Some((Some(value), rest.strip_prefix('"')?.trim_ascii_start()))
        }
    }
}

#[cfg(test)]
mod tests;
