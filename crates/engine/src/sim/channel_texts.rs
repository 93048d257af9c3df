//! What clients of the Pusher protocol are told of each other, as the control plane writes it.

use hub::{Info, Key, MemberChange, MemberList};
use pusher::presence_frame::{self, PresenceMember};
use pusher::server_frame::watchlist_events;

use crate::channels::channel_name;

/// What begins the key of a user of the app 1.
const USER: &str = "#s1:";

/// The list of a presence channel, or whether a user is signed in; `None` of another room.
pub(super) fn list(of: &str, list: &MemberList) -> Option<String> {
    if let Some(user) = of.strip_prefix(USER) {
        return if list.count > 0 {
            watchlist_events(&[user], &[])
        } else {
            watchlist_events(&[], &[user])
        };
    }
    let channel = channel_name(of)?;
    let members = list.members.as_ref().unwrap().iter();
    let told: Vec<PresenceMember<'_>> = members
        .map(|(sub, info)| PresenceMember::of_json(user_id(sub), info.as_ref().map(Info::json)))
        .collect();
    Some(presence_frame::subscription_succeeded(&channel, &told))
}

/// What has changed there, or of a user's sign-ins; `None` of another room.
pub(super) fn change(of: &str, sub: &str, change: &MemberChange) -> Option<String> {
    if let Some(user) = of.strip_prefix(USER) {
        return match change {
            MemberChange::Joined(_) => watchlist_events(&[user], &[]),
            MemberChange::Left => watchlist_events(&[], &[user]),
        };
    }
    let channel = channel_name(of)?;
    Some(match change {
        MemberChange::Joined(info) => {
            let told = PresenceMember::of_json(user_id(sub), info.as_ref().map(Info::json));
            presence_frame::member_added(&channel, told)
        }
        MemberChange::Left => presence_frame::member_removed(&channel, user_id(sub)),
    })
}

fn user_id(sub: &str) -> &str {
    Key::parse(sub).unwrap().name
}
