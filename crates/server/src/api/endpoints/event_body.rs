//! An event as a sender writes it.
//!
//! ```json
//! {"about":"room:7","data":{"x":1}}
//! {"about":["room:7","user:9"],"event":"typing","text":"any text","key":"once"}
//! {"about":"room:7","data":1,"except":"9f86d081884c7d65"}
//! {"about":"room:7","data":1,"durable":true}
//! ```

use std::borrow::Cow;
use std::fmt;

use dispatch::idempotency;
use engine::Outgoing;
use httpd::id::IdField;
use httpd::json::without_place;
use httpd::problem::ApiProblem;
use hub::{ConnectionId, Draft, EventParts, Payload, SUBJECTS_MAX};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// An event as a sender writes it.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventBody<'a> {
    #[serde(borrow)]
    pub(crate) about: Subjects<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    data: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "given")]
    text: Option<Box<str>>,
    #[serde(default, deserialize_with = "given")]
    event: Option<Box<str>>,
    /// The connection that does not hear it. What is no connection's id leaves out nobody.
    #[serde(default, deserialize_with = "left_out")]
    except: Option<ConnectionId>,
    /// The event is posted once with this key.
    #[serde(default, deserialize_with = "idempotency::member")]
    pub(crate) key: Option<Box<str>>,
    /// Whether it is answered when it is on disk.
    #[serde(default)]
    pub(crate) durable: bool,
}

/// What an event is about: an id, or a list of them, none of them checked.
#[derive(Debug)]
pub(crate) struct Subjects<'a> {
    first: IdField<'a>,
    others: Vec<IdField<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Subjects<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Subjects<'a>, D::Error> {
        let json = <&'a RawValue>::deserialize(deserializer)?;
        let subjects = if json.get().starts_with('[') {
            serde_json::Deserializer::from_str(json.get()).deserialize_seq(Listed)
        } else {
            IdField::deserialize(json).map(|first| Subjects { first, others: Vec::new() })
        };
        // What it has for a place is none of the body: that reader gives its own.
        subjects.map_err(|error| D::Error::custom(without_place(&error)))
    }
}

/// Reads a list of ids, and no more of it than may be.
struct Listed;

impl<'de> Visitor<'de> for Listed {
    type Value = Subjects<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of 1 to {SUBJECTS_MAX} ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Subjects<'de>, A::Error> {
        let Some(first) = ids.next_element()? else {
            return Err(A::Error::custom("the list \"about\" is empty: name one id at least"));
        };
        let mut others = Vec::new();
        while let Some(id) = ids.next_element()? {
            if others.len() + 1 == SUBJECTS_MAX {
                let why = format!("an event has at most {SUBJECTS_MAX} subjects in \"about\"");
                return Err(A::Error::custom(why));
            }
            others.push(id);
        }
        Ok(Subjects { first, others })
    }
}

impl Subjects<'_> {
    /// Whether it is a list of more than one.
    pub(crate) fn are_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Each of them, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(&self.first).chain(&self.others);
        all.map(|id| id.0.as_ref())
    }
}

/// A member that is there has a value: `null` is one for `data`, and none for a text.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn left_out<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ConnectionId>, D::Error> {
    connection(deserializer, "except")
}

/// What the member `named` says of a connection: a text, be it a connection's id or not.
pub(super) fn connection<'de, D: Deserializer<'de>>(
    deserializer: D,
    named: &'static str,
) -> Result<Option<ConnectionId>, D::Error> {
    deserializer.deserialize_str(ConnectionText(named))
}

struct ConnectionText(&'static str);

impl Visitor<'_> for ConnectionText {
    type Value = Option<ConnectionId>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a connection's id in {:?}, which is a text", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<ConnectionId>, E> {
        Ok(ConnectionId::parse(text))
    }
}

impl EventBody<'_> {
    /// What it tells.
    ///
    /// # Errors
    ///
    /// It has `data` and `text`, or neither.
    pub(crate) fn payload(&self) -> Result<Payload<'_>, ApiProblem> {
        match (self.data, &self.text) {
            (Some(json), None) => Ok(Payload::Json(json.get())),
            (None, Some(text)) => Ok(Payload::Text(text)),
            (None, None) => Err(ApiProblem::bad_request(
                "This event has neither \"data\" nor \"text\": give it one of them.",
            )),
            (Some(_), Some(_)) => Err(ApiProblem::bad_request(
                "This event has both \"data\" and \"text\": give it one of them.",
            )),
        }
    }

    /// The event on its way.
    ///
    /// # Errors
    ///
    /// A subject is no id, or it has more of something than may be.
    pub(crate) fn outgoing(&self) -> Result<Outgoing, ApiProblem> {
        self.outgoing_from(None)
    }

    /// The event on its way, which is `from` somebody whom the server knows.
    ///
    /// # Errors
    ///
    /// As [`EventBody::outgoing`].
    pub(crate) fn outgoing_from(&self, from: Option<&str>) -> Result<Outgoing, ApiProblem> {
        let also: Vec<&str> = self.about.others.iter().map(|id| id.0.as_ref()).collect();
        let draft = Draft::of(EventParts {
            about: &self.about.first.0,
            also: &also,
            name: self.event.as_deref(),
            from,
            payload: self.payload()?,
        })?;
        let except = self.except.into();
        Ok(Outgoing { except, durable: self.durable, ..Outgoing::from(draft) })
    }

    /// Its first subject.
    pub(crate) fn about(&self) -> &str {
        &self.about.first.0
    }

    /// What a repeat of it with its key must have, too, beside the first subject. Of an event that
    /// has a subject and data alone it is these, as nodes of an earlier version have it. It may
    /// leave out another connection: its sender may have come back on one.
    pub(crate) fn fingerprint(&self) -> Cow<'_, str> {
        let (data, text) = (self.data.map_or("", RawValue::get), self.text.as_deref());
        let is_plain = text.is_none() && self.event.is_none() && self.about.others.is_empty();
        if is_plain && !self.durable {
            return Cow::Borrowed(data);
        }
        // No JSON begins so, and each part says how long it is.
        let mut all = format!("={}:{data}", data.len());
        let others = self.about.others.iter().map(|id| Some(id.0.as_ref()));
        for part in [text, self.event.as_deref()].into_iter().chain(others) {
            match part {
                Some(part) => all.push_str(&format!("={}:{part}", part.len())),
                None => all.push('-'),
            }
        }
        // One that waits for the disk is not answered by one that did not.
        if self.durable {
            all.push_str("=durable");
        }
        Cow::Owned(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use httpd::object::Object;

    fn read(json: &str) -> EventBody<'_> {
        serde_json::from_str::<Object<EventBody<'_>>>(json).unwrap().0
    }

    fn line(json: &str) -> Result<String, ApiProblem> {
        Ok(read(json).outgoing()?.draft.json().to_owned())
    }

    #[test]
    fn event_keeps_its_data_as_written() {
        let body = read("{\"data\": {\"x\" :1.50}, \"about\":12}");
        assert_eq!((body.about(), &*body.fingerprint()), ("12", "{\"x\" :1.50}"));
        assert!(matches!(body.payload(), Ok(Payload::Json("{\"x\" :1.50}"))));
        let null = read(r#"{"about":1,"data":null}"#);
        assert!(matches!(null.payload(), Ok(Payload::Json("null"))));
    }

    #[test]
    fn event_has_a_name_a_text_and_several_subjects() {
        let zeros = r#"{"id":"0000000000000000","#;
        for (json, expected) in [
            (
                r#"{"about":"a","event":"typing","data":1}"#,
                r#""about":"a","event":"typing","data":1}"#,
            ),
            (r#"{"about":["a"],"text":"x\ny"}"#, r#""about":"a","data":"x\ny"}"#),
            (
                r#"{"about":["a",7,"a","7"],"event":"\"\u0001","text":""}"#,
                r#""about":"a","also":["7"],"event":"\"\u0001","data":""}"#,
            ),
        ] {
            assert_eq!(line(json).ok(), Some(format!("{zeros}{expected}")), "{json}");
        }
    }

    #[test]
    fn member_that_there_is_not_is_told_with_those_that_there_are() {
        let json = r#"{"about":1,"data":2,"x":true}"#;
        let error = serde_json::from_str::<Object<EventBody<'_>>>(json).unwrap_err().to_string();
        assert!(error.contains("`except`") && !error.contains("echo"), "{error}");
    }

    #[test]
    fn event_leaves_out_one_connection_and_a_text_that_is_none_leaves_out_nobody() {
        let except = |text: &str| {
            let json = format!(r#"{{"about":1,"data":2,"except":"{text}"}}"#);
            let body = read(&json);
            assert_eq!(body.fingerprint(), "2", "a repeat may come from another connection");
            body.outgoing().ok().unwrap().except.iter().next()
        };
        let id = ConnectionId::parse("9f86d081884c7d65");
        assert!(id.is_some() && except("9f86d081884c7d65") == id);
        // JSON has many forms of one text.
        assert_eq!(except(r"\u0039f86d081884c7d65"), id);
        for text in ["", "9F86D081884C7D65", "9f86d081884c7d6", "0000000000000000", "x y"] {
            assert_eq!(except(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for bad in [
            r#"{"about":1,"data":2,"x":3}"#,
            r#"{"about":1,"data":2,"echo":true}"#,
            r#"{"about":1,"data":2,"key":null}"#,
            r#"{"about":1,"data":2,"key":3}"#,
            r#"{"about":[],"data":2}"#,
            r#"{"about":[[1]],"data":2}"#,
            r#"{"about":1,"text":null}"#,
            r#"{"about":1,"text":2}"#,
            r#"{"about":1,"data":2,"event":null}"#,
            r#"{"about":1,"data":2,"except":null}"#,
            r#"{"about":1,"data":2,"except":7}"#,
            r#"{"about":1,"data":2,"except":["9f86d081884c7d65"]}"#,
            r#"{"about":1,"data":2,"from":"bob"}"#,
            r#"{"about":1,"data":2,"durable":1}"#,
            r#"{"data":1}"#,
            "[]",
            "[1,2]",
        ] {
            assert!(serde_json::from_str::<Object<EventBody<'_>>>(bad).is_err(), "{bad}");
        }
        let many: Vec<usize> = (0..101).collect();
        let name = "n".repeat(201);
        // Also of one id a hundred times: nobody reads a million of them.
        for many in [many.clone(), vec![1; 101]] {
            let list = format!(r#"{{"about":{many:?},"data":2}}"#);
            let error = serde_json::from_str::<Object<EventBody<'_>>>(&list).err().unwrap();
            assert!(error.to_string().contains("at most 100 subjects"), "{error}");
        }
        // The place is one of the body, behind what is wrong: not one within that.
        for wrong in ["[7,1.5]", "1.5", r#"["\ud800"]"#, r#""\ud800""#, "[]"] {
            let bad = format!(r#"{{"text":"2","about":{wrong},"event":3}}"#);
            let error = serde_json::from_str::<Object<EventBody<'_>>>(&bad).err().unwrap();
            let end = bad.find(wrong).unwrap() + wrong.len();
            assert!((end..=end + 1).contains(&error.column()), "{error} in {bad}");
        }
        for bad in [
            r#"{"about":1}"#.to_owned(),
            r#"{"about":1,"data":2,"text":"3"}"#.to_owned(),
            r#"{"about":[1,"a b"],"data":2}"#.to_owned(),
            format!(r#"{{"about":1,"event":"{name}","data":2}}"#),
        ] {
            assert!(line(&bad).is_err(), "{bad}");
        }
        assert!(line(&format!(r#"{{"about":{:?},"data":2}}"#, &many[1..])).is_ok());
        assert!(line(&format!(r#"{{"about":1,"event":"{}","data":2}}"#, &name[1..])).is_ok());
    }

    #[test]
    fn repeat_is_another_event_when_any_part_differs() {
        let all = [
            r#"{"about":1,"data":"a"}"#,
            r#"{"about":1,"text":"a"}"#,
            r#"{"about":1,"data":"a","event":"a"}"#,
            r#"{"about":1,"text":"a","event":"a"}"#,
            r#"{"about":[1,"a"],"data":"a"}"#,
            r#"{"about":[1,"a"],"text":"a"}"#,
            r#"{"about":[1,"a","b"],"text":"a"}"#,
            r#"{"about":[1,"a=1:b"],"text":"a"}"#,
            r#"{"about":1,"data":"a","durable":true}"#,
            r#"{"about":1,"text":"a","durable":true}"#,
        ];
        let mut prints: Vec<String> =
            all.iter().map(|json| read(json).fingerprint().into_owned()).collect();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), all.len());
    }
}
