//! Attacks by clients of Pusher Channels: users of an app, so that its backend signs for them.

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::thread;

use ::pusher::{Secret, Signed, SocketId};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{TEXT, Target, forget};
use crate::harness::{Socket, Wire, frame};

const KEY: &str = "app-1";
const SECRET: &str = "a-secret-of-some-length";
const PATH: &str = "/app/app-1?protocol=7&client=js&version=8.6.0";

/// Connections of most attacks.
const CLIENTS: usize = 24;

/// Names that one connection asks for before it is left for another one.
const NAMES: usize = 4_096;

/// Names that are asked for in one write.
const NAMES_AT_ONCE: usize = 64;

/// Bytes of them, of the 200 that a channel's may have.
const NAME_BYTES: usize = 180;

/// What is said of each member: somewhat less than it may be.
const INFO_BYTES: usize = 1_000;

/// The file of apps of a server.
pub(crate) struct Setup {
    dir: TempDir,
}

impl Setup {
    pub(crate) fn make() -> Setup {
        let setup = Setup { dir: tempfile::tempdir().unwrap() };
        let apps = json!([{ "id": "1", "key": KEY, "secret": SECRET }]);
        std::fs::write(setup.dir.path().join("apps.json"), apps.to_string()).unwrap();
        setup
    }

    /// What the server is told.
    pub(crate) fn option(&self) -> String {
        format!("--pusher-apps={}", self.dir.path().join("apps.json").display())
    }
}

/// A connection, and what it is called.
fn open(listen: SocketAddr) -> (Wire, SocketId) {
    let mut wire = Socket::raw(listen, PATH);
    let message: Value = serde_json::from_slice(&message(&mut wire)).unwrap();
    let data: Value = serde_json::from_str(message["data"].as_str().unwrap()).unwrap();
    let id = SocketId::parse(data["socket_id"].as_str().unwrap()).unwrap().unwrap();
    (wire, id)
}

/// The payload of the server's next frame, which is a short one (RFC 6455, section 5.2).
fn message(wire: &mut Wire) -> Vec<u8> {
    let head = wire.take(2).unwrap();
    let len = match head[1] {
        126 => u16::from_be_bytes(wire.take(2).unwrap().try_into().unwrap()).into(),
        len => usize::from(len),
    };
    wire.take(len).unwrap()
}

/// A frame by which a client says `event` of a channel.
fn said(event: &str, data: &Value) -> Vec<u8> {
    frame(TEXT, json!({ "event": event, "data": data }).to_string().as_bytes())
}

/// Frames that subscribe and leave again.
fn both(data: &Value) -> Vec<u8> {
    ["pusher:subscribe", "pusher:unsubscribe"].map(|event| said(event, data)).concat()
}

/// Clients who say what `piece` makes of their number and name, as fast as it is taken.
fn say_all(target: &Target, piece: impl Fn(usize, SocketId) -> Vec<u8>) {
    let clients: Vec<(Wire, Vec<u8>)> = (0..CLIENTS)
        .map(|number| {
            let (wire, id) = open(target.listen);
            (wire, piece(number, id))
        })
        .collect();
    target.say_each(&clients);
}

/// Subscriptions to a private channel, each with a good signature.
pub(crate) fn good_signatures(target: &Target) {
    say_all(target, |_, id| {
        let what = Signed::Channel { channel: "private-news", channel_data: None };
        let auth = what.auth(KEY, &Secret::new(SECRET.as_bytes()), id);
        both(&json!({ "channel": "private-news", "auth": auth }))
    });
}

/// The same with signatures by another secret.
pub(crate) fn bad_signatures(target: &Target) {
    say_all(target, |_, id| {
        let what = Signed::Channel { channel: "private-news", channel_data: None };
        let auth = what.auth(KEY, &Secret::new(b"another-secret-of-some-length"), id);
        said("pusher:subscribe", &json!({ "channel": "private-news", "auth": auth }))
    });
}

/// Subscriptions to a channel that everybody may hear, and leaves.
pub(crate) fn subscribe_and_leave(target: &Target) {
    say_all(target, |_, _| both(&json!({ "channel": "news" })));
}

/// Members of one presence channel who come and go, each with 1 KB of what is said of them, which
/// all others are told.
pub(crate) fn flapping_members(target: &Target) {
    say_all(target, |number, id| {
        let info = "x".repeat(INFO_BYTES);
        let data = json!({ "user_id": number.to_string(), "user_info": info }).to_string();
        let what = Signed::Channel { channel: "presence-room", channel_data: Some(&data) };
        let auth = what.auth(KEY, &Secret::new(SECRET.as_bytes()), id);
        both(&json!({ "channel": "presence-room", "auth": auth, "channel_data": data }))
    });
}

/// Channels that nobody has named before, without end.
pub(crate) fn endless_channels(target: &Target) {
    let name = |thread: usize, number: usize| {
        let name = format!("{thread}-{number}-");
        let rest = "x".repeat(NAME_BYTES - name.len());
        said("pusher:subscribe", &json!({ "channel": name + &rest }))
    };
    let ask = |thread: usize| {
        for first in (0..).step_by(NAMES) {
            if target.is_over() {
                return;
            }
            let (wire, _) = open(target.listen);
            let mut socket = wire.socket();
            thread::scope(|scope| {
                scope.spawn(|| forget(socket));
                let end = first + NAMES;
                for some in (first..end).step_by(NAMES_AT_ONCE) {
                    let names = some..some + NAMES_AT_ONCE;
                    let frames: Vec<u8> = names.flat_map(|number| name(thread, number)).collect();
                    if target.is_over() || socket.write_all(&frames).is_err() {
                        break;
                    }
                }
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
    };
    thread::scope(|scope| (0..8).for_each(|thread| drop(scope.spawn(move || ask(thread)))));
}

/// Frames of what is no message of the protocol: who is cut off comes again.
pub(crate) fn garbage(target: &Target) {
    let ask = |thread: u64| {
        let mut random = fastrand::Rng::with_seed(thread);
        while !target.is_over() {
            let Ok(mut wire) = Wire::try_connect(target.listen) else { continue };
            let _ = wire.try_send(crate::harness::get(PATH, &Socket::FIELDS));
            for _ in 0..64 {
                let bytes: Vec<u8> = (0..200).map(|_| random.u8(..)).collect();
                let text: Vec<u8> = (0..200).map(|_| random.u8(b' '..b'~')).collect();
                let half = br#"{"event":"pusher:subscribe","data":{"channel":["#;
                let kinds = [bytes, frame(TEXT, &text), frame(TEXT, half)];
                let some = &kinds[random.usize(..kinds.len())];
                if target.is_over() || wire.try_send(some).is_err() {
                    break;
                }
            }
        }
    };
    thread::scope(|scope| (0..8).for_each(|thread| drop(scope.spawn(move || ask(thread)))));
}
