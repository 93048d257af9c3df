//! This says for which address a connection counts: its peer's, or the one that a trusted peer
//! names. The peer names it by a PROXY header before all else, be that a request or TLS, and by a
//! field of each request.
//!
//! A peer that is trusted once is not the end of it. Behind a PROXY header speaks the client that
//! it names, and what that says of others is believed only if it is trusted itself.

use std::io::ErrorKind;
use std::net::IpAddr;

use hub::{AddressKey, Bound, DisconnectReason};
use proto::websocket::{self, Close};
use proto::{Carrier, Problem, Proxied, Request, proxied};

use super::core::{At, Core, End, Lives};
use super::tables::trust::Trust;
use crate::addresses::Peer;
use crate::conn::state::{Input, State};
use crate::limits::work;
use crate::sockets::{Received, Sockets};

/// What stands before a request.
pub(super) enum Before {
    /// So many bytes, which are dealt with.
    Header(usize),
    /// Nothing.
    Nothing,
    /// It cannot be told yet.
    NeedMore,
    /// What must not: the request is refused.
    Refused(Problem, DisconnectReason),
}

impl<S: Sockets> Core<S> {
    /// Counts a connection that begins, before it has a slot.
    pub(super) fn count_peer(&mut self, address: IpAddr) -> Result<Peer, Bound> {
        let peer = self.addresses.peer(address);
        if let Peer::Counted(key) = peer {
            self.connect_address(key)?;
        }
        Ok(peer)
    }

    /// Notes who has connected.
    pub(super) fn note_peer(&mut self, at: &mut At<'_, S::Socket>, peer: Peer) {
        match peer {
            Peer::Exempt => {}
            Peer::Trusted => {
                self.trusts.set(at.slot, Trust::Header);
            }
            Peer::Counted(key) => {
                self.sources.set(at.slot, Some(key));
            }
        }
    }

    /// Looks for a PROXY header at the start of `bytes`, and believes it if it may be there.
    pub(super) fn before_request(&mut self, at: &mut At<'_, S::Socket>, bytes: &[u8]) -> Before {
        let is_due = self.trusts.get(at.slot) == Trust::Header;
        let refused = |problem| Before::Refused(problem, DisconnectReason::BadRequest);
        match proxied::parse(bytes) {
            Proxied::NeedMore if is_due => return Before::NeedMore,
            Proxied::Header { .. } | Proxied::Broken if !is_due => {
                return refused(untrusted_problem());
            }
            Proxied::Broken => return refused(broken_problem()),
            Proxied::Header { client, len } => {
                return match self.believe_header(at, client) {
                    Ok(()) => Before::Header(len),
                    Err(bound) => {
                        let problem = self.addresses.problem(bound);
                        Before::Refused(problem, DisconnectReason::AddressLimit)
                    }
                };
            }
            Proxied::No if is_due => {
                self.trusts.set(at.slot, Trust::Fields);
            }
            Proxied::No | Proxied::NeedMore => {}
        }
        Before::Nothing
    }

    /// The connection speaks TLS from here on, or, where its peer is trusted, from behind what that
    /// may say before.
    pub(super) fn secure(&mut self, at: &mut At<'_, S::Socket>) {
        if self.trusts.get(at.slot) != Trust::Header {
            self.io.secure(&at.conn.socket, at.slot, &[]);
        }
    }

    /// Reads what a trusted peer may say in the clear before TLS, as far as it has come. Whether
    /// the handshake has begun then. What is no header is TLS, or the handshake fails.
    pub(super) fn read_proxied(
        &mut self,
        at: &mut At<'_, S::Socket>,
        hung_up: bool,
    ) -> Result<bool, End> {
        while self.trusts.get(at.slot) == Trust::Header {
            self.budget.spend(work::READ);
            let received = self.io.receive(&at.conn.socket, &mut self.scratch);
            let Received { len, emptied } = match received {
                Ok(Received { len: 0, .. }) => {
                    return self.happen(at, Input::End).map(|()| false);
                }
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return self.happen(at, Input::Broken(error.kind())).map(|()| false);
                }
            };
            self.budget.spend_bytes(len);
            let mut bytes = at.take_unread();
            bytes.extend_from_slice(&self.scratch[..len]);
            let begun = match proxied::parse(&bytes) {
                Proxied::NeedMore => {
                    at.conn.new_work().unread = bytes;
                    if emptied && !hung_up {
                        return Ok(false);
                    }
                    continue;
                }
                Proxied::No | Proxied::Broken => {
                    self.trusts.set(at.slot, Trust::Fields);
                    &bytes[..]
                }
                Proxied::Header { client, len } => {
                    // It could not read an answer: it has not agreed on keys.
                    self.believe_header(at, client).map_err(|_| End {
                        reason: DisconnectReason::AddressLimit,
                        abort: false,
                    })?;
                    &bytes[len..]
                }
            };
            self.io.secure(&at.conn.socket, at.slot, begun);
        }
        Ok(true)
    }

    /// A trusted peer asks for `client`. What that says of others is believed if it is trusted too.
    fn believe_header(
        &mut self,
        at: &mut At<'_, S::Socket>,
        client: Option<IpAddr>,
    ) -> Result<(), Bound> {
        let is_trusted = client.is_some_and(|client| self.addresses.trusts(client));
        let trust = if is_trusted { Trust::Fields } else { Trust::Nothing };
        self.trusts.set(at.slot, trust);
        // Who has no place is counted at no address.
        if self.unplaced.has(at.slot) { Ok(()) } else { self.count_for(at, client) }
    }

    /// Counts a request for whom it comes.
    pub(super) fn count_request(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
    ) -> Result<(), Bound> {
        let is_verified = at.conn.work().is_some_and(|work| work.token.outcome.is_some());
        if is_verified || at.conn.state() == State::Body {
            // It was, before its token was verified, or its body was there.
            return Ok(());
        }
        if self.trusts.get(at.slot) == Trust::Fields {
            let client = request.forwarded.client(self.addresses.trusted());
            self.count_for(at, client)?;
        }
        // A body that is longer than may be is not read.
        let body_max = self.config.settings.client_sends.message_bytes_max();
        self.count_bytes(at, request.head_len + request.body.len.min(body_max))
    }

    /// What has come of messages, or on a stream that takes none, is counted too.
    pub(super) fn bound_messages(&mut self, at: &mut At<'_, S::Socket>, len: usize) -> Lives {
        if !at.conn.state().hears() || self.count_bytes(at, len).is_ok() {
            return Ok(());
        }
        let reason = DisconnectReason::AddressLimit;
        if at.conn.wire.carrier() != Carrier::WebSocket {
            return Err(End { reason, abort: true });
        }
        websocket::push_close(&mut self.answer, Close::ADDRESS_LIMIT);
        self.end_with_answer(at, reason)
    }

    /// The connection in `slot` is at its end.
    pub(super) fn count_no_more(&mut self, slot: u32) {
        self.trusts.take(slot);
        if let Some(key) = self.sources.take(slot) {
            self.addresses.disconnect(key);
        }
    }

    /// Counts the connection for `client` from here on, or for nobody.
    fn count_for(
        &mut self,
        at: &mut At<'_, S::Socket>,
        client: Option<IpAddr>,
    ) -> Result<(), Bound> {
        let key = client.and_then(|client| self.addresses.key(client));
        if self.sources.get(at.slot) == key {
            return Ok(());
        }
        if let Some(key) = key {
            self.connect_address(key)?;
        }
        if let Some(before) = self.sources.set(at.slot, key) {
            self.addresses.disconnect(before);
        }
        Ok(())
    }

    fn count_bytes(&mut self, at: &At<'_, S::Socket>, len: usize) -> Result<(), Bound> {
        let Some(key) = self.sources.get(at.slot) else { return Ok(()) };
        let counted = self.addresses.hear(key, len, self.now_ns);
        counted.inspect_err(|&bound| self.note_bound(bound))
    }

    fn connect_address(&self, key: AddressKey) -> Result<(), Bound> {
        let counted = self.addresses.connect(key, self.now_ns);
        counted.inspect_err(|&bound| self.note_bound(bound))
    }

    /// Counts that a client has met `bound`.
    pub(super) fn note_bound(&self, bound: Bound) {
        self.counters.bounds[bound as usize].add(1);
    }
}

fn untrusted_problem() -> Problem {
    Problem::bad_request(
        "The server does not trust this peer to say for whom it asks. Leave the PROXY header out, \
         or start the server with --trust and the proxy's address. It stands before all else, TLS \
         included.",
    )
}

fn broken_problem() -> Problem {
    Problem::bad_request(
        "The PROXY header breaks the rules of its versions 1 and 2, or has more than 4,096 bytes.",
    )
}
