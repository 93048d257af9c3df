//! What shards and clients say to each other beside events: replies at any moment, and ids that
//! come and go while the stream is open.

use std::collections::BTreeSet;

use hub::IdText;
use proto::Framing;

use super::scene::id_text;
use super::world::World;

impl World {
    /// One of the clients, if it is logged in and has not left.
    fn somebody(&mut self) -> Option<usize> {
        let index = self.random.below(self.clients.len().max(1));
        let client = self.clients.get(index)?;
        (self.is_logged_in(client) && !client.left).then_some(index)
    }

    /// A shard has something to say to one client, be an event half sent or not.
    pub(super) fn reply(&mut self) {
        let Some(index) = self.somebody() else { return };
        let client = &mut self.clients[index];
        let text = format!("reply {}\n", client.replies.len());
        let bytes = match client.framing {
            Framing::Chunked => format!("{:x}\r\n{text}\r\n", text.len()),
            Framing::Close => text.clone(),
        };
        client.replies.push((client.handed, text));
        self.shards[client.shard].tick(self.now_ms);
        self.shards[client.shard].reply(client.key.slot, bytes.as_bytes());
    }

    /// A client is logged in under more ids, or out of some, maybe of all.
    pub(super) fn change_ids(&mut self) {
        let Some(index) = self.somebody() else { return };
        let count = 1 + self.random.below(4);
        let ids: Vec<String> =
            (0..count).map(|_| id_text(self.random.below(self.plan.ids))).collect();
        let texts: Vec<IdText<'_>> = ids.iter().map(|id| IdText::parse(id).unwrap()).collect();
        let client = &mut self.clients[index];
        let (shard, slot) = (&mut self.shards[client.shard], client.key.slot);
        let before: BTreeSet<String> = client.ids.iter().cloned().collect();
        let named: BTreeSet<String> = ids.iter().cloned().collect();
        if self.random.one_in(2) {
            client.ids = before.union(&named).cloned().collect();
            assert_eq!(shard.login(slot, &texts).unwrap(), client.ids.len() - before.len());
        } else {
            client.ids = before.difference(&named).cloned().collect();
            assert_eq!(shard.logout(slot, &texts), before.len() - client.ids.len());
        }
    }
}
