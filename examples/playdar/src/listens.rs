//! What a scrobbler says of the person at this machine: what they listen to now, and what they have
//! heard to its end. It is told as it comes, and not kept.
//!
//! | where | event about |
//! | --- | --- |
//! | the daemon's own streams | `listening` |
//! | the Encke of friends, if there is one | the daemon's name, which friends follow |
//!
//! The payload is `{"_msgtype":"listening","artist":…,"track":…,"album":…}`, or `listened` with
//! `listened_at`, in seconds since 1970. Friends' daemons pass it over; pages need not.

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::model::{Invalid, Query};
use crate::streams::StreamSender;

/// What the events of this machine's own streams are about.
pub const ABOUT: &str = "listening";

/// Songs that wait to be told to friends. One more is not told to them.
pub(crate) const WAITING_MAX: usize = 16;

/// A song that somebody listens to, or has listened to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Listen {
    #[serde(rename = "_msgtype")]
    kind: &'static str,
    artist: String,
    track: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    album: Option<String>,
    /// In seconds since 1970; `None` while it plays.
    #[serde(skip_serializing_if = "Option::is_none")]
    listened_at: Option<u64>,
}

impl Listen {
    /// The song of a name, within the bounds of names; `listened_at` once it is over.
    ///
    /// # Errors
    /// A name is missing or too long.
    pub fn new(
        artist: String,
        track: String,
        album: Option<String>,
        listened_at: Option<u64>,
    ) -> Result<Listen, Invalid> {
        let names = Query { artist, track, album, ..Query::default() }.checked()?;
        let kind = if listened_at.is_some() { "listened" } else { "listening" };
        let Query { artist, track, album, .. } = names;
        Ok(Listen { kind, artist, track, album, listened_at })
    }
}

/// Those who are told.
pub struct Listens {
    stream_sender: StreamSender,
    friends: Option<mpsc::Sender<Value>>,
}

impl Listens {
    /// Tells the streams of `stream_sender`, and friends by `friends`.
    pub(crate) fn new(
        stream_sender: StreamSender,
        friends: Option<mpsc::Sender<Value>>,
    ) -> Listens {
        Listens { stream_sender, friends }
    }

    /// Tells it to whoever listens; returns when the daemon's own streams have it.
    ///
    /// # Errors
    /// They do not take it.
    pub async fn tell(&self, listen: &Listen) -> Result<()> {
        self.stream_sender.post(ABOUT, [listen]).await?;
        let Some(friends) = &self.friends else { return Ok(()) };
        match friends.try_send(json!(listen)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!("friends are not told of a song: {WAITING_MAX} wait already");
            }
            Err(TrySendError::Closed(_)) => {
                tracing::warn!("friends are not told of a song: the daemon is stopping");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn song_is_told_with_its_names_and_when_it_is_over_with_the_time() {
        let new = |album: Option<&str>, at| {
            Listen::new(" RJ ".into(), "Song".into(), album.map(str::to_owned), at)
        };
        let now = json!({"_msgtype": "listening", "artist": "RJ", "track": "Song"});
        assert_eq!(json!(new(Some(""), None).unwrap()), now);
        let over = json!({"_msgtype": "listened", "artist": "RJ", "track": "Song", "album": "B",
            "listened_at": 7});
        assert_eq!(json!(new(Some("B"), Some(7)).unwrap()), over);
        assert!(new(Some("a\nb"), None).is_err());
        assert!(Listen::new("RJ".into(), " ".into(), None, None).is_err());
    }
}
