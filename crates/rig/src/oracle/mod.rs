//! The oracle of a cluster: what was sent and answered, what each listener heard, and what of it is
//! wrong.
//!
//! An event that was acknowledged is heard by all who are to hear it, once, under the id of its
//! answer. One that was not sent is heard by nobody; any other by its whole audience or by nobody.
//! What a listener hears grows in id, over all its streams and whichever nodes they are at, unless
//! it was told of a gap.
//!
//! [`Oracle`] knows the events and [`Listener`] what one of them has heard. Both count as it comes,
//! in bounded memory where events that are heard by all are [forgotten](Oracle::forget). A listener
//! that [remembers](Listener::remembering) can be asked later what it misses. [`Totals`] are the
//! sums, and which of them are faults: also the sums of instruments that know no single event of
//! each other's.
//!
//! Nothing here reads a clock or a socket.

mod events;
mod listener;
mod totals;

pub use events::{Answer, Audience, Expected, Fault, Missed, Oracle};
pub use listener::{Listener, Order};
pub use totals::{Sums, Totals};

/// An event's id, which grows as the 16 characters of it do.
pub type EventId = u128;

/// The id that stands on the wire as `text`.
pub fn event_id(text: &str) -> Option<EventId> {
    text.as_bytes().try_into().ok().map(EventId::from_be_bytes)
}

/// An id as it stands on the wire.
pub fn event_id_text(id: EventId) -> String {
    String::from_utf8_lossy(&id.to_be_bytes()).into_owned()
}

#[cfg(test)]
mod tests;
