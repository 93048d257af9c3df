//! Channels that are one audience with an id, where their app shares them ([`pusher::App::ids`]).
//!
//! An event on such a channel is an event *about the id*, so it is heard, kept and counted as any
//! other. The subscribers of the channel stay logged in under its key. The router adds that key to
//! the audience of the id, and the worker makes the channel's event for them of the one that is
//! posted, once for each mail. Both have the same number, so a place in one is a place in the
//! other.
//!
//! Cost: a look at a flag for each send and each mail where apps are served. Once an app shares its
//! channels, a look at that app for each subject, and for each mail with subscribers an event more.

use std::iter;
use std::sync::Arc;

use hub::{Draft, EventId, EventParts, Id, IdText, KEY_MARK, Key, Names, Payload};
use pusher::server_frame::name_of_sent;
use pusher::{Access, App, CLIENT_PREFIX, Channel, is_json_but_text, plain_text};
use smallvec::SmallVec;

use crate::Event;
use crate::channels::channel_key;
use crate::pusher_apps::PusherApps;

/// A channel that hears of an id.
pub(crate) struct SharedChannel {
    /// Under which its subscribers are logged in.
    pub(crate) id: Id,
    key: String,
    event: Option<Arc<Event>>,
}

/// Channels that hear of the subjects of one event. Most have one at most.
pub(crate) type SharedChannels = SmallVec<[SharedChannel; 1]>;

impl SharedChannel {
    /// What the subscribers of the channel hear where `event` is posted.
    pub(crate) fn event(&mut self, event: &Event) -> Option<&Arc<Event>> {
        if self.event.is_none() {
            self.event = on_channel(event, &self.key);
        }
        self.event.as_ref()
    }
}

/// An id that keeps its name as long as this is there. Somebody asks for what was sent about it.
pub(crate) struct KeptId {
    names: Arc<Names>,
    pub(crate) id: Id,
    /// Nothing is sent on the channel but what is sent about the id. On a presence channel a client
    /// may send whose user can be no sender about an id.
    pub(crate) is_all: bool,
}

impl Drop for KeptId {
    fn drop(&mut self) {
        self.names.release(self.id);
    }
}

impl PusherApps {
    /// The [shared id](PusherApps::shared_id), which keeps its name.
    pub(crate) fn kept_id(&self, names: &Arc<Names>, key: &str) -> Option<KeptId> {
        let shared = self.shared_id(key)?;
        let id = names.acquire(IdText::parse(&shared).ok()?);
        let channel = Key::parse(key).and_then(|key| Channel::parse(key.name).ok());
        let is_all = channel.is_some_and(|channel| channel.access() != Access::Presence);
        Some(KeptId { names: Arc::clone(names), id, is_all })
    }

    /// The id that is one audience with the channel of this key, if there is one.
    pub fn shared_id(&self, key: &str) -> Option<String> {
        let signed = self.shares()?;
        let Key { app, name, .. } = Key::parse(key)?;
        let served = self.by_id(app)?;
        let channel = Channel::parse(name).ok().filter(|&channel| channel_key(app, channel) == key);
        let id = served.app.shared_id(channel?, signed)?;
        IdText::parse(&id).is_ok().then_some(id)
    }

    /// The channels with subscribers here that hear of the subjects of `event`.
    pub(crate) fn shared_channels(&self, names: &Names, event: &Event) -> SharedChannels {
        let Some(signed) = self.shares() else { return SharedChannels::new() };
        let mut channels = SharedChannels::new();
        for about in iter::once(event.about()).chain(event.also()) {
            self.visit_shared(&about, signed, |key| {
                if let Some(id) = known(names, &key) {
                    channels.push(SharedChannel { id, key, event: None });
                }
            });
        }
        channels
    }

    /// Under what the subscribers are logged in who hear of the subjects of `draft` as well.
    pub(crate) fn shared_keys(&self, names: &Names, draft: &Draft) -> SmallVec<[Id; 1]> {
        let Some(signed) = self.shares() else { return SmallVec::new() };
        let mut keys = SmallVec::new();
        for about in iter::once(draft.about()).chain(draft.also()) {
            self.visit_shared(&about, signed, |key| keys.extend(known(names, &key)));
        }
        keys
    }

    /// Shows the keys of the channels that are one audience with the id `about`.
    fn visit_shared(&self, about: &str, signed: bool, mut visit: impl FnMut(String)) {
        if about.starts_with(KEY_MARK) {
            return;
        }
        let read = self.read();
        let channel = |app: &Arc<App>| {
            let channel = app.shared_channel(about, signed)?;
            Some(channel_key(&app.id, channel))
        };
        read.sharing().iter().filter_map(channel).for_each(&mut visit);
    }
}

/// The key, if anybody is logged in under it.
fn known(names: &Names, key: &str) -> Option<Id> {
    names.lookup(IdText::of_key(key).ok()?)
}

/// The data of an event that a backend triggers, as it is told about an id: JSON is that JSON.
/// All else is a text, of which subscribers hear the same one again.
pub fn shared_payload(data: &str) -> Payload<'_> {
    if is_json_but_text(data) { Payload::Json(data) } else { Payload::Text(data) }
}

/// The event, which is about an id, as subscribers of the channel with this key hear it.
pub(crate) fn on_channel(event: &Event, key: &str) -> Option<Arc<Event>> {
    let id = EventId::parse(event.id().as_bytes())?;
    let name = event.name_json().map(plain_text);
    let name = name_of_sent(name.as_deref());
    let text;
    let payload = if name.starts_with(CLIENT_PREFIX) {
        // An event of a client has its data as it came.
        Payload::Json(event.data())
    } else {
        text = plain_text(event.data());
        Payload::Text(&text)
    };
    let from = event.from();
    let parts =
        EventParts { about: key, also: &[], name: Some(name), from: from.as_deref(), payload };
    let event_on_channel: Event = Draft::of_key(parts).ok()?.numbered(id);
    let is_remembered = event.is_remembered();
    let told = if is_remembered { event_on_channel } else { event_on_channel.forgotten() };
    Some(Arc::new(told))
}

#[cfg(test)]
mod tests {
    use pusher::Apps;

    use super::*;

    fn apps(text: &str) -> PusherApps {
        PusherApps::new(Apps::parse(text.as_bytes(), true).unwrap())
    }

    const SHARED: &str = r#"[
        {"id":"1","key":"a","secret":"s","ids":"chat:"},
        {"id":"2","key":"b","secret":"s","ids":""},
        {"id":"3","key":"c","secret":"s"}]"#;

    fn event(parts: EventParts<'_>) -> Event {
        Draft::of(parts).unwrap().numbered(EventId::parse(b"0000000000700000").unwrap())
    }

    #[test]
    fn channel_and_id_lead_to_each_other_where_the_app_shares_them() {
        let shared = apps(SHARED);
        for (key, id) in [
            ("#c1:news", Some("chat:news")),
            ("#c2:7", Some("7")),
            ("#c3:news", None),
            ("#c4:news", None),
            ("#c1:private-a", None),
            ("#k1:cache-a", None),
            ("#u1:bob", None),
            ("#s1:bob", None),
            ("news", None),
        ] {
            assert_eq!(shared.shared_id(key).as_deref(), id, "{key}");
        }
        let names = Names::new([7; 16]);
        let log_in = |key| names.login(IdText::of_key(key).unwrap(), true).unwrap();
        let (news, plain) = (log_in("#c1:news"), log_in("#c2:a"));
        let draft = |about, also: &[&str]| {
            let payload = Payload::Json("1");
            Draft::of(EventParts { about, also, name: None, from: None, payload }).unwrap()
        };
        let keys = |about, also: &[&str]| shared.shared_keys(&names, &draft(about, also)).to_vec();
        assert_eq!(keys("chat:news", &["a", "b"]), [news, plain]);
        assert_eq!(keys("news", &[]), [], "nobody is in that one");
        shared.replace(Apps::default());
        assert_eq!((keys("chat:news", &[]), shared.shared_id("#c1:news")), (vec![], None));
    }

    #[test]
    fn signed_channels_are_shared_where_streams_are_asked_for_something() {
        let private = "#c1:private-a";
        assert_eq!(apps(SHARED).shared_id(private), None);
        let signed = apps(SHARED).sharing_signed(true);
        assert_eq!(signed.shared_id(private).as_deref(), Some("chat:private-a"));
        assert_eq!(signed.shared_id("#c1:private-encrypted-a"), None);
    }

    #[test]
    fn event_about_an_id_is_one_of_the_channel_with_the_same_place() {
        let of = |name, payload| EventParts { about: "a", also: &["b"], name, from: None, payload };
        let told = |parts| {
            let told = on_channel(&event(parts), "#c1:news").unwrap();
            assert_eq!((&*told.about(), told.id(), told.also().count()), ("#c1:news", ID, 0));
            (told.name().unwrap().to_owned(), told.data().to_owned())
        };
        const ID: &str = "0000000000700000";
        for (name, payload, called, data) in [
            (Some("n\"1"), Payload::Json("{\"a\":1}"), "n\\\"1", "\"{\\\"a\\\":1}\""),
            (None, Payload::Text("hi"), "message", "\"hi\""),
            (Some("client-x"), Payload::Json("[1]"), "client-x", "[1]"),
            (Some("pusher:error"), Payload::Json("1"), "message", "\"1\""),
        ] {
            assert_eq!(told(of(name, payload)), (called.to_owned(), data.to_owned()));
        }
        assert!(
            !on_channel(&event(of(None, Payload::Json("1"))).forgotten(), "#c1:a")
                .unwrap()
                .is_remembered()
        );
        // What a backend triggers comes back as it was.
        for data in ["{\"a\": 1}", "hi", "\"7\"", "7", " 7", "", "\u{1f600}\n"] {
            assert_eq!(told(of(None, shared_payload(data))).1, serde_json::json!(data).to_string());
        }
    }
}
