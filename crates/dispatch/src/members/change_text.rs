//! What clients are told of a change in a room.

use std::sync::Arc;

use hub::{Manner, MemberChange, MemberUpdate};
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
