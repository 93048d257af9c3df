//! Which events of clients are passed on. How often a connection sends some is counted by whoever
//! keeps the connection.

use thiserror::Error;

use crate::channel::Channel;
use crate::client_frame::ClientEvent;
use crate::code::ErrorCode;

/// Why an event of a client is not passed on. The connection stays, and hears `pusher:error` 4301.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EventRefusal {
    /// The app takes none.
    #[error("Client events are switched off for this app.")]
    SwitchedOff,
    /// The channel takes none.
    #[error("Client events are for private and presence channels.")]
    Channel,
    /// The sender does not hear the channel.
    #[error("Subscribe to the channel before you send an event to it.")]
    NotSubscribed,
    /// The data is too long.
    #[error("The data of this event is longer than the app allows.")]
    TooLong,
    /// The sender has sent too many.
    #[error("Too many client events. Send at most 10 a second.")]
    TooMany,
    /// The server has no room for it now.
    #[error("The server has no room for this event now. Try again.")]
    Busy,
}

impl EventRefusal {
    /// The number of the error.
    pub const fn code(self) -> ErrorCode {
        ErrorCode::ClientEvent
    }
}

/// What decides beside the event itself.
#[derive(Clone, Copy, Debug)]
pub struct EventRules {
    /// Whether the app takes events of clients.
    pub is_allowed: bool,
    /// The longest data, in bytes.
    pub data_bytes_max: usize,
}

impl EventRules {
    /// The channel that the event goes to. `is_subscribed` says whether its sender hears that one.
    ///
    /// # Errors
    /// It goes nowhere.
    pub fn check<'e>(
        self,
        event: &'e ClientEvent<'_>,
        is_subscribed: impl FnOnce(Channel<'_>) -> bool,
    ) -> Result<Channel<'e>, EventRefusal> {
        if !self.is_allowed {
            return Err(EventRefusal::SwitchedOff);
        }
        let channel = Channel::parse(&event.channel).map_err(|_| EventRefusal::Channel)?;
        if !channel.access().takes_client_events() {
            return Err(EventRefusal::Channel);
        }
        if !is_subscribed(channel) {
            return Err(EventRefusal::NotSubscribed);
        }
        match event.data.len() <= self.data_bytes_max {
            true => Ok(channel),
            false => Err(EventRefusal::TooLong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: EventRules = EventRules { is_allowed: true, data_bytes_max: 4 };

    fn event<'d>(channel: &str, data: &'d str) -> ClientEvent<'d> {
        ClientEvent { channel: channel.to_owned(), name: "client-a".to_owned(), data }
    }

    #[test]
    fn event_goes_to_channels_that_take_it() {
        for (channel, subscribed, refusal) in [
            ("private-a", true, None),
            ("presence-a", true, None),
            ("presence-cache-a", true, None),
            ("private-a", false, Some(EventRefusal::NotSubscribed)),
            ("a", true, Some(EventRefusal::Channel)),
            ("private-encrypted-a", true, Some(EventRefusal::Channel)),
            ("#server-to-user-bob", true, Some(EventRefusal::Channel)),
            ("private-ü", true, Some(EventRefusal::Channel)),
        ] {
            let event = event(channel, "1");
            assert_eq!(RULES.check(&event, |_| subscribed).err(), refusal, "{channel}");
        }
    }

    #[test]
    fn app_decides_whether_and_how_long() {
        let (fits, long) = (event("private-a", "1234"), event("private-a", "12345"));
        assert_eq!(RULES.check(&fits, |_| true).map(Channel::name), Ok("private-a"));
        assert_eq!(RULES.check(&long, |_| true).err(), Some(EventRefusal::TooLong));
        let off = EventRules { is_allowed: false, ..RULES };
        assert_eq!(off.check(&fits, |_| true).err(), Some(EventRefusal::SwitchedOff));
    }
}
