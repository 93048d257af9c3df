//! What must be so at the end of a run.

use proto::Transport;

use super::client::{Client, SentEvent};
use super::wire::{self, Expected};
use super::world::World;
use crate::receipt::Receipt;

impl World {
    /// Everybody got what the model says, in its order, and it was counted so.
    pub(super) fn check_streams(&self) {
        for client in self.clients.iter().filter(|client| self.is_asked(client)) {
            let wire = self.server.wire(client.place);
            let event = |&number: &usize| {
                let SentEvent { id, json, text, .. } = &self.events[number];
                (id.clone(), json.clone(), text.clone())
            };
            if client.got.starts_with(b"HTTP/1.1 408") {
                assert!(
                    self.server.clock.now_ms() >= client.connected_ms + 10_000,
                    "timed out too early"
                );
                assert!(client.due.is_empty());
                continue;
            }
            let heard = wire::check(
                &client.got,
                &Expected {
                    transport: client.transport,
                    carrier: client.carrier,
                    first_id: &client.first_id,
                    events: client.due.iter().map(event).collect(),
                    replies: &client.replies,
                    ended: client.expelled || self.times_out(client),
                },
            );
            let stayed = !client.left && wire.is_open();
            if stayed || (client.expelled && client.diligent) {
                assert_eq!(heard, client.due.len(), "who stays hears all");
            }
            if stayed && client.unsent.is_empty() && !client.expelled {
                assert_eq!(wire.received, client.said, "who stays is heard");
            }
            if client.diligent && !client.expelled && !self.times_out(client) {
                assert!(stayed, "who reads is not disconnected");
            }
        }
        for event in &self.events {
            let count = event.receipt.as_ref().and_then(Receipt::ready);
            assert_eq!(count, Some(event.delivered), "{}", event.json);
        }
        let delivered: u32 = self.events.iter().map(|event| event.delivered).sum();
        assert_eq!(u64::from(delivered), self.server.figures().deliveries);
    }

    /// Whether a message of the client may not have come whole in time.
    fn times_out(&self, client: &Client) -> bool {
        self.plan.jump_one_in < 1000 && client.transport == Transport::WebSocket
    }

    /// Everybody goes, and nothing is left of them.
    pub(super) fn leave_all(&mut self) {
        for client in self.clients.iter().filter(|client| !client.left) {
            self.server.wire(client.place).client_ends();
        }
        self.server.end();
        self.server.check_nothing_is_left();
        while self.router.history().unwrap().expire(u64::MAX) {}
        assert_eq!(self.names.len(), self.graph.stored_names(), "no name of a client is left");
    }
}
