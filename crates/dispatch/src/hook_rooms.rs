//! What the nodes of a cluster call the channels of an app with webhooks, and the users in them:
//! the [subjects](crate::subject_rooms) of the app's room. All nodes with such an app want to know
//! it.

use crate::subject_rooms::Subject;

/// What ends the subject of a channel, and what stands before the user in that of a member: neither
/// occurs in a channel's name. In the order of their bytes the members of a channel stand before
/// it, so they are told to be gone first.
const CHANNEL_END: char = '~';
const MEMBER: char = '/';

/// The subject of a channel.
pub(crate) fn channel_subject(channel: &str) -> Subject {
    format!("{channel}{CHANNEL_END}").into()
}

/// The subject of a user in a channel.
pub(crate) fn member_subject(channel: &str, user: &str) -> Subject {
    format!("{channel}{MEMBER}{user}").into()
}

/// The channel of a subject, and its user if it is a member. `None` of what no node of this version
/// would say.
pub(crate) fn parse_subject(subject: &str) -> Option<(&str, Option<&str>)> {
    match subject.split_once(MEMBER) {
        Some((channel, user)) => Some((channel, Some(user))),
        None => Some((subject.strip_suffix(CHANNEL_END)?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_read_as_it_was_made_and_members_go_before_their_channel() {
        let (channel, member) =
            (channel_subject("presence-a"), member_subject("presence-a", "b/~c"));
        assert_eq!(parse_subject(&channel), Some(("presence-a", None)));
        assert_eq!(parse_subject(&member), Some(("presence-a", Some("b/~c"))));
        assert_eq!(parse_subject("presence-a"), None);
        assert!(member < channel, "in the order in which they are told to be gone");
    }
}
