//! A session of pusher-js 8.6.0, frame by frame as it was recorded: it signs in, subscribes to a
//! channel of each kind, sends an event, pings and unsubscribes. Its app signs with the key and the
//! secret of the vectors.

use std::collections::BTreeMap;

use pusher::{
    Access, Asker, Channel, ClientFrame, EventRefusal, EventRules, Secret, SocketId,
    SubscriptionRefusal, app_key, check_protocol,
};

/// The address that it connects to.
const PATH: &str = "/app/encke-app-key";
const QUERY: &str = "protocol=7&client=js&version=8.6.0&flash=false";

/// Its frames, one on a line.
const FRAMES: &str = include_str!("session.jsonl");

#[test]
fn session_is_granted_all_that_its_app_has_signed() {
    let key = app_key(PATH).expect("it names an app");
    assert_eq!((key, check_protocol(QUERY)), ("encke-app-key", Ok(())));
    let (secret, socket) =
        (Secret::new(b"encke-app-secret"), SocketId { first: 4711, second: 815 });
    let (mut user, mut subscribed, mut pings) = (None, BTreeMap::new(), 0);
    for line in FRAMES.lines() {
        let asker = Asker { key, secret: &secret, socket, user: user.as_ref() };
        match ClientFrame::parse(line).expect("pusher-js speaks the protocol") {
            ClientFrame::SignIn(wish) => {
                user = Some(asker.sign_in(&wish).expect("the app has signed it"));
            }
            ClientFrame::Subscribe(wish) => {
                let granted = asker.subscribe(&wish).expect("the app has signed it");
                let member = granted.member.map(|member| member.id);
                subscribed.insert(wish.channel.clone(), (granted.channel.access(), member));
                // The signature of another connection is worth nothing.
                let other = Asker { socket: SocketId { first: 4711, second: 816 }, ..asker };
                let is_signed = granted.channel.access().is_signed();
                let refused = other.subscribe(&wish).err();
                assert_eq!(refused, is_signed.then_some(SubscriptionRefusal::Signature), "{line}");
            }
            ClientFrame::Event(event) => {
                assert_eq!((&*event.name, event.data), ("client-typing", r#"{"a":[1,"ä"]}"#));
                let rules = EventRules { is_allowed: true, data_bytes_max: 100 };
                let hears = |channel: Channel<'_>| subscribed.contains_key(channel.name());
                assert_eq!(rules.check(&event, hears).map(Channel::name), Ok("private-rj"));
                let refused = rules.check(&event, |_| false);
                assert_eq!(refused, Err(EventRefusal::NotSubscribed));
            }
            ClientFrame::Unsubscribe { channel } => {
                assert!(subscribed.remove(&channel).is_some(), "{channel}");
            }
            ClientFrame::Ping => pings += 1,
            ClientFrame::Pong => panic!("nobody has asked it"),
        }
    }
    let user = user.expect("it has signed in");
    assert_eq!((&*user.id, user.watchlist.as_slice()), ("bob", &["rj".into(), "alice".into()][..]));
    let access: Vec<_> = subscribed.iter().map(|(name, (access, _))| (&**name, *access)).collect();
    let wanted = [
        ("#server-to-user-bob", Access::User),
        ("cache-x", Access::Public),
        ("presence-room-7", Access::Presence),
        ("private-no", Access::Private),
        ("private-rj", Access::Private),
    ];
    assert_eq!(access, wanted);
    assert_eq!(subscribed["presence-room-7"].1.as_deref(), Some("bob"));
    assert_eq!(pings, 2);
}
