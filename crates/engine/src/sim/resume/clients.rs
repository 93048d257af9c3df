//! What users do by themselves: they come, read, ask, and go.

use hub::{EventId, Tag};
use proto::Transport;

use super::user::{Connection, User};
use super::world::Resumers;
use crate::sim::polls;
use crate::sim::server::{SHARDS, UNBOUNDED};
use crate::sim::talk::client_frame;

impl Resumers {
    /// The id of `number` as the server of that time told it.
    pub(super) fn id(&self, number: u64) -> EventId {
        let mut epochs = self.epochs.iter().rev();
        let epoch = epochs.find(|epoch| epoch.base <= number).expect("numbers of some life");
        EventId::new(number, epoch.tag)
    }

    /// Now and then a client brings a place that is none of ours: that of another server which has
    /// sent as many events, or no id at all.
    pub(super) fn foreign(&mut self) -> Option<String> {
        if self.plan.none_foreign {
            return None;
        }
        let foreign = Tag::of(self.random.next());
        match self.random.below(40) {
            0 => Some(EventId::new(self.server.event_ids.last(), foreign).to_string()),
            1 => Some("19aa57c8f4a00001".to_owned()),
            _ => None,
        }
    }

    pub(super) fn connect(&mut self, user: usize, under_way: Vec<usize>) {
        let shard = self.random.below(SHARDS);
        let begins = self.users[user].past.is_some() && self.users[user].cursor().is_none();
        let brought = self.users[user].brought.take();
        let foreign = if begins { None } else { brought.or_else(|| self.foreign()) };
        let number = self.users[user].cursor().filter(|_| foreign.is_none());
        let goes_on = |number| self.archive.is_some() || self.epochs.last().unwrap().base <= number;
        let is_known = number.is_some_and(goes_on);
        if foreign.is_some() {
            self.users[user].next = None;
        }
        let place = |number| self.users[user].told_place(number);
        let place = |number| place(number).unwrap_or_else(|| self.id(number).to_string());
        let cursor = foreign.or_else(|| number.map(place));
        let is_foreign = cursor.is_some() && !is_known;
        self.foreign += u64::from(is_foreign);
        // It is read at once, so the model knows what is under way at that moment.
        self.server.set_work_per_turn(UNBOUNDED);
        self.server.tick(shard);
        let place = self.server.connect(shard, self.plan.socket_room);
        if begins {
            self.begin_past(user);
            self.pasts += 1;
        }
        let user = &mut self.users[user];
        let polls = user.transport == Transport::Poll;
        // A poll asks for what is under way, too.
        if !is_known && !polls && !begins {
            user.excused.extend(under_way);
        }
        // The answer to its first ping may name a place before it came, which costs it nothing.
        if cursor.is_none() && user.transport == Transport::WebSocket && !begins {
            user.excused.extend(0..self.sent.len());
        }
        // Some log in under their second id later, while they catch up or after it.
        let is_partial = user.transport == Transport::WebSocket
            && user.ids.len() > 1
            && self.plan.second_id_one_in > 0
            && self.random.one_in(self.plan.second_id_one_in);
        let ids = if is_partial { &user.ids[..1] } else { &user.ids };
        let mut head = user.head(ids, cursor, &mut self.random);
        if let Some(past) = &mut user.past {
            // Its address is the same each time.
            head = past.ask(&head);
            number.into_iter().for_each(|number| past.come_back(number));
        }
        self.server.wire(place).client_sends(&head);
        self.server.hear_out(place);
        self.server.set_work_per_turn(self.plan.work_per_turn);
        let resumed_at = self.server.event_ids.last();
        let got = Vec::new();
        let online = Connection { place, got, resumed_at, idle: false, is_foreign, is_partial };
        user.online = Some(online);
    }

    /// The user's network is gone, and its server notices.
    pub(super) fn drop_off(&mut self, user: usize) {
        let Some(Connection { place, .. }) = self.cut_off(user) else { return };
        self.server.wire(place).client_resets();
    }

    /// What the user has not read it never will.
    pub(super) fn cut_off(&mut self, user: usize) -> Option<Connection> {
        let user = &mut self.users[user];
        let connection = user.online.take()?;
        if connection.is_partial {
            user.excuse_second(&self.graph, &self.sent);
        }
        if user.transport != Transport::Poll {
            let before = user.heard.len();
            user.hear(&connection.got, connection.resumed_at);
            user.check_told(before, connection.is_foreign);
        }
        Some(connection)
    }

    /// The next client of a WebSocket logs in under its second id, too, if it is to.
    pub(super) fn log_in(&mut self, user: usize) {
        let is_partial = |user: &&mut User| user.online.as_ref().is_some_and(|c| c.is_partial);
        let Some(user) = self.users[user..].iter_mut().find(is_partial) else { return };
        let command = format!("{{\"login\":[\"{}\"]}}", user.ids[1]);
        let connection = user.online.as_mut().expect("it is online");
        let place = connection.place;
        connection.is_partial = false;
        user.excuse_second(&self.graph, &self.sent);
        // It is read at once, so the model knows what was sent before.
        self.server.set_work_per_turn(UNBOUNDED);
        self.server.tick(place.shard);
        self.server.wire(place).client_sends(&client_frame(0x81, command.as_bytes()));
        self.server.hear_out(place);
        self.server.set_work_per_turn(self.plan.work_per_turn);
        self.second_ids += 1;
    }

    /// The next client of a WebSocket asks where it stands.
    pub(super) fn ping(&mut self, user: usize) {
        let mut users = self.users[user..].iter();
        let websocket = users.find(|user| user.transport == Transport::WebSocket);
        if let Some(connection) = websocket.and_then(|user| user.online.as_ref()) {
            let bytes = client_frame(0x81, b"{\"ping\":1}");
            self.server.wire(connection.place).client_sends(&bytes);
        }
    }

    /// Somebody reads, all or a little; whoever polls and `asks` goes on.
    pub(super) fn read(&mut self, user: usize, asks: bool) {
        let Some(connection) = &mut self.users[user].online else { return };
        let place = connection.place;
        let mut wire = self.server.wire(place);
        let most =
            if self.hurries || self.random.one_in(2) { 1 << 20 } else { self.random.below(80) };
        connection.got.extend(wire.client_reads(most));
        let is_over = !wire.is_open() && wire.to_client.is_empty();
        drop(wire);
        let user_of = &mut self.users[user];
        if user_of.transport == Transport::Poll {
            let before = user_of.heard.len();
            user_of.hear_answers();
            let connection = user_of.online.as_mut().expect("it reads");
            let is_foreign = connection.is_foreign;
            connection.is_foreign &= user_of.heard.len() == before;
            user_of.check_told(before, is_foreign);
        }
        if is_over {
            self.server.wire(place).client_ends();
            self.cut_off(user);
            return;
        }
        let number = user_of.cursor();
        let id = |number| self.server.event_ids.id(number).to_string();
        let cursor = number.map(|number| user_of.told_place(number).unwrap_or_else(|| id(number)));
        let Some(connection) = user_of.online.as_mut().filter(|c| c.idle && asks) else { return };
        connection.idle = false;
        let mut head = polls::request(&user_of.ids, cursor, &mut self.random);
        if let Some(past) = &mut user_of.past {
            head = past.ask(&head);
            number.into_iter().for_each(|number| past.come_back(number));
        }
        self.server.wire(place).client_sends(&head);
    }
}
