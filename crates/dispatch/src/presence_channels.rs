//! Here is what clients of the Pusher protocol are told of each other: who is in a presence
//! channel, and who comes and goes. They also hear which users of a watchlist sign in and out. When
//! they are told is that of [rooms](crate::members).

use engine::channel_name;
use hub::{Info, Key, MemberChange, MemberList, MemberUpdate, Space};
use pusher::presence_frame::{self, PresenceMember};
use pusher::server_frame::watchlist_events;

/// What is told of the room with this key as it is; `None` of an id.
pub(crate) fn whole(of: &str, room: &MemberList) -> Option<String> {
    let Key { space, name, .. } = Key::parse(of)?;
    match space {
        Space::SignedIn => user_is(name, room.count > 0),
        _ => Some(list(&channel_name(of)?, room)),
    }
}

/// What is told of a change in the room with this key; `None` of an id.
pub(crate) fn changed(of: &str, update: &MemberUpdate) -> Option<String> {
    let Key { space, name, .. } = Key::parse(of)?;
    match space {
        Space::SignedIn => user_is(name, matches!(update.change, MemberChange::Joined(_))),
        _ => Some(change(&channel_name(of)?, update)),
    }
}

/// A user of watchlists is signed in, or not.
fn user_is(id: &str, is_online: bool) -> Option<String> {
    let (user, nobody): (&[&str], &[&str]) = (&[id], &[]);
    if is_online { watchlist_events(user, nobody) } else { watchlist_events(nobody, user) }
}

/// The answer to a subscription: the list.
fn list(channel: &str, list: &MemberList) -> String {
    debug_assert!(list.members.is_some(), "members of a channel are listed");
    let members = list.members.as_deref().unwrap_or_default();
    let told: Vec<PresenceMember<'_>> =
        members.iter().map(|(sub, info)| told(sub, info.as_ref())).collect();
    presence_frame::subscription_succeeded(channel, &told)
}

/// What others hear of who has come or gone.
fn change(channel: &str, MemberUpdate { sub, change, .. }: &MemberUpdate) -> String {
    match change {
        MemberChange::Joined(info) => {
            presence_frame::member_added(channel, told(sub, info.as_ref()))
        }
        MemberChange::Left => presence_frame::member_removed(channel, user_id(sub)),
    }
}

fn told<'m>(sub: &'m str, info: Option<&'m Info>) -> PresenceMember<'m> {
    PresenceMember::of_json(user_id(sub), info.map(Info::json))
}

/// The user that a member is: its key's name.
fn user_id(sub: &str) -> &str {
    Key::parse(sub).map_or(sub, |key| key.name)
}

#[cfg(test)]
mod tests {
    use hub::{Id, Manner};

    use super::*;

    #[test]
    fn list_and_changes_name_users_and_not_their_keys() {
        let info = Some(Info::new("{\"name\":\"Bob\"}"));
        let members = vec![("#m:b b".into(), info.clone()), ("#m:7".into(), None)];
        let text = list("presence-a", &MemberList { count: 2, members: Some(members) });
        assert_eq!(
            text,
            concat!(
                r#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","#,
                r#""data":"{\"presence\":{\"ids\":[\"b b\",\"7\"],\"hash\":{\"b b\":"#,
                r#"{\"name\":\"Bob\"},\"7\":{}},\"count\":2}}"}"#,
            )
        );
        let update = |change| MemberUpdate {
            room: Id::NONE,
            sub: "#m:b b".into(),
            change,
            count: 1,
            manner: Manner::Whole,
        };
        let joined = change("presence-a", &update(MemberChange::Joined(info)));
        assert!(joined.contains("member_added") && joined.contains(r#"\"user_id\":\"b b\""#));
        let left = change("presence-a", &update(MemberChange::Left));
        assert!(left.contains("member_removed") && !left.contains("#m"), "{left}");
        assert_eq!(changed("#c1:presence-a", &update(MemberChange::Left)), Some(left));
        let signed_out = changed("#s1:bob", &update(MemberChange::Left)).unwrap();
        assert!(signed_out.contains("watchlist_events") && signed_out.contains("offline"));
        let there = MemberList { count: 1, members: None };
        assert!(whole("#s1:bob", &there).unwrap().contains("online"));
        assert_eq!(changed("bob", &update(MemberChange::Left)), None, "an id");
    }
}
