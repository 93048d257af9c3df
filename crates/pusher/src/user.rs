//! Who a client is: the member of a presence channel, and the user that a connection is signed in
//! as. Both are JSON that the app has made and signed.

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::channel::is_user_id;
use crate::json;
use crate::limits::{JSON_DEPTH_MAX, USER_ID_CHARS_MAX, USER_INFO_BYTES_MAX, WATCHLIST_USERS_MAX};

/// What others are told of a user: JSON as the app wrote it.
pub type UserInfo = Box<RawValue>;

/// One user in a presence channel.
#[derive(Clone, Debug)]
pub struct Member {
    /// The user's id; a number stands for its digits.
    pub id: String,
    /// What the others are told, if anything.
    pub info: Option<UserInfo>,
}

/// The user that a connection is signed in as.
#[derive(Clone, Debug)]
pub struct User {
    /// The user's id.
    pub id: String,
    /// What presence channels tell of the user, if anything.
    pub info: Option<UserInfo>,
    /// Whose coming and going the user wants to hear of, each once.
    pub watchlist: Vec<String>,
    /// Whether the list was longer than [`WATCHLIST_USERS_MAX`].
    pub is_watchlist_cut: bool,
}

/// Why that JSON is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum UserFault {
    /// It is no JSON object of the members that are expected.
    #[error("it is not a JSON object with a user id")]
    Form,
    /// The id is empty, too long, or neither a text nor a number.
    #[error("the user id is not a text or a number of 1 to {USER_ID_CHARS_MAX} characters")]
    Id,
    /// What is told of the user is too long.
    #[error("user_info has more than {USER_INFO_BYTES_MAX} bytes of JSON")]
    InfoTooLong,
    /// What is told of the user is nested too deep.
    #[error("user_info is nested deeper than {JSON_DEPTH_MAX}")]
    InfoTooDeep,
}

/// What stands in `channel_data`.
#[derive(Deserialize)]
struct ChannelData<'d> {
    #[serde(borrow)]
    user_id: &'d RawValue,
    #[serde(borrow, default)]
    user_info: Option<&'d RawValue>,
}

/// What stands in `user_data`. What the app says besides is between it and its pages.
#[derive(Deserialize)]
struct UserData<'d> {
    id: String,
    #[serde(borrow, default)]
    user_info: Option<&'d RawValue>,
    #[serde(default)]
    watchlist: Option<Vec<String>>,
}

impl Member {
    /// The member with this id, of whom that is told: JSON as it was read before.
    pub fn of_parts(id: String, info: Option<String>) -> Member {
        Member { id, info: info.and_then(|info| RawValue::from_string(info).ok()) }
    }

    /// Reads `channel_data`.
    ///
    /// # Errors
    /// It says not who the member is; the subscription is refused.
    pub fn parse(channel_data: &str) -> Result<Member, UserFault> {
        let data: ChannelData<'_> = json::object(channel_data).map_err(|_| UserFault::Form)?;
        let id = id_of(data.user_id.get()).ok_or(UserFault::Id)?;
        Ok(Member { id, info: info_of(data.user_info)? })
    }
}

impl User {
    /// Reads `user_data`.
    ///
    /// # Errors
    /// It says not who the user is; the sign-in fails.
    pub fn parse(user_data: &str) -> Result<User, UserFault> {
        let data: UserData<'_> = json::object(user_data).map_err(|_| UserFault::Form)?;
        if !is_user_id(&data.id) {
            return Err(UserFault::Id);
        }
        let mut watchlist = data.watchlist.unwrap_or_default();
        let is_watchlist_cut = watchlist.len() > WATCHLIST_USERS_MAX;
        watchlist.truncate(WATCHLIST_USERS_MAX);
        if !watchlist.iter().all(|id| is_user_id(id)) {
            return Err(UserFault::Id);
        }
        let mut seen = std::collections::HashSet::new();
        watchlist.retain(|id| seen.insert(id.clone()));
        Ok(User { id: data.id, info: info_of(data.user_info)?, watchlist, is_watchlist_cut })
    }

    /// The member that this user is of a presence channel to which nobody else is said to belong.
    pub fn as_member(&self) -> Member {
        Member { id: self.id.clone(), info: self.info.clone() }
    }
}

/// The id that the JSON says: a text, or a number as it is written. A machine's number would lose
/// digits.
fn id_of(json: &str) -> Option<String> {
    let id = match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok()?,
        b'-' | b'0'..=b'9' => json.to_owned(),
        _ => return None,
    };
    is_user_id(&id).then_some(id)
}

fn info_of(info: Option<&RawValue>) -> Result<Option<UserInfo>, UserFault> {
    let Some(info) = info else { return Ok(None) };
    if info.get().len() > USER_INFO_BYTES_MAX {
        return Err(UserFault::InfoTooLong);
    }
    if json::depth(info.get()) > JSON_DEPTH_MAX {
        return Err(UserFault::InfoTooDeep);
    }
    Ok(Some(info.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(info: &Option<UserInfo>) -> Option<&str> {
        info.as_deref().map(RawValue::get)
    }

    #[test]
    fn member_is_read_as_apps_write_it() {
        for (json, id, told) in [
            (r#"{"user_id":"bob","user_info":{"name":"Bob"}}"#, "bob", Some(r#"{"name":"Bob"}"#)),
            (
                r#"{"user_id":10,"user_info":{"name":"Mr. Channels"}}"#,
                "10",
                Some(r#"{"name":"Mr. Channels"}"#),
            ),
            (r#"{"user_id":"10"}"#, "10", None),
            (
                r#" {"user_info":null,"user_id":12345678901234567890123}"#,
                "12345678901234567890123",
                None,
            ),
            (r#"{"user_id":"b\u00f6b","more":[1]}"#, "böb", None),
            (r#"{"user_id":-1,"user_info":"x"}"#, "-1", Some("\"x\"")),
        ] {
            let member = Member::parse(json).unwrap();
            assert_eq!((member.id.as_str(), info(&member.info)), (id, told), "{json}");
        }
    }

    #[test]
    fn member_that_says_not_who_it_is_is_refused() {
        for (json, fault) in [
            ("", UserFault::Form),
            ("null", UserFault::Form),
            (r#"["bob",{}]"#, UserFault::Form),
            (r#"{"user_info":{}}"#, UserFault::Form),
            (r#"{"user_id":"a","user_id":"b"}"#, UserFault::Form),
            (r#"{"user_id":"bob"} x"#, UserFault::Form),
            (r#"{"user_id":""}"#, UserFault::Id),
            (r#"{"user_id":null}"#, UserFault::Id),
            (r#"{"user_id":true}"#, UserFault::Id),
            (r#"{"user_id":{"a":1}}"#, UserFault::Id),
            (r#"{"user_id":["bob"]}"#, UserFault::Id),
            (r#"{"user_id":"\ud800"}"#, UserFault::Id),
        ] {
            assert_eq!(Member::parse(json).unwrap_err(), fault, "{json}");
        }
        let with = |id: String| Member::parse(&format!(r#"{{"user_id":"{id}"}}"#));
        assert!(with("ü".repeat(128)).is_ok());
        assert_eq!(with("ü".repeat(129)).unwrap_err(), UserFault::Id);
    }

    #[test]
    fn info_has_a_bound_in_bytes_and_in_depth() {
        let with = |info: String| Member::parse(&format!(r#"{{"user_id":1,"user_info":{info}}}"#));
        assert!(with(format!("\"{}\"", "a".repeat(1022))).is_ok());
        let long = with(format!("\"{}\"", "a".repeat(1023)));
        assert_eq!(long.unwrap_err(), UserFault::InfoTooLong);
        let nested = |deep: usize| format!("{}{}", "[".repeat(deep), "]".repeat(deep));
        assert!(with(nested(128)).is_ok());
        assert_eq!(with(nested(129)).unwrap_err(), UserFault::InfoTooDeep);
    }

    #[test]
    fn user_is_read_with_a_watchlist_that_has_a_bound() {
        let user = User::parse(r#"{"id":"bob","watchlist":["rj","alice","rj"]}"#).unwrap();
        assert_eq!((user.id.as_str(), user.is_watchlist_cut), ("bob", false));
        assert_eq!(user.watchlist, ["rj", "alice"]);
        assert_eq!(user.as_member().id, "bob");
        let many: Vec<String> = (0..101).map(|number| format!("\"{number}\"")).collect();
        let with = |ids: &[String]| {
            User::parse(&format!(r#"{{"id":"bob","watchlist":[{}]}}"#, ids.join(","))).unwrap()
        };
        assert_eq!((with(&many).watchlist.len(), with(&many).is_watchlist_cut), (100, true));
        assert!(!with(&many[..100]).is_watchlist_cut);
        for json in [r#"{"id":1}"#, r#"{"id":"b","watchlist":"rj"}"#, r#"{}"#, "[]"] {
            assert_eq!(User::parse(json).unwrap_err(), UserFault::Form, "{json}");
        }
        for json in [r#"{"id":""}"#, r#"{"id":"b","watchlist":[""]}"#] {
            assert_eq!(User::parse(json).unwrap_err(), UserFault::Id, "{json}");
        }
    }
}
