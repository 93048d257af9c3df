//! Tests of the file of apps: what is read, and what each fault says.

use super::*;
use crate::signature::Secret;

const SECRET: &str = "a-secret-of-some-length";

fn with(members: &str) -> String {
    format!(r#"{{"id":"1","key":"k","secret":"{SECRET}"{members}}}"#)
}

fn fault(text: &str) -> (usize, String) {
    let fault = Apps::parse(text.as_bytes(), false).unwrap_err();
    assert!(!fault.to_string().contains(SECRET), "{fault}");
    (fault.line, fault.what)
}

#[test]
fn file_is_read_with_its_defaults_and_its_options() {
    let text = r#"[
        {"id":"1","key":"encke-app-key","secret":"encke-app-secret"},
        {"id":"2","key":"b","secret":"another-app-secret","client_events":true,"graph":true,
         "graph_watchlist":true,"ids":"chat:",
         "webhooks":[{"url":"https://a.example/hook?x=1"}],"max_connections":7,"max_members":9,
         "enabled":false,"subscription_count":true,"max_event_bytes":99,
         "max_events_per_second":5}
    ]"#;
    let apps = Apps::parse(text.as_bytes(), false).unwrap();
    let (one, two) = (apps.by_key("encke-app-key").unwrap(), apps.by_id("2").unwrap());
    assert_eq!((apps.len(), apps.iter().count(), apps.is_empty()), (2, 2, false));
    assert_eq!((&*one.id, &*two.key), ("1", "b"));
    assert!(one.is_enabled && !one.has_client_events);
    assert!(!one.hears_graph && !one.watches_graph);
    assert!(!one.tells_subscription_count && one.webhooks.is_empty() && !one.is_noted());
    assert_eq!((one.connections_max, one.members_max, one.event_bytes_max), (None, 100, 10_240));
    assert!(!two.is_enabled && two.has_client_events);
    assert!(two.hears_graph && two.watches_graph);
    assert_eq!((one.ids.as_deref(), two.ids.as_deref()), (None, Some("chat:")));
    assert!(two.tells_subscription_count && two.is_noted());
    assert_eq!((two.connections_max, two.members_max), (Some(7), 9));
    assert_eq!((one.events_per_second, two.events_per_second), (None, Some(5)));
    assert_eq!((two.event_rules().data_bytes_max, two.event_rules().is_allowed), (99, true));
    assert_eq!(two.webhooks[0].url, "https://a.example/hook?x=1");
    assert_eq!(one.secret.sign(&[b"x"]), Secret::new(b"encke-app-secret").sign(&[b"x"]));
    assert!(apps.by_key("1").is_none() && apps.by_id("b").is_none());
    assert!(Apps::parse(b"[]", false).unwrap().is_empty());
}

#[test]
fn fault_names_its_line_and_its_member() {
    for (members, line, named) in [
        (",\"webhook\":1", 3, "unknown field `webhook`"),
        (",\n\"graph\":\"yes\"", 4, "\"graph\" is not true or false"),
        (",\n\n\"max_members\":0", 5, "\"max_members\" is not a whole number"),
        (",\"max_connections\":-1", 3, "\"max_connections\""),
        (",\"max_event_bytes\":1.5", 3, "\"max_event_bytes\""),
        (",\"max_event_bytes\":1048577", 3, "from 1 to 1048576"),
        (",\"max_members\":10001", 3, "from 1 to 10000"),
        (",\"max_events_per_second\":0", 3, "\"max_events_per_second\""),
        (",\"max_connections\":4294967296", 3, "\"max_connections\""),
        (",\"enabled\":1", 3, "\"enabled\""),
        (",\n\"ids\":1", 4, "\"ids\" is not a text"),
        (",\"ids\":\"a/\"", 3, "\"ids\" is not a text of at most 200 bytes"),
        (",\"ids\":\"a b\"", 3, "without white space"),
        (",\"webhooks\":[{}]", 3, "\"url\" is missing"),
        (",\n\"webhooks\":[{\"url\":1}]", 4, "\"url\" is not a text"),
        (",\"webhooks\":[{\"url\":\"http://a\",\"secret\":1}]", 3, "unknown field `secret`"),
        (",\"webhooks\":[{\"url\":\"http://a\",\"event_types\":[\"x\"]}]", 3, "\"event_types\""),
        (",\"webhooks\":[{\"url\":\"http://a\",\"event_types\":1}]", 3, "\"event_types\""),
        (",\"webhooks\":[{\"url\":\"http://a\",\"filter\":{\"x\":1}}]", 3, "unknown field `x`"),
        (",\"key\":\"other\"", 3, "duplicate field `key`"),
    ] {
        let text = format!("[\n\n{}]", with(members));
        let (found, what) = fault(&text);
        assert!(what.contains(named), "{members}: {what}");
        assert_eq!(found, line, "{members}: {what}");
    }
}

#[test]
fn public_channels_are_shared_with_ids_and_signed_ones_only_where_that_is_allowed() {
    let app = |members: &str| {
        let apps = Apps::parse(format!("[{}]", with(members)).as_bytes(), false).unwrap();
        Arc::clone(apps.by_id("1").unwrap())
    };
    let channel = |name| crate::channel::Channel::parse(name).unwrap();
    let shared = app(",\"ids\":\"chat:\"");
    for (name, is_signed, is_ever) in [
        ("news", false, true),
        ("7", false, true),
        ("private-a", true, true),
        ("presence-a", true, true),
        ("cache-a", false, false),
        ("private-cache-a", true, false),
        ("presence-cache-a", true, false),
        ("private-encrypted-a", true, false),
        ("#server-to-user-a", true, false),
    ] {
        for with_signed in [false, true] {
            let id = format!("chat:{name}");
            let is_shared = is_ever && (with_signed || !is_signed);
            let expected = is_shared.then(|| id.clone());
            assert_eq!(shared.shared_id(channel(name), with_signed), expected, "{name}");
            let found = shared.shared_channel(&id, with_signed);
            assert_eq!(found, is_shared.then(|| channel(name)), "{name}");
        }
    }
    for other in ["news", "chat:", "chat:a b", "chat:chat:a", "Chat:news"] {
        assert_eq!(shared.shared_channel(other, true), None, "{other}");
    }
    let plain = app(",\"ids\":\"\"");
    assert_eq!(plain.shared_id(channel("news"), false).as_deref(), Some("news"));
    assert_eq!(plain.shared_channel("news", false), Some(channel("news")));
    assert_eq!(app("").shared_id(channel("news"), true), None);
    assert_eq!(app("").shared_channel("news", true), None);
}

#[test]
fn app_without_what_it_needs_is_refused() {
    for (app, named) in [
        (r#"{"key":"k","secret":"S"}"#, "\"id\" is missing"),
        (r#"{"id":"1","secret":"S"}"#, "\"key\" is missing"),
        (r#"{"id":"1","key":"k"}"#, "\"secret\" is missing"),
        (r#"{"id":"1","key":"k","secret":null}"#, "\"secret\" is missing"),
        (r#"{"id":1,"key":"k","secret":"S"}"#, "\"id\" is not a text"),
        (r#"{"id":"a","key":"k","secret":"S"}"#, "digits"),
        (r#"{"id":"","key":"k","secret":"S"}"#, "digits"),
        (r#"{"id":"1","key":"a:b","secret":"S"}"#, "\"key\""),
        (r#"{"id":"1","key":"","secret":"S"}"#, "\"key\""),
        (r#"{"id":"1","key":"k","secret":""}"#, "\"secret\""),
        (r#"{"id":"1","key":"k","secret":["S"]}"#, "\"secret\" is not a text"),
        (r#"["1","k","S"]"#, "not an object"),
        (r#"{"id":"1","key":"S","secret":"short"}"#, "less than 16 bytes"),
    ] {
        let (line, what) = fault(&format!("[{}]", app.replace("\"S\"", &format!("\"{SECRET}\""))));
        assert!(line == 1 && what.contains(named), "{app}: {what}");
    }
    for text in ["", "{}", "[1", "{\"id\":1}", "[] []", "null"] {
        assert!(fault(text).1.contains("not a JSON list"), "{text}");
    }
    assert!(Apps::parse(b"[\n\xff]", false).is_err_and(|fault| fault.line == 2));
    assert!(Apps::parse(&vec![b' '; 1 << 21], false).is_err());
}

#[test]
fn key_or_id_that_is_there_twice_is_refused() {
    let apps = |second: &str| format!("[{},\n{}]", with(""), with("").replace("\"1\"", second));
    let (line, what) = fault(&apps("\"2\""));
    assert!(line == 2 && what.contains("The key k is there twice"), "{what}");
    let other = apps("\"1\"").replacen("\"k\"", "\"l\"", 1);
    assert!(fault(&other).1.contains("The id 1 is there twice"));
}

#[test]
fn short_secret_is_for_loopback_alone() {
    let text = br#"[{"id":"1","key":"k","secret":"short"}]"#;
    assert!(Apps::parse(text, true).is_ok());
    assert!(Apps::parse(text, false).is_err());
}

#[test]
fn nothing_of_a_secret_is_shown() {
    let apps = Apps::parse(format!("[{}]", with("")).as_bytes(), false).unwrap();
    let shown = format!("{apps:?}");
    assert!(shown.contains("\"k\"") && !shown.contains(SECRET), "{shown}");
    // A secret in a wrong place is one still.
    for text in [
        format!(r#"[{{"id":"1","key":"k","secret":1234567890123456,"graph":"{SECRET}"}}]"#),
        format!(r#"["{SECRET}"]"#),
        format!(r#"[{{"id":{{"x":"{SECRET}"}},"key":"k","secret":"x"}}]"#),
        format!(r#"[{{"id":"1","key":"k","secret":"x","webhooks":"{SECRET}"}}]"#),
    ] {
        let (_, what) = fault(&text);
        assert!(!what.contains("1234567890123456"), "{what}");
    }
}
