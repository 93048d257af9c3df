//! Users of channels who hear what they follow in the stored graph
//! (`crate::shard::channels::graph`).

use std::collections::HashMap;

use hub::{Id, KEY_MARK};
use pusher::plain_text;
use pusher::server_frame::{EventFrame, EventText, name_of_sent};

use crate::Event;
use crate::channels::channel_name;

pub(in crate::shard) struct GraphUser {
    /// The key of the user's channel.
    pub(in crate::shard) key: Box<str>,
    pub(in crate::shard) id: Id,
}

/// Those users, by slot.
#[derive(Default)]
pub(in crate::shard) struct GraphUsers(pub(in crate::shard) HashMap<u32, GraphUser>);

impl GraphUsers {
    /// Whether there is none.
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the connection in `slot` hears of the graph on the channel with this key.
    pub(in crate::shard) fn is_of(&self, slot: u32, key: &str) -> bool {
        self.0.get(&slot).is_some_and(|user| *user.key == *key)
    }

    /// The id of the user in `slot`.
    pub(in crate::shard) fn id(&self, slot: u32) -> Option<Id> {
        self.0.get(&slot).map(|user| user.id)
    }

    pub(in crate::shard) fn forget(&mut self, slot: u32) {
        self.0.remove(&slot);
    }

    /// The frame with which the connection in `slot` is told an event that is about an id.
    pub(in crate::shard) fn frame(&self, slot: u32, event: &Event) -> Option<String> {
        let user = self.0.get(&slot).filter(|_| !event.about().starts_with(KEY_MARK))?;
        let name = event.name_json().map(plain_text);
        let frame = EventFrame {
            name: EventText::Text(name_of_sent(name.as_deref())),
            data: EventText::Text(&plain_text(event.data())),
            user_id: None,
            id: Some(event.id()),
        };
        Some(frame.of_channel(&channel_name(&user.key)?))
    }
}
