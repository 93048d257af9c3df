//! An event that a client of streams sends: from what it wrote to what became of it.
//!
//! It is read, and posted, as one of the API, and bounded as its worker says. What its token grants
//! is looked at here, where its subjects are known.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use dispatch::barrier::WritePermit;
use dispatch::idempotency::{IdempotencyKey, KeyHolder};
use dispatch::outcome::Delivered;
use dispatch::traces::{Arrival, Marks, SendTrace};
use engine::{ClientSend, Outgoing, SentBy, SentToChannel};
use httpd::problem::ApiProblem;
use hub::{Draft, EventParts, Grant, IdText, Payload};
use proto::{Problem, ProblemKind};

use super::client_event_body::ClientEventBody;
use super::event::Posted;
use super::event_once::{Known, Once};
use crate::api::state::Api;

/// Where the keys of clients begin, among those of keys of the API, which have letters and digits.
const CLIENT: &str = "client/";

/// When to try again what finds the barrier closed, in seconds.
const UPGRADE_SECONDS: u32 = 1;

/// An event of a client that is posted, now or before.
pub(crate) enum ClientPosted {
    /// Its count is awaited.
    Event(Posted),
    /// It has a key.
    Once(Once),
}

impl Api {
    /// Posts what a client sends. While an upgrade is under way it is refused at once: its
    /// connection is to be written down, and whoever goes on with it would know nothing of this.
    ///
    /// # Errors
    /// It is no event, or not granted, or there is no room for it. Nothing is sent then.
    pub(crate) async fn post_of_client(
        self: &Arc<Api>,
        send: &ClientSend,
        marks: Option<&Arc<Marks>>,
    ) -> Result<ClientPosted, ApiProblem> {
        let Some(permit) = self.sender.barrier.try_enter() else {
            return Err(Problem::sends_busy(UPGRADE_SECONDS).into());
        };
        if let SentBy::Channel(sent) = send.by() {
            let (outgoing, data) = self.to_channel(send, sent)?;
            let posted = self.post_plainly(&permit, outgoing, marks).await?;
            if let Some(hooks) = &self.pusher_hooks {
                hooks.client_event(sent, data);
            }
            return Ok(posted);
        }
        let ClientEventBody { event: mut body, echo, connection } =
            serde_json::from_slice(send.event()).map_err(|error| unread(&error))?;
        if let Some(grant) = send.grant()
            && let Some(denied) = body.about.iter().find(|id| !grant.allows_send(id))
        {
            return Err(Problem::send_not_granted(denied).into());
        }
        let (Payload::Json(payload) | Payload::Text(payload)) = body.payload()?;
        let bytes_max = send.limits().payload_bytes_max;
        if payload.len() > bytes_max {
            return Err(ApiProblem::too_large(format!(
                "The payload of this event has {} bytes, and that of a client's has at most \
                 {bytes_max} here. Send a smaller one, or raise --client-payload.",
                payload.len(),
            )));
        }
        let member = body.key.take();
        let mut outgoing = body.outgoing_from(from(send))?;
        let own = match (send.by(), connection) {
            (SentBy::Message { .. }, Some(_)) => return Err(own_connection()),
            (SentBy::Message { own, .. }, None) => *own,
            (SentBy::Request { .. }, connection) => connection.flatten(),
            // It was posted above.
            (SentBy::Channel(_), _) => None,
        };
        if let Some(own) = own.filter(|_| !echo) {
            outgoing.except = outgoing.except.and(own);
        }
        match key_of(send, member)? {
            Some(key) => {
                let name = key_holder(send.grant().map(|grant| &**grant));
                let counted = counted_for(send, &name);
                let holder = KeyHolder::Client { name: &name, counted: counted.as_deref() };
                let known = Known::of(holder, &key, &body);
                self.post_once(&permit, known, outgoing, marks).await.map(ClientPosted::Once)
            }
            None => self.post_plainly(&permit, outgoing, marks).await,
        }
    }

    /// The trace of what a client sends, if it is to have one.
    pub(crate) fn trace_of_client(&self, arrival: Arrival) -> Option<SendTrace> {
        self.traces.as_ref().and_then(|traces| traces.begin_of_client(arrival))
    }

    /// An event of a client for the others of a channel, and its data: its worker has looked at all
    /// of it.
    fn to_channel<'s>(
        &self,
        send: &'s ClientSend,
        sent: &SentToChannel,
    ) -> Result<(Outgoing, &'s str), ApiProblem> {
        let data = str::from_utf8(send.event());
        let data = data.map_err(|_| ApiProblem::bad_request("The event is not UTF-8."))?;
        let from = sent.from.as_deref();
        // Of an event about an id its sender is an id, which not every user may be called.
        let is_id = from.is_none_or(|from| IdText::parse(from).is_ok());
        let apps = self.pusher.as_ref().filter(|_| is_id);
        let shared = apps.and_then(|apps| apps.shared_id(&sent.key));
        let draft = Draft::of_key(EventParts {
            about: shared.as_deref().unwrap_or(&sent.key),
            also: &[],
            name: Some(&sent.name),
            from,
            payload: Payload::Json(data),
        });
        let draft = draft.map_err(|error| ApiProblem::bad_request(error.to_string()))?;
        let outgoing = match shared {
            Some(_) => Outgoing::from(draft),
            // A channel caches what the app sends, and nothing of its clients.
            None => Outgoing::on_channel(draft).for_subjects_alone(),
        };
        Ok((Outgoing { except: sent.own.into(), ..outgoing }, data))
    }

    async fn post_plainly(
        &self,
        permit: &WritePermit<'_>,
        outgoing: Outgoing,
        marks: Option<&Arc<Marks>>,
    ) -> Result<ClientPosted, ApiProblem> {
        self.post(permit, outgoing, None, marks).await.map(ClientPosted::Event)
    }

    /// What became of it, once all workers have delivered it.
    pub(crate) async fn delivered_of_client(
        &self,
        posted: ClientPosted,
    ) -> Result<Delivered, ApiProblem> {
        match posted {
            ClientPosted::Event(Posted { delivery, accepted }) => {
                let delivered = delivery.answer().await?;
                self.note_duration(accepted, Instant::now());
                Ok(delivered)
            }
            ClientPosted::Once(once) => once.answer().await,
        }
    }
}

/// Who sends it, where a token says so.
fn from(send: &ClientSend) -> Option<&str> {
    send.grant().and_then(|grant| grant.subject.as_deref())
}

fn unread(error: &serde_json::Error) -> ApiProblem {
    ApiProblem::of(ProblemKind::BadJson, format!("The event cannot be read: {error}."))
}

fn own_connection() -> ApiProblem {
    ApiProblem::bad_request(
        "The server knows by which connection a message comes: leave \"connection\" out.",
    )
}

/// The key of a send: that of its request, or the member `key`.
fn key_of(
    send: &ClientSend,
    member: Option<Box<str>>,
) -> Result<Option<IdempotencyKey<'_>>, ApiProblem> {
    let member = member.map(String::from).map(IdempotencyKey::new).transpose()?;
    let field = match send.by() {
        SentBy::Request { key: Some(key) } => Some(IdempotencyKey::of_field(key)?),
        SentBy::Request { key: None } | SentBy::Message { .. } | SentBy::Channel(_) => None,
    };
    match (field, member) {
        (Some(field), Some(member)) if field != member => Err(ApiProblem::two_keys()),
        (field, member) => Ok(field.or(member)),
    }
}

/// Whose the keys of a client are: the subject of its token, or the token's where it has none.
/// Without tokens nobody knows who is who, and all have theirs together.
fn key_holder(grant: Option<&Grant>) -> Cow<'static, str> {
    match grant.map(|grant| (&grant.subject, &grant.token)) {
        Some((Some(subject), _)) => format!("{CLIENT}{subject}").into(),
        // No subject has a slash.
        Some((None, Some(token))) => format!("{CLIENT}/{token}").into(),
        Some((None, None)) | None => CLIENT.into(),
    }
}

/// For whom the keys of a client called `name` are counted: for that one; without tokens, for its
/// address.
fn counted_for<'n>(send: &ClientSend, name: &'n str) -> Option<Cow<'n, str>> {
    match send.grant() {
        Some(_) => Some(name.into()),
        None => send.source().map(|source| format!("{CLIENT}{source}").into()),
    }
}
