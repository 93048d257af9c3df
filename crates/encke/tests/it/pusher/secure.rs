//! Clients of channels over TLS, as raw bytes: members, users who are signed in, and an upgrade.
//! What pusher-js does over TLS stands in `clients.rs`.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::{Client, get, option, post};
use crate::harness::{Authority, Socket};
use crate::upgrade::Upgraded;
use crate::upgrade::tls::{VERSIONS, client};

impl<S: Read + Write> Client<S> {
    /// The next frame of this name. Behind an upgrade it may be told anew who is there.
    fn hear_of(&mut self, event: &str) -> Value {
        loop {
            let frame = self.hear();
            if frame["event"] == event {
                return frame;
            }
        }
    }
}

#[test]
fn clients_over_tls_are_members_and_users_and_stay_so_over_an_upgrade() {
    let (authority, files) = (Authority::new(), tempfile::tempdir().unwrap());
    let [cert, key] = authority.issue("own", &["localhost"]).options();
    let apps = option(files.path());
    let options = ["--tls-listen=127.0.0.1:0", &cert, &key, &apps, "--presence-grace=0"];
    let server = Upgraded::serve(&options);
    let mut clients = VERSIONS.map(|version| {
        let tls = client(&authority, server.tls_listen(), version);
        let mut client = Client::on(Socket::on(tls, "/app/app-1?protocol=7&client=js"));
        client.sit_and_sign_in();
        client.subscribe("private-rj");
        client
    });
    let channels = ["private-rj", "#server-to-user-bob", "presence-room"];
    for (data, is_upgraded) in [("before", false), ("behind", true)] {
        if is_upgraded {
            server.upgrade(&[]);
        }
        let api = server.api.another();
        let event = json!({ "name": "n", "channels": channels, "data": data });
        let told = post(&api, "1", "/events", &event);
        assert_eq!((told.status(), told.head.field("encke-delivered")), (200, Some("6")));
        for client in &mut clients {
            for channel in channels {
                let heard = client.hear_of("n");
                assert_eq!((&heard["channel"], &heard["data"]), (&json!(channel), &json!(data)));
            }
        }
        let users = get(&api, "1", "/channels/presence-room/users", &[]).ok();
        assert_eq!(users, json!({ "users": [{ "id": "bob" }] }));
        // One says something: its records go on in the other direction, too.
        let [one, other] = &mut clients;
        let typing = json!({ "event": "client-typing", "channel": "presence-room", "data": data });
        one.say(&typing);
        let heard = other.hear_of("client-typing");
        assert_eq!((&heard["data"], &heard["user_id"]), (&json!(data), &json!("bob")));
        one.hear_nothing();
    }
    assert_eq!(server.api.stats()["tls"]["faults"], json!({}));
    let api = server.api.another();
    post(&api, "1", "/users/bob/terminate_connections", &json!({})).ok();
    for client in &mut clients {
        assert_eq!(u16::from(client.socket.end().0), 4009);
    }
}
