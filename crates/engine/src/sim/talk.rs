//! What shards and clients say to each other beside events: replies at any moment, and ids that
//! come and go while the stream is open.

use std::collections::BTreeSet;

use hub::IdText;
use proto::websocket::{self, command};
use proto::{Carrier, Transport};

use super::client::Said;
use super::scene::id_text;
use super::server::Place;
use super::world::World;
use crate::slab::Key;

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
        let (told, bytes) = match (client.transport, client.carrier) {
            (Transport::WebSocket, _) => (server_text(&text), server_text(&text)),
            (_, Carrier::Close | Carrier::WebSocket) => (text.clone().into(), text.into()),
            (_, Carrier::Chunked) => {
                let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                (text.into(), chunk.into())
            }
        };
        client.replies.push((client.handed, told));
        let Place { shard, key, .. } = client.place;
        self.server.tick(shard);
        self.server.shards[shard].reply(key.slot, &bytes);
    }

    /// A client is logged in under more ids, or out of some, maybe of all. On a WebSocket it says
    /// so, or something else, itself.
    pub(super) fn talk(&mut self) {
        let Some(index) = self.somebody() else { return };
        let count = 1 + self.random.below(4);
        let ids: Vec<String> =
            (0..count).map(|_| id_text(self.random.below(self.plan.ids))).collect();
        if self.clients[index].transport == Transport::WebSocket {
            return self.say(index, ids);
        }
        let texts: Vec<IdText<'_>> = ids.iter().map(|id| IdText::parse(id).unwrap()).collect();
        let client = &mut self.clients[index];
        let Place { shard, key: Key { slot, .. }, .. } = client.place;
        let shard = &mut self.server.shards[shard];
        let before = with(&client.ids, &[]).len();
        if self.random.one_in(2) {
            client.ids = with(&client.ids, &ids);
            assert_eq!(shard.login(slot, &texts), client.ids.len() - before);
        } else {
            client.ids = without(&client.ids, &ids);
            assert_eq!(shard.logout(slot, &texts), before - client.ids.len());
        }
    }

    /// A client says something on its WebSocket, in one frame or two with a ping between them.
    fn say(&mut self, index: usize, ids: Vec<String>) {
        let list = || ids.iter().map(|id| format!("\"{id}\"")).collect::<Vec<_>>().join(",");
        let ok = |text: &str| server_text(&format!("{{\"ok\":{text}}}"));
        let (text, said) = match self.random.below(8) {
            0..=2 => {
                let text = format!("{{\"login\":[{}]}}", list());
                (text.clone(), Said::Login(ids, ok(&text)))
            }
            3..=5 => {
                let text = format!("{{\"logout\":[{}]}}", list());
                (text.clone(), Said::Logout(ids, ok(&text)))
            }
            6 => {
                let problem = command::parse("no command").unwrap_err();
                ("no command".into(), Said::Other(server_text(&command::error(&problem))))
            }
            _ if !self.clients[index].diligent && self.random.one_in(4) => {
                self.tell(index, client_frame(0x88, b""), Said::Close);
                return;
            }
            _ => {
                self.tell(index, client_frame(0x89, b"ping"), Said::Other(b"\x8a\x04ping".into()));
                return;
            }
        };
        let cut = self.random.below(text.len());
        if self.random.one_in(3) {
            let (first, last) = text.as_bytes().split_at(cut);
            let between = [client_frame(0x01, first), client_frame(0x89, b"")].concat();
            self.tell(index, between, Said::Other(b"\x8a\x00".into()));
            self.tell(index, client_frame(0x80, last), said);
        } else {
            self.tell(index, client_frame(0x81, text.as_bytes()), said);
        }
    }

    fn tell(&mut self, index: usize, bytes: Vec<u8>, said: Said) {
        let client = &mut self.clients[index];
        client.said += bytes.len();
        client.unsent.extend(bytes);
        client.commands.push_back((client.said, said));
    }

    /// What the shard has read is done and answered, behind all that it was handed before.
    pub(super) fn note_commands(&mut self, shard: usize) {
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.place.shard != shard || client.expelled {
                continue;
            }
            let received = self.server.wire(client.place).received;
            let client = &mut self.clients[index];
            while let Some((_, said)) = client.commands.pop_front_if(|(end, _)| *end <= received) {
                let answer = match said {
                    Said::Login(ids, answer) => {
                        client.ids = with(&client.ids, &ids);
                        answer
                    }
                    Said::Logout(ids, answer) => {
                        client.ids = without(&client.ids, &ids);
                        answer
                    }
                    Said::Other(answer) => answer,
                    Said::Close => {
                        client.expelled = true;
                        break;
                    }
                };
                client.replies.push((client.handed, answer));
            }
        }
    }
}

fn with(ids: &[String], more: &[String]) -> Vec<String> {
    ids.iter().chain(more).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

fn without(ids: &[String], gone: &[String]) -> Vec<String> {
    let stays: BTreeSet<_> = ids.iter().filter(|id| !gone.contains(id)).cloned().collect();
    stays.into_iter().collect()
}

/// A text message of a server.
pub(super) fn server_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    websocket::push_text(&mut bytes, text);
    bytes
}

/// The text messages that `bytes` of a server hold, whole; the last one may be cut.
pub(super) fn server_texts(mut bytes: &[u8]) -> Vec<&str> {
    let mut texts = Vec::new();
    while let [first, len, rest @ ..] = bytes {
        if *first == 0x88 {
            // Its farewell is the last that it says.
            break;
        }
        assert_eq!(*first, 0x81, "a text in one piece");
        let (len, rest) = match (len, rest) {
            (126, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            (126, _) => break,
            (len, rest) => (usize::from(*len), rest),
        };
        let Some((text, behind)) = rest.split_at_checked(len) else { break };
        texts.push(str::from_utf8(text).expect("a text is UTF-8"));
        bytes = behind;
    }
    texts
}

/// A frame of a client, whose payload has at most 125 bytes or 65,535; the mask is one that shows.
pub(super) fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        len @ ..=125 => frame.push(0x80 | len as u8),
        len => {
            frame.push(0x80 | 126);
            frame.extend((len as u16).to_be_bytes());
        }
    }
    frame.extend([0x55; 4]);
    frame.extend(payload.iter().map(|byte| byte ^ 0x55));
    frame
}
