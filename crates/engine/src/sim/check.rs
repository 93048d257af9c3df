//! What must be so at the end of a run.

use proto::Transport;

use super::client::{Client, SentEvent};
use super::server::{SHARDS, UNBOUNDED};
use super::wire::{self, Expected};
use super::world::World;
use crate::limits::{LAST_BYTES_STILL_MS, LINGER_MS};
use crate::receipt::Receipt;

impl World {
    /// Everybody got what the model says, in its order, and it was counted so.
    pub(super) fn check_streams(&self) {
        for client in self.clients.iter().filter(|client| self.is_asked(client)) {
            let wire = &self.nets[client.shard].0.borrow()[client.socket];
            let event = |&number: &usize| {
                let SentEvent { id, json, text, .. } = &self.events[number];
                (id.clone(), json.clone(), text.clone())
            };
            if client.got.starts_with(b"HTTP/1.1 408") {
                assert!(self.now_ms >= client.connected_ms + 10_000, "timed out too early");
                assert!(client.due.is_empty());
                continue;
            }
            let heard = wire::check(
                &client.got,
                &Expected {
                    transport: client.transport,
                    framing: client.framing,
                    first_id: &client.first_id,
                    events: client.due.iter().map(event).collect(),
                    replies: &client.replies,
                    ended: client.expelled || self.times_out(client),
                },
            );
            let stayed = !client.left && !wire.server_closed && !wire.server_ended;
            if stayed || (client.expelled && client.diligent) {
                assert_eq!(heard, client.due.len(), "who stays hears all");
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
        let counted: u64 = self.counters.iter().map(|c| c.snapshot().deliveries).sum();
        assert_eq!(u64::from(delivered), counted);
    }

    /// Whether a message of the client may not have come whole in time.
    fn times_out(&self, client: &Client) -> bool {
        self.plan.jump_one_in < 1000 && client.transport == Transport::WebSocket
    }

    /// Everybody goes, and whoever is still being answered has the time for it.
    pub(super) fn leave_all(&mut self) {
        for client in self.clients.iter().filter(|client| !client.left) {
            self.nets[client.shard].0.borrow_mut()[client.socket].client_ends();
        }
        self.plan.work_per_turn = UNBOUNDED;
        for shard in 0..SHARDS {
            self.turn(shard);
        }
        // What is still being answered has its moment as long as it moves, and no more.
        for moment_ms in [LAST_BYTES_STILL_MS, LINGER_MS] {
            self.now_ms += moment_ms + 1000;
            for shard in 0..SHARDS {
                self.turn(shard);
            }
        }
    }

    pub(super) fn check_nothing_is_left(&self) {
        assert_eq!(self.directory.ids_online(), 0);
        while self.router.history().unwrap().expire(u64::MAX) {}
        assert_eq!(self.names.len(), self.graph.stored_names(), "no name of a client is left");
        for (shard, counters) in self.shards.iter().zip(&self.counters) {
            assert_eq!(shard.connections(), 0);
            assert_eq!(shard.next_tick_ms(), None, "a timer without a connection");
            let figures = counters.snapshot();
            assert_eq!(figures.opened, figures.closed.iter().sum::<u64>());
            assert_eq!(figures.streams_open, [0; Transport::COUNT]);
        }
    }
}
