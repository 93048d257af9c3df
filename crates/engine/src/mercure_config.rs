//! What an engine is told of the Mercure protocol, how an event looks there, and the head of a
//! stream.

use std::sync::Arc;

use hub::{Key, Space};
use mercure::{EARLIEST, HubUrl, PATH};
use proto::{Format, Frame};

use crate::Event;
use crate::tokens::TokenCheck;
use crate::wire::Wire;

/// Whether the Mercure protocol is served, and to whom.
#[derive(Clone, Debug, Default)]
pub struct MercureConfig {
    /// The address of the hub, by which patterns are read that name no host. `None`: as each client
    /// has called it.
    pub hub: Option<HubUrl>,
    /// Whether one without a token hears what is public.
    pub is_open: bool,
    /// Who verifies tokens; `None` knows no key.
    pub check: Option<Arc<dyn TokenCheck>>,
}

impl MercureConfig {
    /// The address of the hub for a client that has called `host`.
    pub fn hub_of(&self, host: Option<&str>) -> HubUrl {
        let called = |host: &str| HubUrl::parse(&format!("http://{host}{PATH}"));
        let hub = self.hub.clone().or_else(|| host.and_then(called));
        hub.or_else(|| called("localhost")).expect("that is an address")
    }
}

/// The event as all subscribers of its topics hear it.
pub(crate) fn frame(event: &Event) -> Frame {
    let about = event.about();
    let space = Key::parse(&about).map(|key| key.space);
    let is_update = matches!(space, Some(Space::Topic | Space::PrivateTopic));
    let text = topics::stream_text(event.name_json(), event.id(), event.data(), is_update);
    Format::Mercure.event(event.id(), &text, event.data())
}

/// The head of a stream that waits for what its client has missed.
#[derive(Debug)]
pub(crate) struct HeldHead {
    /// What stands before the field that says where the stream begins.
    before: Vec<u8>,
    field: &'static str,
    /// The place that the client has asked for.
    asked: Box<str>,
    wire: Wire,
}

impl HeldHead {
    /// A head of which `before` is done, for one that has `asked` for a place.
    pub(crate) fn new(
        before: Vec<u8>,
        field: &'static str,
        asked: Box<str>,
        wire: Wire,
    ) -> HeldHead {
        HeldHead { before, field, asked, wire }
    }

    /// The bytes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<HeldHead>() + self.before.capacity() + self.asked.len()
    }

    /// Appends the whole head. The place is the one that was asked for if nothing is missing behind
    /// it.
    pub(crate) fn push(self, gap: bool, out: &mut Vec<u8>) {
        let place = if gap { EARLIEST } else { &*self.asked };
        out.extend_from_slice(&self.before);
        for part in [self.field, ": ", place, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        push_opening(self.wire, out);
    }
}

/// Ends a head. A client is to see at once that its stream has begun.
pub(crate) fn push_opening(wire: Wire, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(Format::Mercure.keep_alive(wire.carrier()));
}
