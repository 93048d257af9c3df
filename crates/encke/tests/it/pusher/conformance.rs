//! The protocol line by line. `cases.json` is a list of cases: what clients and backends do, and
//! what they are to hear. `compat/pusher-python/run.py` asks the same of other servers. It leaves
//! out what is Encke's own in it, the bodies of refusals of the API.
//!
//! A step is a list. `["a opens", path?]` is a client that connects, and `["a says", frame]` what
//! it says. Of `["a hears", frame]` each named member of an object is compared. There `null` is a
//! member that must not be there, and an object where a text was heard is compared with the JSON in
//! it. The others are `["a hears nothing"]`, `["a goes"]`, `["a ends", code]` and `["GET" or
//! "POST", path, body or query, status, answer]`. In a frame `"auth": "sign"` is the signature of
//! what the frame says, and `$a` in a text the socket id of `a`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AppServer, Client, get, post};
use crate::harness::{Socket, wait_for};

const CASES: &str = include_str!("cases.json");

struct Case<'s> {
    name: &'s str,
    /// The id of the app.
    app: &'s str,
    apps: &'s AppServer,
    clients: BTreeMap<String, Client>,
    /// Those that were refused before they had an id.
    refused: BTreeMap<String, Socket>,
}

#[test]
fn each_line_of_the_protocol_is_kept() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let apps = AppServer::start(&["--presence-grace=0", "--allow-origin=https://page.test"]);
    for value in &cases {
        let name = value["name"].as_str().unwrap();
        let app = value["app"].as_str().unwrap_or("1");
        let (clients, refused) = (BTreeMap::new(), BTreeMap::new());
        let mut case = Case { name, app, apps: &apps, clients, refused };
        for step in value["steps"].as_array().unwrap() {
            case.step(step);
        }
        drop(case);
        if app != "3" {
            apps.wait_empty(app);
        }
    }
    println!("{} cases", cases.len());
}

impl Case<'_> {
    fn step(&mut self, step: &Value) {
        let (what, parts) = (step[0].as_str().unwrap(), step.as_array().unwrap());
        if ["GET", "POST"].contains(&what) {
            return self.call(what, parts);
        }
        let (who, does) = what.split_once(' ').unwrap();
        match does {
            "opens" => self.open(who, parts.get(1).and_then(Value::as_str)),
            "says" => self.say(who, &parts[1]),
            "hears" => {
                let heard = self.client(who).hear();
                self.compare(&heard, &parts[1], step);
            }
            "hears nothing" => self.client(who).hear_nothing(),
            "goes" => drop(self.clients.remove(who).unwrap()),
            "ends" => {
                let end = match self.refused.remove(who) {
                    Some(mut socket) => socket.end(),
                    None => self.clients.remove(who).unwrap().socket.end(),
                };
                assert_eq!(u16::from(end.0), parts[1], "{}: {step}", self.name);
            }
            _ => panic!("{}: what is {what}?", self.name),
        }
    }

    fn client(&mut self, who: &str) -> &mut Client {
        let name = self.name;
        self.clients.get_mut(who).unwrap_or_else(|| panic!("{name}: {who} is not there"))
    }

    fn open(&mut self, who: &str, path: Option<&str>) {
        let own = format!("/app/app-{}?protocol=7&client=js&version=8.6.0", self.app);
        let path = path.unwrap_or(&own);
        if let Some(path) = path.strip_prefix("refused ") {
            let mut socket = Socket::open(self.apps.server.listen(), path);
            let first = socket.json();
            assert_eq!(first["event"], "pusher:error", "{}: {first}", self.name);
            self.refused.insert(who.to_owned(), socket);
            return;
        }
        self.clients.insert(who.to_owned(), Client::open(&self.apps.server, path));
    }

    fn say(&mut self, who: &str, frame: &Value) {
        let (mut frame, key) = (frame.clone(), format!("app-{}", self.app));
        if let Some(text) = frame.as_str() {
            let text = text.to_owned();
            return self.client(who).socket.send(text);
        }
        let client = self.client(who);
        if frame["data"]["auth"] == "sign" {
            let data = &frame["data"];
            let auth = match data["user_data"].as_str() {
                Some(user_data) => client.auth_of_user(&key, user_data),
                None => {
                    let channel = data["channel"].as_str().unwrap();
                    client.auth(&key, channel, data["channel_data"].as_str())
                }
            };
            frame["data"]["auth"] = auth.into();
        }
        client.say(&frame);
    }

    /// A request of a backend, which is asked again until it is answered so: what clients have just
    /// done may not be known yet.
    fn call(&self, method: &str, parts: &[Value]) {
        let [_, path, given, status, wanted] = parts else { panic!("{}: {parts:?}", self.name) };
        let (path, api) = (path.as_str().unwrap(), &self.apps.server.api);
        let mut given = given.to_string();
        for (who, client) in &self.clients {
            given = given.replace(&format!("${who}"), &client.id.to_string());
        }
        let given: Value = serde_json::from_str(&given).unwrap();
        if method == "POST" {
            let answer = post(api, self.app, path, &given);
            assert_eq!(answer.status(), *status, "{}: {path}: {answer:?}", self.name);
            return self.compare(&answer.json(), wanted, path);
        }
        let query: Vec<(&str, &str)> = given
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
            .collect();
        let mut last = Value::Null;
        wait_for(&format!("{}: {path} is {wanted}", self.name), || {
            let answer = get(api, self.app, path, &query);
            assert_eq!(answer.status(), *status, "{}: {path}: {answer:?}", self.name);
            last = answer.json();
            is_so(&last, wanted)
        });
    }

    fn compare(&self, heard: &Value, wanted: &Value, step: impl std::fmt::Display) {
        assert!(is_so(heard, wanted), "{}: {step}: heard {heard}", self.name);
    }
}

/// Whether what was heard is what was wanted.
fn is_so(heard: &Value, wanted: &Value) -> bool {
    match (heard, wanted) {
        (Value::Object(heard), Value::Object(wanted)) if wanted.is_empty() => heard.is_empty(),
        (Value::String(text), Value::Object(_)) => {
            serde_json::from_str(text).is_ok_and(|heard: Value| is_so(&heard, wanted))
        }
        (Value::Object(heard), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            heard.get(key).map_or(wanted.is_null(), |heard| is_so(heard, wanted))
        }),
        _ => heard == wanted,
    }
}
