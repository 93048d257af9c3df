//! What is sent, to whom, and who is left out.

use hub::ConnectionId;

use super::client::{Client, SentEvent};
use super::scene::id_text;
use super::server::{Place, SHARDS};
use super::world::{World, take};
use crate::Outgoing;
use crate::router::Step;

impl World {
    /// Somebody sends, perhaps without one of those who would hear it.
    pub(super) fn send(&mut self) {
        let (number, about) = (self.events.len(), id_text(self.random.below(self.plan.ids)));
        let data = format!("\"e{number}\"");
        let mut audience = self.graph.followers.get(&about).cloned().unwrap_or_default();
        audience.insert(about.clone());
        let hears: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.clients[index].ids.iter().any(|id| audience.contains(id)))
            .filter(|&index| self.is_logged_in(&self.clients[index]))
            .collect();
        let left_out = hears.first().copied().filter(|_| number.is_multiple_of(3));
        let except = left_out.map(|index| self.connection_id(index));
        for index in hears.into_iter().filter(|index| Some(*index) != left_out) {
            self.clients[index].due.push(number);
        }
        let outgoing = Outgoing { except, ..Outgoing::new(&about, &data).unwrap() };
        self.post(outgoing, format!("e{number}"));
    }

    /// What a client's connection is called, whatever version serves it: as it was at first.
    fn connection_id(&mut self, index: usize) -> ConnectionId {
        let World { server, clients, .. } = self;
        let Client { place: Place { shard, key, .. }, connection_id, .. } = &mut clients[index];
        let id = server.shards[*shard].connection_id(key.slot).expect("it is logged in");
        assert_eq!(*connection_id.get_or_insert(id), id, "an upgrade does not change it");
        id
    }

    /// Steps a send to its end. While a mailbox is full only mail is taken, so that nobody's login
    /// changes in the middle of the send.
    fn post(&mut self, outgoing: Outgoing, text: String) {
        let World { router, graph, server, events, clients, .. } = self;
        let mut sending = router.send(outgoing);
        let number = events.len();
        loop {
            let step = sending.step(graph).unwrap();
            if let Some(event) = sending.event().filter(|_| events.len() == number) {
                let (id, json) = (event.id().to_string(), event.json().to_string());
                events.push(SentEvent {
                    id,
                    json,
                    text: text.clone(),
                    receipt: None,
                    delivered: 0,
                });
            }
            match step {
                Step::More => {}
                Step::Posted(receipt) => {
                    events[number].receipt = Some(receipt);
                    return;
                }
                Step::Stale | Step::NotKept => unreachable!("numbers are given out"),
                Step::MailboxFull => {
                    for shard in 0..SHARDS {
                        take(shard, server, events, clients);
                        server.shards[shard].flush();
                    }
                }
            }
        }
    }
}
