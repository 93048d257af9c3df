//! What clients send: how much of it a connection may, and the way to whoever posts it.
//!
//! A worker looks whether a connection may send at all, how often, and how much. Then it
//! [asks](crate::questions), with what the client wrote and what its token grants. The control
//! plane reads the event, posts it as one of the API, and [says](crate::answers) what it came to.
//! Each is answered once, so a worker knows how many of its own are under way: none is, when it is
//! written down for another process.
//!
//! Cost: of a connection that sends, eight bytes; of one that does not, nothing.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hub::{ConnRef, ConnectionId, Grant};
use sync::replies::Replies;

use crate::limits::{
    CLIENT_SEND_BYTES_MAX, CLIENT_SENDS_MAX, CLIENT_SENDS_PER_CONNECTION_MAX, MESSAGE_AROUND_BYTES,
    PUBLISHED_MESSAGE_BYTES,
};
use crate::questions::{Question, QuestionBounds, Questions};
use crate::timer::{TICK_MS, Tick};

/// How often a connection may send, and how much. It may change while the engine runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientSendLimits {
    /// Whether clients may send where streams need no token. With tokens it is theirs to say.
    pub without_tokens: bool,
    /// Events within a second, on average; 0 is any number. Twice as many may come at once.
    pub per_second: u32,
    /// The longest payload, in bytes.
    pub payload_bytes_max: usize,
}

/// The most that [`ClientSendLimits::per_second`] may be: a connection notes what it has spent in
/// 24 bits.
pub const CLIENT_SENDS_PER_SECOND_MAX: u32 = 5_000;

impl Default for ClientSendLimits {
    /// The contract's.
    fn default() -> ClientSendLimits {
        ClientSendLimits { without_tokens: false, per_second: 10, payload_bytes_max: 10 * 1024 }
    }
}

impl ClientSendLimits {
    /// How many events may come at once.
    pub fn burst(&self) -> u32 {
        self.per_second.saturating_mul(2)
    }

    /// The longest message that is read of a client that may send: what is around the payload is
    /// names and ids.
    pub fn message_bytes_max(&self) -> usize {
        PUBLISHED_MESSAGE_BYTES.max(self.payload_bytes_max + MESSAGE_AROUND_BYTES)
    }
}

/// How a client sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SentBy {
    /// By a message of a WebSocket.
    Message {
        /// The JSON text that its answer is to repeat.
        reference: Option<Box<str>>,
        /// What the connection is called, which does not hear what it sends unless it says so.
        own: Option<ConnectionId>,
    },
    /// By a request, with its idempotency key.
    Request {
        /// The value of `Idempotency-Key`.
        key: Option<Box<str>>,
    },
    /// To a channel of the Pusher protocol, where it may.
    Channel(Box<SentToChannel>),
}

/// An event that a client sends to the others of a channel. Its payload is what was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentToChannel {
    /// The [key](hub::Key) of the channel.
    pub key: Box<str>,
    /// The event's name.
    pub name: Box<str>,
    /// The user as which the client is a member of the channel.
    pub from: Option<Box<str>>,
    /// What the connection is called, which does not hear it.
    pub own: ConnectionId,
}

/// An event that a client sends.
pub struct ClientSend {
    pub(crate) conn: ConnRef,
    pub(crate) event: Box<[u8]>,
    pub(crate) by: SentBy,
    pub(crate) grant: Option<Arc<Grant>>,
    pub(crate) source: Option<u64>,
    pub(crate) limits: ClientSendLimits,
}

impl Debug for ClientSend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes of {:?}", self.event.len(), self.conn)
    }
}

impl Question for ClientSend {
    fn bytes(&self) -> usize {
        let text = match &self.by {
            SentBy::Message { reference: text, .. } | SentBy::Request { key: text } => text,
            SentBy::Channel(sent) => {
                let from = sent.from.as_ref().map_or(0, |from| from.len());
                return self.event.len() + sent.key.len() + sent.name.len() + from;
            }
        };
        self.event.len() + text.as_ref().map_or(0, |text| text.len())
    }
}

impl ClientSend {
    /// The connection by which it came, which is to be answered.
    pub fn conn(&self) -> ConnRef {
        self.conn
    }

    /// The event as its client wrote it: JSON, if it kept to the rules.
    pub fn event(&self) -> &[u8] {
        &self.event
    }

    /// How it came.
    pub fn by(&self) -> &SentBy {
        &self.by
    }

    /// What its client's token grants; `None` where none is needed.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.grant.as_ref()
    }

    /// A number for the address of its client; `None` where that is not counted.
    pub fn source(&self) -> Option<u64> {
        self.source
    }

    /// How much it may be.
    pub fn limits(&self) -> &ClientSendLimits {
        &self.limits
    }
}

/// What a client's send comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientSendOutcome {
    /// It was posted.
    Posted = 0,
    /// It is no event.
    Invalid = 1,
    /// Its client may not send, or not about that.
    Denied = 2,
    /// Its payload is too long.
    TooLarge = 3,
    /// Its client sends too often.
    TooMany = 4,
    /// There was no room or no time for it.
    Busy = 5,
}

impl ClientSendOutcome {
    /// How many there are.
    pub const COUNT: usize = 6;
    /// Each, at its number.
    pub const ALL: [ClientSendOutcome; Self::COUNT] =
        [Self::Posted, Self::Invalid, Self::Denied, Self::TooLarge, Self::TooMany, Self::Busy];

    /// What an answer of this status says of it.
    pub fn of_status(status: u16) -> ClientSendOutcome {
        match status {
            200 => ClientSendOutcome::Posted,
            401 | 403 => ClientSendOutcome::Denied,
            413 => ClientSendOutcome::TooLarge,
            429 => ClientSendOutcome::TooMany,
            500..600 => ClientSendOutcome::Busy,
            _ => ClientSendOutcome::Invalid,
        }
    }

    /// What it is called in figures.
    pub fn as_str(self) -> &'static str {
        match self {
            ClientSendOutcome::Posted => "posted",
            ClientSendOutcome::Invalid => "invalid",
            ClientSendOutcome::Denied => "denied",
            ClientSendOutcome::TooLarge => "too_large",
            ClientSendOutcome::TooMany => "rate",
            ClientSendOutcome::Busy => "busy",
        }
    }
}

/// What clients of all workers send, on its way to the control plane.
#[derive(Debug)]
pub struct ClientSends {
    questions: Questions<ClientSend>,
    /// Relaxed: they are only reported.
    outcomes: [AtomicU64; ClientSendOutcome::COUNT],
}

impl ClientSends {
    pub(crate) fn new(replies: Arc<Replies>) -> ClientSends {
        let bounds = QuestionBounds { questions: CLIENT_SENDS_MAX, bytes: CLIENT_SEND_BYTES_MAX };
        ClientSends {
            questions: Questions::for_task(bounds, replies),
            outcomes: Default::default(),
        }
    }

    /// What was sent, and not posted yet. Each must be answered once, and counts as one that waits
    /// until it is [done](Questions::done).
    pub fn questions(&self) -> &Questions<ClientSend> {
        &self.questions
    }

    /// Counts what one has come to.
    pub fn count(&self, outcome: ClientSendOutcome) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each was so, since the start.
    pub fn outcomes(&self) -> [(ClientSendOutcome, u64); ClientSendOutcome::COUNT] {
        let count = |outcome| self.outcomes[outcome as usize].load(Ordering::Relaxed);
        ClientSendOutcome::ALL.map(|outcome| (outcome, count(outcome)))
    }
}

/// What a client has sent of late, and how many of its sends are not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Publisher {
    /// When `spent` was looked at.
    at: Tick,
    /// What it has spent of its burst, in thousandths of an event, and in the lowest bits how many
    /// of its sends are under way.
    spent: u32,
}

const _: () = assert!(size_of::<Publisher>() == 8);
/// Bits of [`Publisher::spent`] for what is under way.
const UNDER_WAY_BITS: u32 = 8;
const _: () = assert!(CLIENT_SENDS_PER_CONNECTION_MAX < 1 << UNDER_WAY_BITS);
/// An event in the unit of [`Publisher::spent`].
const EVENT: u32 = 1_000;
const _: () = assert!(2 * CLIENT_SENDS_PER_SECOND_MAX * EVENT < 1 << (32 - UNDER_WAY_BITS));

/// A client sends too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany {
    /// Until it may again.
    pub retry_ms: u64,
}

impl Publisher {
    /// One more, if it may be at `now`, in tenths of a second.
    ///
    /// # Errors
    /// It may not be.
    pub fn take(self, limits: &ClientSendLimits, now: Tick) -> Result<Publisher, TooMany> {
        let under_way = self.under_way();
        if under_way >= CLIENT_SENDS_PER_CONNECTION_MAX {
            return Err(TooMany { retry_ms: 1_000 });
        }
        if limits.per_second == 0 {
            return Ok(Publisher { at: now, spent: under_way + 1 });
        }
        let per_second = limits.per_second.min(CLIENT_SENDS_PER_SECOND_MAX);
        // In thousandths, what one earns in a tick.
        let per_tick = u64::from(per_second) * TICK_MS;
        let earned = u64::from(now.saturating_sub(self.at)) * per_tick;
        let before = u64::from(self.spent >> UNDER_WAY_BITS).saturating_sub(earned);
        let (after, burst) = (before + u64::from(EVENT), u64::from(2 * per_second * EVENT));
        if after > burst {
            let ticks = (after - burst).div_ceil(per_tick);
            return Err(TooMany { retry_ms: ticks * TICK_MS });
        }
        // Not over the burst, which fits.
        Ok(Publisher { at: now, spent: (after as u32) << UNDER_WAY_BITS | (under_way + 1) })
    }

    /// Whether it may send a whole burst again for sure, and nothing of it is under way: twice as
    /// much as comes in a second is earned in two.
    pub fn is_refilled(self, now: Tick) -> bool {
        self.under_way() == 0 && now.saturating_sub(self.at) >= (2_000 / TICK_MS) as Tick
    }

    /// One of its sends is answered.
    pub fn answered(self) -> Publisher {
        debug_assert!(self.under_way() > 0, "each is answered once");
        Publisher { spent: self.spent - u32::from(self.under_way() > 0), ..self }
    }

    fn under_way(self) -> u32 {
        self.spent & ((1 << UNDER_WAY_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: ClientSendLimits =
        ClientSendLimits { without_tokens: true, per_second: 10, payload_bytes_max: 1 };

    /// Takes and answers as many as it may, up to `most`.
    fn take_all(
        publisher: &mut Publisher,
        limits: &ClientSendLimits,
        now: Tick,
        most: usize,
    ) -> usize {
        let taken = (0..most).take_while(|_| {
            let next = publisher.take(limits, now);
            next.inspect(|next| *publisher = next.answered()).is_ok()
        });
        taken.count()
    }

    #[test]
    fn burst_is_refilled_as_time_goes_on_and_never_over_itself() {
        let mut publisher = Publisher::default();
        assert_eq!(take_all(&mut publisher, &TEN, 7, 100), 20);
        assert_eq!(publisher.take(&TEN, 7), Err(TooMany { retry_ms: 100 }));
        assert_eq!(take_all(&mut publisher, &TEN, 8, 100), 1);
        assert_eq!(take_all(&mut publisher, &TEN, 13, 100), 5);
        assert_eq!(take_all(&mut publisher, &TEN, 1_000_000, 100), 20);
    }

    #[test]
    fn rate_of_one_is_told_when_it_may_again() {
        let one = ClientSendLimits { per_second: 1, ..TEN };
        let mut publisher = Publisher::default();
        assert_eq!(take_all(&mut publisher, &one, 0, 100), 2);
        assert_eq!(publisher.take(&one, 3), Err(TooMany { retry_ms: 700 }));
        assert!(publisher.take(&one, 10).is_ok());
    }

    #[test]
    fn highest_rate_fits_and_without_one_any_number_may() {
        let most = ClientSendLimits { per_second: CLIENT_SENDS_PER_SECOND_MAX, ..TEN };
        let mut publisher = Publisher::default();
        assert_eq!(take_all(&mut publisher, &most, 0, 20_000), 10_000);
        let any = ClientSendLimits { per_second: 0, ..TEN };
        assert_eq!(take_all(&mut publisher, &any, 0, 20_000), 20_000);
    }

    #[test]
    fn sends_that_are_not_answered_have_a_bound_at_any_rate() {
        let any = ClientSendLimits { per_second: 0, ..TEN };
        let mut publisher = Publisher::default();
        for _ in 0..CLIENT_SENDS_PER_CONNECTION_MAX {
            publisher = publisher.take(&any, 5).unwrap();
        }
        assert!(publisher.take(&any, 5).is_err());
        assert!(publisher.answered().take(&any, 5).is_ok());
    }

    #[test]
    fn outcomes_stand_at_their_number_and_each_status_has_one() {
        for (number, outcome) in ClientSendOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number);
        }
        for (status, name) in [(200, "posted"), (400, "invalid"), (422, "invalid"), (503, "busy")] {
            assert_eq!(ClientSendOutcome::of_status(status).as_str(), name);
        }
    }
}
