//! Who is in a room, for processes that ask: `{members, Id}` of the router.
//!
//! ```text
//! {ok, Count, [{Id, Info}]}    Info is undefined where the user's token has none
//! {ok, Count, too_many}        more than are listed
//! ```
//!
//! Members are users with tokens, so a process that is logged in is none. What is told is the text
//! that clients and the API are told, as terms: ids as they always come back, an info as the
//! payload of an event does. Cost: one pass over that text, in a task of its own.

use std::borrow::Cow;
use std::sync::Arc;

use dispatch::members::list_text;
use erlang::ReplyTo;
use erlang::term::{write, write_json};
use graph::OwnedId;
use hub::MemberList;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::Answer;
use super::connected_node::ConnectedNode;
use super::gateway::Gateway;
use super::ids;
use super::refusal::Refusal;
use super::rooms::Rooms;
use super::tasks;

/// A list as it is told everywhere.
#[derive(Deserialize)]
struct MemberListText<'t> {
    #[serde(borrow)]
    members: List<'t>,
}

#[derive(Deserialize)]
struct List<'t> {
    count: u64,
    /// `None` where there are too many.
    #[serde(borrow, default)]
    list: Option<Vec<One<'t>>>,
}

#[derive(Deserialize)]
struct One<'t> {
    #[serde(borrow)]
    id: Cow<'t, str>,
    #[serde(borrow, default)]
    info: Option<&'t RawValue>,
}

/// Answers who is in a room.
pub(super) fn answer(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    id: OwnedId,
    reply: Option<ReplyTo>,
) {
    // A cast that asks has nobody to be told.
    let Some(reply) = reply else { return };
    let (shared, asking) = (Arc::clone(gateway), Arc::clone(&node.peer));
    let told = reply.clone();
    tasks::start(gateway, node, Some(reply), async move {
        let text = list(&shared, &id).await?;
        let mut term = Vec::with_capacity(text.len());
        write_list(&mut term, &text);
        asking.send(|out| told.answer(out, |out| out.extend_from_slice(&term)));
        Ok(Answer::Told)
    });
}

/// The list of a room, as it is told everywhere.
async fn list(gateway: &Gateway, id: &OwnedId) -> Result<Arc<str>, Refusal> {
    match &gateway.rooms {
        Rooms::Off => Err(Refusal::MembersOff),
        Rooms::WithoutUsers => {
            let nobody = MemberList { count: 0, members: Some(Vec::new()) };
            Ok(list_text(&id.as_text().to_string(), &nobody).into())
        }
        Rooms::Kept(watches) => {
            let list = gateway.sender.room_list(watches, id.as_text()).await;
            list.map_err(|_| Refusal::LogAway)
        }
    }
}

/// Appends the answer that the list `text` stands for.
fn write_list(out: &mut Vec<u8>, text: &str) {
    let MemberListText { members: List { count, list } } =
        serde_json::from_str(text).expect("a list of ours has its form");
    write::tuple(out, 3);
    write::atom(out, "ok");
    write::natural(out, count);
    let Some(list) = list else { return write::atom(out, "too_many") };
    if !list.is_empty() {
        write::list(out, list.len());
    }
    for One { id, info } in list {
        write::tuple(out, 2);
        ids::write_id(out, &id);
        match info {
            Some(info) => write_json(out, info.get()),
            None => write::atom(out, "undefined"),
        }
    }
    write::nil(out);
}

#[cfg(test)]
mod tests {
    use erlang::Term;

    use super::*;

    #[test]
    fn list_is_terms_of_ids_and_of_what_is_told_of_each() {
        let members = [("b\"ob", Some("{\"n\":[1]}")), ("7", None)];
        let text = proto::members::list("room:7", 2, Some(members));
        let mut out = Vec::new();
        write_list(&mut out, &text);
        let [ok, count, list] = Term::read(&mut &out[..]).unwrap().tuple().unwrap();
        assert!(ok.atom().unwrap().is("ok"));
        assert_eq!(count.bytes(), b"\x61\x02");
        let listed: Vec<[Term<'_>; 2]> =
            list.list().unwrap().map(|member| member.tuple().unwrap()).collect();
        let mut info = Vec::new();
        write_json(&mut info, "{\"n\":[1]}");
        assert_eq!(
            (listed[0][0].bytes(), listed[0][1].bytes()),
            (&b"\x6d\0\0\0\x04b\"ob"[..], &*info)
        );
        assert_eq!(listed[1][0].bytes(), b"\x61\x07");
        assert!(listed[1][1].atom().unwrap().is("undefined"));
    }

    #[test]
    fn empty_room_is_an_empty_list_and_a_full_one_is_counted() {
        let answer = |members: Option<[(&str, Option<&str>); 0]>, count| {
            let mut out = Vec::new();
            write_list(&mut out, &proto::members::list("r", count, members));
            out
        };
        let empty = answer(Some([]), 0);
        let [_, count, list] = Term::read(&mut &empty[..]).unwrap().tuple().unwrap();
        assert_eq!((count.bytes(), list.bytes()), (&b"\x61\0"[..], &b"\x6a"[..]));
        let full = answer(None, 1001);
        let [_, count, list] = Term::read(&mut &full[..]).unwrap().tuple().unwrap();
        assert_eq!(count.bytes(), b"\x62\0\0\x03\xe9");
        assert!(list.atom().unwrap().is("too_many"));
    }
}
