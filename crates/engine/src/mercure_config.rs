//! What an engine is told of the Mercure protocol, how an event looks there, and the head of a
//! stream.

use std::sync::Arc;

use hub::{Key, Space};
use mercure::{
    Claims, Dialect, EARLIEST, HubUrl, Refusal, metadata, metadata_address, metadata_path,
};
use proto::{Format, Frame, Problem};
use topics::{HubNames, read_claims};

use crate::Event;
use crate::state::HeadState;
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
    /// By whom tokens of Mercure 1.0 are issued; anybody where none is named.
    pub issuers: Arc<[Box<str>]>,
}

impl MercureConfig {
    /// The address of the hub for a client that has called `host`.
    ///
    /// # Errors
    /// The operator has not named the hub, and neither has the client.
    pub fn hub_of(&self, host: Option<&str>) -> Result<HubUrl, Problem> {
        let called = || host.and_then(HubUrl::called);
        self.hub.clone().or_else(called).ok_or_else(|| Problem::bad_request(NO_HOST))
    }

    /// Reads what a token says, whose signature and times are good, for a client that has called
    /// the hub `url`.
    ///
    /// # Errors
    /// The whole token is refused.
    pub fn read_claims(
        &self,
        verified: Option<&hub::Claims>,
        url: &HubUrl,
    ) -> Result<Claims, Refusal> {
        let is_named = self.hub.is_some();
        read_claims(verified, HubNames { url, is_named, issuers: &self.issuers })
    }

    /// The metadata of the hub for a client that has called it `url`, if they are at `path`. A
    /// proxy may put the hub below a path that it takes away.
    pub fn metadata_at(&self, path: &str, url: &HubUrl) -> Option<String> {
        let is_there = path == metadata_path(url) || path == METADATA_PATH;
        let issuers: Vec<&str> = self.issuers.iter().map(|issuer| &**issuer).collect();
        is_there.then(|| metadata(url, &issuers))
    }
}

/// The path of the metadata of the hub, where nothing is put before it (RFC 9728, section 3).
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource/.well-known/mercure";

const NO_HOST: &str = "The request does not name the hub. Send a name, and perhaps a port, in the \
                       field Host.";

/// What a client is told that is refused by the hub at `url`.
pub fn refused_by_hub(refusal: &Refusal, dialect: Dialect, url: &HubUrl) -> Problem {
    let challenge = refusal.challenge(dialect, Some(&metadata_address(url)));
    let problem = Problem::new(refusal.status(dialect), refusal.to_string());
    Problem { challenge: challenge.map(Into::into), ..problem }
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
    asked: Arc<str>,
    wire: Wire,
}

impl HeldHead {
    /// A head of which `before` is done, for one that has `asked` for a place.
    pub(crate) fn new(
        before: Vec<u8>,
        field: &'static str,
        asked: Arc<str>,
        wire: Wire,
    ) -> HeldHead {
        HeldHead { before, field, asked, wire }
    }

    /// As it is written down.
    pub(crate) fn write_down(&self) -> HeadState {
        HeadState {
            before: self.before.clone().into(),
            is_v1: self.field == Dialect::V1.place_field(),
            asked: self.asked.to_string(),
        }
    }

    /// What was written down, of one that speaks as `wire`.
    pub(crate) fn read_back(written: HeadState, wire: Wire) -> HeldHead {
        let HeadState { before, is_v1, asked } = written;
        let dialect = if is_v1 { Dialect::V1 } else { Dialect::Old };
        HeldHead::new(before.into(), dialect.place_field(), asked.into(), wire)
    }

    /// The place that the client has asked for.
    pub(crate) fn asked(&self) -> &Arc<str> {
        &self.asked
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
