//! What clients are told of a room.

use std::sync::Arc;

use hub::{Info, Manner, MemberChange, MemberList, MemberUpdate};
use proto::members;

use crate::presence_channels;

/// What is told of a change in the room `of`.
pub(super) fn text(of: &str, update: &MemberUpdate) -> Arc<str> {
    let MemberUpdate { sub, change, count, manner, .. } = update;
    if let Some(text) = presence_channels::changed(of, update) {
        debug_assert_eq!(*manner, Manner::Whole, "a channel has a bound");
        return text.into();
    }
    let text = match (manner, change) {
        (Manner::Whole, MemberChange::Joined(info)) => {
            members::joined(of, sub, info.as_ref().map(|info| info.json()))
        }
        (Manner::Whole, MemberChange::Left) => members::left(of, sub),
        (Manner::Count | Manner::List, change) => {
            members::counted(of, matches!(change, MemberChange::Joined(_)), *count)
        }
    };
    text.into()
}

/// What those who watch the room or the channel `of` are told as its list.
pub(super) fn whole_text(of: &str, list: &MemberList) -> Arc<str> {
    presence_channels::whole(of, list).unwrap_or_else(|| list_text(of, list)).into()
}

/// The list of the room `of`, as it is told everywhere.
pub fn list_text(of: &str, list: &MemberList) -> String {
    let texts = list
        .members
        .as_ref()
        .map(|members| members.iter().map(|(id, info)| (&**id, info.as_ref().map(Info::json))));
    members::list(of, list.count, texts)
}
