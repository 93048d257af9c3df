//! What the head of a `PUT` says of the stream that is forked.

use axum::http::HeaderMap;
use httpd::problem::ApiProblem;
use streams::Start;

use super::fields;

const SOURCE: &str = "stream-forked-from";
const OFFSET: &str = "stream-fork-offset";
const SUB_OFFSET: &str = "stream-fork-sub-offset";

/// The stream that is forked, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ForkFields {
    /// The path of the source.
    pub(super) source: String,
    /// Up to where the fork has its content; by default up to its tail.
    pub(super) at: Option<Start>,
    /// How much it has of the append behind that place.
    pub(super) sub_offset: u64,
}

/// The path of the stream of which a request wants a fork, if it does.
pub(in crate::api) fn source_of(headers: &HeaderMap) -> Result<Option<String>, ApiProblem> {
    fields::path_field(headers, SOURCE)
}

impl ForkFields {
    /// Reads them, if the request is for a fork.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<ForkFields>, ApiProblem> {
        let at = fields::text(headers, OFFSET)?.map(offset).transpose()?;
        let sub_offset = fields::text(headers, SUB_OFFSET)?.map(sub_offset).transpose()?;
        let Some(source) = source_of(headers)? else {
            if at.is_some() || sub_offset.is_some() {
                let detail = "Stream-Fork-Offset and Stream-Fork-Sub-Offset need \
                              Stream-Forked-From, the path of the stream to fork.";
                return Err(ApiProblem::bad_request(detail));
            }
            return Ok(None);
        };
        let sub_offset = sub_offset.unwrap_or(0);
        if sub_offset > 0 && at.is_none() {
            let detail = "Stream-Fork-Sub-Offset counts from Stream-Fork-Offset. Send both.";
            return Err(ApiProblem::bad_request(detail));
        }
        Ok(Some(ForkFields { source, at, sub_offset }))
    }
}

/// An offset of the source. The protocol's tests call its beginning by zeros.
fn offset(text: &str) -> Result<Start, ApiProblem> {
    if text.starts_with('0') && text.bytes().all(|byte| matches!(byte, b'0' | b'_')) {
        return Ok(Start::Beginning);
    }
    Start::parse(text).map_err(|fault| ApiProblem::bad_request(format!("{fault}.")))
}

fn sub_offset(text: &str) -> Result<u64, ApiProblem> {
    let is_plain = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten().ok_or_else(|| {
        let detail = "Stream-Fork-Sub-Offset is a number of bytes, or of messages of JSON: digits \
                      without sign, point or leading zero.";
        ApiProblem::bad_request(detail)
    })
}
