//! An update as its subscribers hear it (WHATWG HTML, section 9.2). Nothing of it is a listener's
//! own, so it is made once.

/// The fields of an update in the stream.
#[derive(Clone, Copy, Debug)]
pub struct UpdateFrame<'u> {
    /// The event name.
    pub kind: Option<&'u str>,
    /// How long to wait before a reconnect, in milliseconds.
    pub retry: Option<u64>,
    /// The id, which has no control character.
    pub id: &'u str,
    /// The text, of any number of lines.
    pub data: &'u str,
}

/// Appends the event of an update to `out`: `event`, `retry`, `id` and a line of `data` for each
/// line, in the order of the reference hub.
///
/// # Panics
/// In a debug build, for an id or a name with a line break, which would tear the event in two.
pub fn push_update(out: &mut Vec<u8>, update: &UpdateFrame<'_>) {
    let is_line = |text: &str| !text.contains(['\r', '\n', '\0']);
    debug_assert!(is_line(update.id) && update.kind.is_none_or(is_line), "a field is one line");
    if let Some(kind) = update.kind {
        push_field(out, "event", kind);
    }
    if let Some(retry) = update.retry {
        push_field(out, "retry", &retry.to_string());
    }
    push_field(out, "id", update.id);
    let mut rest = update.data;
    while let Some(at) = rest.find(['\r', '\n']) {
        push_field(out, "data", &rest[..at]);
        let end = &rest[at..];
        rest = end.strip_prefix("\r\n").unwrap_or(&end[1..]);
    }
    push_field(out, "data", rest);
    out.push(b'\n');
}

fn push_field(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
