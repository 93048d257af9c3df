//! What users do by themselves: they come to a node, read, ask, and go.

use hub::{EventId, Place, Tag};
use proto::Transport;

use super::world::{Cluster, Visit};
use crate::sim::polls;
use crate::sim::resume::user::{Connection, Heard};
use crate::sim::server::{SHARDS, UNBOUNDED};
use crate::sim::talk::client_frame;

impl Cluster {
    /// The place that a user brings, now and then one of another cluster.
    fn place_of(&mut self, user: usize) -> Option<String> {
        let number = self.users[user].cursor()?;
        if self.random.one_in(40) {
            return Some(EventId::new(number, Tag::of(self.random.next())).to_string());
        }
        Some(self.log.id(number).to_string())
    }

    pub(super) fn connect(&mut self, user: usize) {
        let at = self.random.below(self.nodes.len());
        let shard = self.random.below(SHARDS);
        let place = self.place_of(user);
        let node = &mut self.nodes[at];
        // It is read at once, so the model knows what is under way at that moment.
        node.server.set_work_per_turn(UNBOUNDED);
        node.server.tick(shard);
        let known = place.as_ref().map(|place| node.server.event_ids.known(place.as_bytes()));
        let is_foreign = known == Some(Place::Unknown);
        self.foreign += u64::from(is_foreign);
        self.ahead += u64::from(matches!(known, Some(Place::Future(_) | Place::Later(_))));
        let is_of_log = |place: &String| {
            let (id, _) = EventId::parse_place(place.as_bytes()).expect("a place");
            self.log.id(id.number()) == id
        };
        // Its node waits for it, and tells it a gap when that number has come in another epoch.
        let is_made_up =
            matches!(known, Some(Place::Later(_))) && !place.as_ref().is_some_and(is_of_log);
        self.made_up += u64::from(is_made_up);
        let socket = node.server.connect(shard, self.plan.socket_room);
        let user_of = &mut self.users[user];
        let polls = user_of.transport == Transport::Poll;
        if (place.is_none() || is_foreign) && !polls {
            user_of.excused.extend(node.under_way());
        }
        if place.is_none() && user_of.transport == Transport::WebSocket {
            user_of.excused.extend(0..self.log.events.len());
        }
        let head = user_of.head(&user_of.ids, place, &mut self.random);
        node.server.wire(socket).client_sends(&head);
        node.server.hear_out(socket);
        node.server.set_work_per_turn(self.plan.work_per_turn);
        let resumed_at = node.server.event_ids.last();
        user_of.online = Some(Connection {
            place: socket,
            got: Vec::new(),
            resumed_at,
            idle: false,
            is_foreign,
            is_partial: false,
        });
        self.visits[user] = Visit { node: at, gaps_before: node.gaps };
    }

    /// The user's network is gone, and its node notices.
    pub(super) fn drop_off(&mut self, user: usize) {
        let Some(Connection { place, .. }) = self.cut_off(user) else { return };
        self.nodes[self.visits[user].node].server.wire(place).client_resets();
    }

    /// What the user has not read it never will.
    pub(super) fn cut_off(&mut self, user: usize) -> Option<Connection> {
        let Visit { node, gaps_before } = self.visits[user];
        let node = &self.nodes[node];
        let user = &mut self.users[user];
        let connection = user.online.take()?;
        if user.transport != Transport::Poll {
            let before = user.heard.len();
            user.hear(&connection.got, connection.resumed_at.max(node.lost));
            user.check_told(before, connection.is_foreign);
            let told = user.heard[before..].iter().filter(|heard| matches!(heard, Heard::Gap(_)));
            // One by one, and one before them when it came.
            let most = node.gaps - gaps_before + 1;
            assert!(told.count() <= most, "a gap is told once: {:x?}", &user.heard[before..]);
        }
        Some(connection)
    }

    /// A client of a WebSocket asks where it stands.
    pub(super) fn ping(&mut self, user: usize) {
        let user_of = &self.users[user];
        if user_of.transport == Transport::WebSocket
            && let Some(connection) = &user_of.online
        {
            let bytes = client_frame(0x81, b"{\"ping\":1}");
            self.nodes[self.visits[user].node].server.wire(connection.place).client_sends(&bytes);
        }
    }

    /// Somebody reads, all or a little; whoever polls and `asks` goes on.
    pub(super) fn read(&mut self, user: usize, asks: bool) {
        let Some(connection) = &mut self.users[user].online else { return };
        let place = connection.place;
        let server = &self.nodes[self.visits[user].node].server;
        let mut wire = server.wire(place);
        let most =
            if self.hurries || self.random.one_in(2) { 1 << 20 } else { self.random.below(80) };
        connection.got.extend(wire.client_reads(most));
        let is_over = !wire.is_open() && wire.to_client.is_empty();
        drop(wire);
        let user_of = &mut self.users[user];
        if user_of.transport == Transport::Poll {
            user_of.hear_answers();
        }
        if is_over {
            server.wire(place).client_ends();
            self.cut_off(user);
            return;
        }
        let Some(connection) = user_of.online.as_mut().filter(|c| c.idle && asks) else { return };
        connection.idle = false;
        let cursor = user_of.cursor().map(|number| self.log.id(number).to_string());
        let head = polls::request(&user_of.ids, cursor, &mut self.random);
        server.wire(place).client_sends(&head);
    }
}
