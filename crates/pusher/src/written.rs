//! How members of the file of apps are read. A fault names the member, and never says what is in
//! it: it may be a secret, in a wrong place.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A member, its name, and the JSON in which it stands.
pub(crate) type Place<'a> = (Option<&'a RawValue>, &'static str, &'a str);

/// What cannot be read: the line, and why.
pub(crate) type Fault = (usize, String);

/// Reads an object of ours. The library's words name a member, and nothing of what is in one.
pub(crate) fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Fault> {
    if !json.starts_with('{') {
        return Err((1, "This is not an object.".to_owned()));
    }
    serde_json::from_str(json).map_err(|error| {
        let words = error.to_string();
        let at = words.rfind(" at line ").unwrap_or(words.len());
        let what = match words.starts_with("unknown field") || words.starts_with("duplicate field")
        {
            true => &words[..at],
            false => "a member is not what it should be",
        };
        (error.line(), format!("This object cannot be read: {what}."))
    })
}

/// A text that must be there.
pub(crate) fn needed(place: Place<'_>) -> Result<String, Fault> {
    let (Some(value), name, json) = place else {
        return Err((1, format!("\"{}\" is missing.", place.1)));
    };
    let fault = |_| (line_of(json, value.get()), format!("\"{name}\" is not a text."));
    serde_json::from_str(value.get()).map_err(fault)
}

/// `true` or `false`.
pub(crate) fn flag((value, name, json): Place<'_>, default: bool) -> Result<bool, Fault> {
    match value.map(RawValue::get) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(value) => Err((line_of(json, value), format!("\"{name}\" is not true or false."))),
    }
}

/// A whole number from 1 to `most`.
pub(crate) fn number((value, name, json): Place<'_>, most: u32) -> Result<Option<u32>, Fault> {
    let Some(value) = value.map(RawValue::get) else { return Ok(None) };
    match value.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
        _ => Err((
            line_of(json, value),
            format!("\"{name}\" is not a whole number from 1 to {most}."),
        )),
    }
}

/// In which line of `text`, from 1, its part `part` begins.
pub(crate) fn line_of(text: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}
