//! Words of all versions are understood.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde_json::{Value, from_str, from_value, json, to_value};

use super::super::history::Event;
use super::*;

/// What version 1 has said in an upgrade, and by whom; all that may be said at all.
const VERSION_1: &str = include_str!("../words-1.ndjson");

/// What version 5 says besides: of the hub.
const VERSION_5: &str = include_str!("../words-5.ndjson");

fn heard<W: DeserializeOwned + Serialize + Debug>(word: Value) -> Value {
    to_value(from_value::<W>(word).unwrap()).unwrap()
}

/// A later version may know more, but has all that was said, with its meaning.
fn assert_kept(said: &Value, heard: &Value) {
    match (said, heard) {
        (Value::Object(said), Value::Object(heard)) => {
            said.iter().for_each(|(name, value)| assert_kept(value, &heard[name]));
        }
        (Value::Array(said), Value::Array(heard)) => {
            assert_eq!(said.len(), heard.len());
            said.iter().zip(heard).for_each(|(said, heard)| assert_kept(said, heard));
        }
        _ => assert_eq!(said, heard),
    }
}

#[test]
fn what_earlier_versions_have_said_is_understood() {
    for line in VERSION_1.lines().chain(VERSION_5.lines()) {
        let (speaker, said): (String, Value) = from_str(line).unwrap();
        let heard = match &*speaker {
            "first" => heard::<FirstMessage>(said.clone()),
            "serving" => heard::<ServingMessage>(said.clone()),
            "successor" => heard::<SuccessorMessage>(said.clone()),
            "starter" => heard::<StarterMessage>(said.clone()),
            _ => heard::<Vec<Event>>(said.clone()),
        };
        assert_kept(&said, &heard);
    }
}

#[test]
fn what_a_later_version_says_besides_is_passed_over() {
    let word = json!({ "word": "hello", "versions": [1, 9], "pid": 7, "new": { "a": [1] } });
    let FirstMessage::Hello(hello) = from_value(word).unwrap() else { panic!("no hello") };
    assert_eq!((hello.pid, hello.encke.as_str()), (7, ""));
    assert_eq!(common_version(&hello.versions), Some(1));
    let next = VERSIONS.last().unwrap() + 1;
    assert_eq!(common_version(&[next - 1, next]), Some(next - 1));
    assert_eq!(common_version(&[next]), None);
    let word = json!({ "word": "sing", "song": "none" });
    assert!(matches!(from_value(word.clone()).unwrap(), FirstMessage::Unknown));
    assert!(matches!(from_value(word.clone()).unwrap(), ServingMessage::Unknown));
    assert!(matches!(from_value(word).unwrap(), SuccessorMessage::Unknown));
}

#[test]
fn every_word_may_come_without_its_fields() {
    let serving =
        ["facts", "refuse", "copying", "history", "hub", "listeners", "rest", "yours", "left"];
    for word in serving {
        from_value::<ServingMessage>(json!({ "word": word })).unwrap();
    }
    for word in ["refuse", "ready", "have", "live"] {
        from_value::<SuccessorMessage>(json!({ "word": word })).unwrap();
    }
    for word in ["progress", "done", "refuse"] {
        from_value::<StarterMessage>(json!({ "word": word })).unwrap();
    }
    from_value::<FirstMessage>(json!({ "word": "ask" })).unwrap();
}
