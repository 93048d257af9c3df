//! Who is in a room, as streams and the API tell it: one JSON object on one line each.
//!
//! `{"members":{"of":"room:7","count":2,"list":[{"id":"bob","info":{…}},{"id":"zoe"}]}}` is a whole
//! list, in the place of the one before. `{"joined":{"of":"room:7","id":"bob","info":{…}}}` and
//! `{"left":{"of":"room:7","id":"bob"}}` change it: who joins that is there already has another
//! info. Of a room with too many members all three have a count alone.

use crate::json::push_string;

/// A whole list. `count` is how many there are; `members` each of them by its id, with one JSON
/// value that is told of it, or `None` where there are too many to be listed.
pub fn list<'m>(
    of: &str,
    count: usize,
    members: Option<impl IntoIterator<Item = (&'m str, Option<&'m str>)>>,
) -> String {
    let mut out = begin("members", of);
    push_count(&mut out, count);
    if let Some(members) = members {
        out.push_str(",\"list\":[");
        for (at, (id, info)) in members.into_iter().enumerate() {
            out.push_str(if at > 0 { ",{" } else { "{" });
            push_member(&mut out, id, info);
            out.push('}');
        }
        out.push(']');
    }
    end(out)
}

/// One has come, or is told anew with another `info`, one JSON value.
pub fn joined(of: &str, id: &str, info: Option<&str>) -> String {
    let mut out = begin("joined", of);
    out.push(',');
    push_member(&mut out, id, info);
    end(out)
}

/// One has gone.
pub fn left(of: &str, id: &str) -> String {
    let mut out = begin("left", of);
    out.push(',');
    push_member(&mut out, id, None);
    end(out)
}

/// Some have come, `has_joined`, or gone, and now there are so many.
pub fn counted(of: &str, has_joined: bool, count: usize) -> String {
    let mut out = begin(if has_joined { "joined" } else { "left" }, of);
    push_count(&mut out, count);
    end(out)
}

fn begin(name: &str, of: &str) -> String {
    let mut out = format!("{{\"{name}\":{{\"of\":");
    push_string(&mut out, of);
    out
}

fn push_count(out: &mut String, count: usize) {
    out.push_str(&format!(",\"count\":{count}"));
}

fn push_member(out: &mut String, id: &str, info: Option<&str>) {
    out.push_str("\"id\":");
    push_string(out, id);
    if let Some(info) = info {
        out.push_str(",\"info\":");
        out.push_str(info);
    }
}

fn end(mut out: String) -> String {
    out.push_str("}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_changes_are_one_line_of_json_each() {
        let members = [("b\"ob", Some("{\"n\":1}")), ("7", None)];
        assert_eq!(
            list("room:7", 2, Some(members)),
            concat!(
                r#"{"members":{"of":"room:7","count":2,"list":["#,
                r#"{"id":"b\"ob","info":{"n":1}},{"id":"7"}]}}"#
            )
        );
        assert_eq!(list("é", 0, Some([])), r#"{"members":{"of":"é","count":0,"list":[]}}"#);
        assert_eq!(list("a", 1_001, None::<[_; 0]>), r#"{"members":{"of":"a","count":1001}}"#);
        assert_eq!(
            joined("a", "bob", Some("\"x\"")),
            r#"{"joined":{"of":"a","id":"bob","info":"x"}}"#
        );
        assert_eq!(joined("a", "bob", None), r#"{"joined":{"of":"a","id":"bob"}}"#);
        assert_eq!(left("a", "bob"), r#"{"left":{"of":"a","id":"bob"}}"#);
        assert_eq!(counted("a", true, 1_002), r#"{"joined":{"of":"a","count":1002}}"#);
        assert_eq!(counted("a", false, 1_001), r#"{"left":{"of":"a","count":1001}}"#);
    }
}
