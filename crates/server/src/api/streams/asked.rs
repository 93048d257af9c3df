//! What a `POST` to a stream asks for.

use axum::http::HeaderMap;
use bytes::Bytes;
use httpd::problem::ApiProblem;
use streams::{
    Append, Appended, Head, JsonFault, Offset, Producer, Refusal, Store, Teller, is_json, messages,
};

use super::fields;

/// The longest body of an append that stands in a group. A longer one is worth a thread of its own,
/// and so is its JSON.
pub(crate) const SHORT_BYTES_MAX: usize = 32 << 10;

/// What became of a write.
pub(super) enum Written<T> {
    Done(T),
    /// It is JSON, and none.
    NoJson(JsonFault),
}

/// What a `POST` asks for, without its body.
pub(super) struct WriteFields {
    pub(super) closes: bool,
    pub(super) producer: Option<(String, u64, u64)>,
    pub(super) sequence: Option<String>,
    pub(super) content_type: Option<String>,
}

impl WriteFields {
    pub(super) fn of(headers: &HeaderMap) -> Result<WriteFields, ApiProblem> {
        let owned =
            |producer: Producer<'_>| (producer.id.to_owned(), producer.epoch, producer.sequence);
        let text = |name| Ok::<_, ApiProblem>(fields::text(headers, name)?.map(str::to_owned));
        Ok(WriteFields {
            closes: fields::closes(headers),
            producer: fields::producer(headers)?.map(owned),
            sequence: text("stream-seq")?,
            content_type: text("content-type")?,
        })
    }

    pub(super) fn append<'b>(&'b self, data: &'b [u8]) -> Append<'b> {
        let producer = |(id, epoch, sequence): &'b (String, u64, u64)| Producer {
            id,
            epoch: *epoch,
            sequence: *sequence,
        };
        Append {
            closes: self.closes,
            producer: self.producer.as_ref().map(producer),
            sequence: self.sequence.as_deref(),
            data,
            content_type: self.content_type.as_deref(),
        }
    }
}

/// What is read of the fields of an append that is [handed on at once](super::at_once), each of
/// which stands there once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct AppendTexts<'r> {
    pub(crate) content_type: Option<&'r str>,
    pub(crate) closed: Option<&'r str>,
    pub(crate) producer_id: Option<&'r str>,
    pub(crate) producer_epoch: Option<&'r str>,
    pub(crate) producer_seq: Option<&'r str>,
    pub(crate) sequence: Option<&'r str>,
}

impl AppendTexts<'_> {
    /// What they ask for; `None` where somebody is to be told what is wrong.
    fn read(self) -> Option<WriteFields> {
        let fits =
            |text: Option<&str>| text.is_none_or(|text| text.len() <= fields::FIELD_BYTES_MAX);
        let AppendTexts { content_type, closed, sequence, .. } = self;
        let AppendTexts { producer_id, producer_epoch, producer_seq, .. } = self;
        let all = [content_type, sequence, producer_id, producer_epoch, producer_seq];
        if !all.into_iter().all(fits) {
            return None;
        }
        let trimmed = |text: Option<&str>| text.map(|text| text.trim().to_owned());
        let producer = fields::producer_of(
            producer_id.map(str::trim),
            producer_epoch.map(str::trim),
            producer_seq.map(str::trim),
        );
        let owned = |of: Producer<'_>| (of.id.to_owned(), of.epoch, of.sequence);
        Some(WriteFields {
            closes: closed.is_some_and(fields::says_yes),
            producer: producer.ok()?.map(owned),
            sequence: trimmed(sequence),
            content_type: trimmed(content_type),
        })
    }
}

/// An append as its request asks for it.
pub(super) struct AskedAppend {
    pub(super) fields: WriteFields,
    pub(super) body: Bytes,
    /// A place in the stream that is meant, where its writer has appended to that before: it may
    /// not go on in another one at the same path.
    pub(super) behind: Option<Offset>,
}

impl AskedAppend {
    /// An append with this body that asks for something that can be done; `None` where somebody is
    /// to be told what is wrong.
    pub(super) fn of_texts(texts: AppendTexts<'_>, body: &[u8]) -> Option<AskedAppend> {
        let fields = texts.read()?;
        let asks = if body.is_empty() { fields.closes } else { fields.content_type.is_some() };
        let body = asks.then(|| Bytes::copy_from_slice(body))?;
        Some(AskedAppend { fields, body, behind: None })
    }

    /// Whether it is one that a group may have.
    pub(super) fn is_short(&self) -> bool {
        self.body.len() <= SHORT_BYTES_MAX
    }

    /// What is stored of it in a stream that is as `head` says, if that is not the body.
    pub(super) fn json(&self, head: &Head) -> Result<Written<Option<Vec<u8>>>, Refusal> {
        if self.behind.is_some_and(|behind| !behind.is_of_same_stream(head.next)) {
            return Err(Refusal::OldOffset);
        }
        let asks_for_json = self.fields.content_type.as_deref().is_some_and(is_json);
        if !asks_for_json || self.body.is_empty() {
            return Ok(Written::Done(None));
        }
        match messages(&self.body) {
            Ok(data) => Ok(Written::Done(Some(data))),
            // Told where the stream takes JSON at all; nothing but messages is ever stored as JSON.
            Err(_) if head.closed => Err(Refusal::Closed(head.next)),
            Err(_) if !is_json(&head.content_type) => {
                Err(Refusal::OtherType(head.content_type.as_ref().into()))
            }
            Err(fault) => Ok(Written::NoJson(fault)),
        }
    }

    /// Whether its writer is told whether it was new. One that only closes is answered as any other
    /// close.
    pub(super) fn tells(&self) -> bool {
        self.fields.producer.is_some() && !self.body.is_empty()
    }
}

/// Makes an append where a disk may be waited for.
pub(super) fn append_in(
    store: &Store,
    path: &str,
    asked: &AskedAppend,
    teller: Option<&dyn Teller>,
) -> Result<Written<Appended>, Refusal> {
    let json = match asked.json(&store.head(path)?)? {
        Written::Done(json) => json,
        Written::NoJson(fault) => return Ok(Written::NoJson(fault)),
    };
    let data = json.as_deref().unwrap_or(&asked.body);
    store.append(path, &asked.fields.append(data), teller).map(Written::Done)
}
