//! Options that our TLS and passwords take instead of the library's reader, which does not know
//! them.

use zeroize::Zeroizing;

/// Takes `option` out of a URL or of `key=value` words; returns its last value.
pub(crate) fn take(text: &mut Zeroizing<String>, option: &str) -> Option<String> {
    let is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
    if is_url { take_from_query(text, option) } else { take_from_words(text, option) }
}

fn take_from_query(url: &mut Zeroizing<String>, option: &str) -> Option<String> {
    let (head, query) = url.split_once('?')?;
    let name = |pair: &&str| pair.split_once('=').is_some_and(|(name, _)| name == option);
    let value = query.split('&').rfind(name)?.split_once('=')?.1;
    let value = unescape(value)?;
    let rest: Vec<&str> = query.split('&').filter(|pair| !name(pair)).collect();
    let rest = if rest.is_empty() { head.to_owned() } else { format!("{head}?{}", rest.join("&")) };
    *url = Zeroizing::new(rest);
    Some(value)
}

/// %-escapes; `None` where that is no text.
fn unescape(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let byte = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                rest = tail;
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => {
                rest = tail;
                *first
            }
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

/// `key = 'value'` words, as libpq reads them: quotes and backslashes.
fn take_from_words(words: &mut Zeroizing<String>, option: &str) -> Option<String> {
    let mut found = None;
    let mut kept = Zeroizing::new(String::new());
    let mut rest = words.as_str();
    while let Some((word, tail)) = word(rest) {
        if word.name == option {
            found = Some(word.value);
        } else {
            kept.push_str(word.text);
            kept.push(' ');
        }
        rest = tail;
    }
    // What is no word stays, for the library to complain of.
    kept.push_str(rest);
    *words = kept;
    found
}

struct Word<'a> {
    name: &'a str,
    value: String,
    text: &'a str,
}

fn word(text: &str) -> Option<(Word<'_>, &str)> {
    let text = text.trim_start();
    let (name, after) = text.split_once('=')?;
    let after = after.trim_start();
    let (quoted, mut chars) = match after.strip_prefix('\'') {
        Some(inner) => (true, inner.char_indices()),
        None => (false, after.char_indices()),
    };
    let inner = chars.as_str();
    let mut value = String::new();
    let mut end = inner.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            '\'' if quoted => {
                end = at + 1;
                break;
            }
            c if !quoted && c.is_whitespace() => {
                end = at;
                break;
            }
            c => value.push(c),
        }
    }
    let tail = &inner[end..];
    let whole = &text[..text.len() - tail.len()];
    Some((Word { name: name.trim(), value, text: whole }, tail))
}
