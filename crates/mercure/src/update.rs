//! What a publisher sends: a form that becomes an update.

use crate::fields::Fields;
use crate::limits::{ID_BYTES_MAX, KIND_BYTES_MAX, SELECTORS_MAX};
use crate::topic_rules::check_topic;
use crate::{Dialect, EARLIEST, HubUrl, IdFault, KindFault, Refusal};

/// An update as its publisher wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// At least one, each once; the first is the canonical one.
    pub topics: Vec<String>,
    /// The text that is sent, of any number of lines.
    pub data: String,
    /// Whether only those hear it whose token grants it.
    pub is_private: bool,
    /// The publisher's own id. Without one the hub makes it.
    pub id: Option<String>,
    /// The event name in the stream.
    pub kind: Option<String>,
    /// How long a client should wait before it reconnects, in milliseconds.
    pub retry: Option<u64>,
}

impl Update {
    /// Reads the body of a publish, whose dialect is its token's.
    ///
    /// # Errors
    /// The form cannot become an update; the publisher should hear why.
    pub fn parse(body: &[u8], dialect: Dialect, hub: &HubUrl) -> Result<Update, Refusal> {
        let fields = Fields::read(body)?;
        let mut topics: Vec<String> = Vec::new();
        for topic in fields.all("topic").filter(|topic| !topic.is_empty()) {
            check_topic(dialect, topic, hub)?;
            // No more than a thousand, so that to look through them is cheap enough.
            if topics.iter().any(|known| known == topic) {
                continue;
            }
            if topics.len() >= SELECTORS_MAX {
                return Err(Refusal::TooManyTopics);
            }
            topics.push(topic.to_owned());
        }
        if topics.is_empty() {
            return Err(Refusal::NoTopic);
        }
        let given = |name| fields.first(name).filter(|value: &&str| !value.is_empty());
        let id = given("id").map(|id| checked_id(id, dialect)).transpose()?;
        let kind = given("type").map(|kind| checked_kind(kind, dialect)).transpose()?;
        let retry = given("retry").map(milliseconds).transpose()?;
        Ok(Update {
            topics,
            data: fields.first("data").unwrap_or_default().to_owned(),
            is_private: fields.first("private").is_some(),
            id: id.map(str::to_owned),
            kind: kind.map(str::to_owned),
            // 0 would make every client reconnect at once, without end.
            retry: retry.filter(|&retry| retry != 0),
        })
    }
}

fn checked_id(id: &str, dialect: Dialect) -> Result<&str, Refusal> {
    let fault = if id.bytes().any(|byte| byte.is_ascii_control()) {
        IdFault::Control
    } else if id.starts_with('#') {
        IdFault::Reserved
    } else if id == EARLIEST && dialect == Dialect::V1 {
        IdFault::Earliest
    } else if id.len() > ID_BYTES_MAX {
        IdFault::TooLong
    } else {
        return Ok(id);
    };
    Err(Refusal::Id(fault))
}

fn checked_kind(kind: &str, dialect: Dialect) -> Result<&str, Refusal> {
    let fault = if kind.bytes().any(|byte| byte.is_ascii_control()) {
        KindFault::Control
    } else if dialect.own_event_name() == Some(kind) {
        KindFault::Reserved
    } else if kind.len() > KIND_BYTES_MAX {
        KindFault::TooLong
    } else {
        return Ok(kind);
    };
    Err(Refusal::Kind(fault))
}

/// `0007` is 7; a sign, a blank or more than 64 bits are no number.
fn milliseconds(text: &str) -> Result<u64, Refusal> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits).ok_or(Refusal::Retry)
}
