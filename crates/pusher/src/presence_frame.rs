//! Frames of presence channels: the list that a new subscriber gets, and who comes and goes behind
//! it. pusher-js keeps `hash` and `count`; a user is there once, however many connections it has.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::text_of;

/// A member as it is told of: the id of a user, and what is told beside it.
#[derive(Clone, Copy, Debug)]
pub struct PresenceMember<'m> {
    /// The user's id.
    pub id: &'m str,
    /// JSON, if anything.
    pub info: Option<&'m RawValue>,
}

impl<'m> PresenceMember<'m> {
    /// A member of whom that is told, if anything: JSON.
    pub fn of_json(id: &'m str, info: Option<&'m str>) -> PresenceMember<'m> {
        let info = info.and_then(|json| serde_json::from_str(json).ok());
        PresenceMember { id, info }
    }
}

impl PresenceMember<'_> {
    fn info(&self) -> &RawValue {
        self.info.unwrap_or_else(|| no_info())
    }
}

/// What is told of a member who says nothing of itself. An object, so that a page which reads
/// `info.name` finds nothing, and does not stumble over `null`.
fn no_info() -> &'static RawValue {
    serde_json::from_str("{}").expect("it is JSON")
}

#[derive(Serialize)]
struct PresenceFrame<'f> {
    event: &'f str,
    channel: &'f str,
    data: &'f str,
}

fn frame(event: &str, channel: &str, data: &impl Serialize) -> String {
    let data = text_of(data);
    text_of(&PresenceFrame { event, channel, data: &data })
}

/// The answer to a subscription, with all members; the subscriber is one of them.
pub fn subscription_succeeded(channel: &str, members: &[PresenceMember<'_>]) -> String {
    #[derive(Serialize)]
    struct Presence<'p> {
        ids: Ids<'p>,
        hash: Hash<'p>,
        count: usize,
    }
    #[derive(Serialize)]
    struct Data<'d> {
        presence: Presence<'d>,
    }
    let (ids, hash, count) = (Ids(members), Hash(members), members.len());
    let data = Data { presence: Presence { ids, hash, count } };
    frame("pusher_internal:subscription_succeeded", channel, &data)
}

/// The frame that tells others of a user who has come.
pub fn member_added(channel: &str, member: PresenceMember<'_>) -> String {
    #[derive(Serialize)]
    struct Data<'d> {
        user_id: &'d str,
        user_info: &'d RawValue,
    }
    let data = Data { user_id: member.id, user_info: member.info() };
    frame("pusher_internal:member_added", channel, &data)
}

/// The frame that tells others of a user who has gone.
pub fn member_removed(channel: &str, user_id: &str) -> String {
    #[derive(Serialize)]
    struct Data<'d> {
        user_id: &'d str,
    }
    frame("pusher_internal:member_removed", channel, &Data { user_id })
}

struct Ids<'m>(&'m [PresenceMember<'m>]);

impl Serialize for Ids<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ids = serializer.serialize_seq(Some(self.0.len()))?;
        self.0.iter().try_for_each(|member| ids.serialize_element(member.id))?;
        ids.end()
    }
}

struct Hash<'m>(&'m [PresenceMember<'m>]);

impl Serialize for Hash<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut hash = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|member| hash.serialize_entry(member.id, member.info()))?;
        hash.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::Member;

    fn member(json: &str) -> Member {
        Member::parse(json).unwrap()
    }

    fn told(member: &Member) -> PresenceMember<'_> {
        PresenceMember { id: &member.id, info: member.info.as_deref() }
    }

    #[test]
    fn list_is_what_pusher_js_reads() {
        let bob = member(r#"{"user_id":"bob","user_info":{"name":"Bob"}}"#);
        assert_eq!(
            subscription_succeeded("presence-room-7", &[told(&bob)]),
            concat!(
                r#"{"event":"pusher_internal:subscription_succeeded","channel":"#,
                r#""presence-room-7","data":"{\"presence\":{\"ids\":[\"bob\"],\"hash\":{\"bob\":"#,
                r#"{\"name\":\"Bob\"}},\"count\":1}}"}"#,
            )
        );
        let ten = member(r#"{"user_id":10}"#);
        assert_eq!(
            subscription_succeeded("presence-a", &[told(&bob), told(&ten)]),
            concat!(
                r#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","#,
                r#""data":"{\"presence\":{\"ids\":[\"bob\",\"10\"],\"hash\":{\"bob\":{\"name\":"#,
                r#"\"Bob\"},\"10\":{}},\"count\":2}}"}"#,
            )
        );
    }

    #[test]
    fn changes_name_the_user() {
        let bob = member(r#"{"user_id":"b\"ob","user_info":["\u00e4"]}"#);
        assert_eq!(
            member_added("presence-a", told(&bob)),
            concat!(
                r#"{"event":"pusher_internal:member_added","channel":"presence-a","data":"#,
                r#""{\"user_id\":\"b\\\"ob\",\"user_info\":[\"\\u00e4\"]}"}"#,
            )
        );
        assert_eq!(
            member_removed("presence-a", "10"),
            concat!(
                r#"{"event":"pusher_internal:member_removed","channel":"presence-a","data":"#,
                r#""{\"user_id\":\"10\"}"}"#,
            )
        );
    }
}
