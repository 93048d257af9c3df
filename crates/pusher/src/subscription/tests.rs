//! Tests of who may subscribe and sign in, by what signature.

use super::*;

const KEY: &str = "encke-app-key";
const SOCKET: SocketId = SocketId { first: 4711, second: 815 };

fn secret() -> Secret {
    Secret::new(b"encke-app-secret")
}

fn asker<'a>(secret: &'a Secret, user: Option<&'a User>) -> Asker<'a> {
    Asker { key: KEY, secret, socket: SOCKET, user }
}

fn wish(channel: &str, signed_data: Option<&str>) -> Subscribe {
    let what = Signed::Channel { channel, channel_data: signed_data };
    Subscribe {
        channel: channel.to_owned(),
        auth: Given::Text(what.auth(KEY, &secret(), SOCKET)),
        channel_data: signed_data.map_or(Given::Absent, |data| Given::Text(data.to_owned())),
        after: Given::Absent,
    }
}

fn unsigned(channel: &str) -> Subscribe {
    Subscribe { auth: Given::Text(String::new()), ..wish(channel, None) }
}

fn bob() -> User {
    User::parse(r#"{"id":"bob","user_info":{"name":"Bob"}}"#).unwrap()
}

#[test]
fn public_channels_need_no_signature_and_look_at_none() {
    let secret = secret();
    for channel in ["rj", "cache-rj"] {
        let absent = Subscribe { auth: Given::Absent, ..unsigned(channel) };
        for wish in [absent, unsigned(channel), wish(channel, None)] {
            let granted = asker(&secret, None).subscribe(&wish).unwrap();
            assert_eq!(granted.channel.name(), channel);
            assert!(granted.member.is_none());
        }
    }
}

#[test]
fn private_channels_need_the_signature_of_their_app() {
    let secret = secret();
    let asker = asker(&secret, None);
    for channel in ["private-rj", "private-encrypted-rj", "private-cache-rj"] {
        assert!(asker.subscribe(&wish(channel, None)).unwrap().member.is_none());
        let refused =
            |auth: Given| asker.subscribe(&Subscribe { auth, ..wish(channel, None) }).unwrap_err();
        assert_eq!(refused(Given::Absent), SubscriptionRefusal::NoAuth);
        assert_eq!(refused(Given::Other), SubscriptionRefusal::NoAuth);
        assert_eq!(refused(Given::Text("x:y".into())), SubscriptionRefusal::Key);
        assert_eq!(refused(Given::Text(format!("{KEY}:00"))), SubscriptionRefusal::Signature);
        let another = wish("private-other", None).auth;
        assert_eq!(refused(another), SubscriptionRefusal::Signature);
    }
    let refusal = asker.subscribe(&unsigned("private-rj")).unwrap_err();
    assert_eq!((refusal.kind(), refusal.status()), ("AuthError", 401));
}

#[test]
fn presence_channel_takes_its_member_from_what_is_signed() {
    let secret = secret();
    let bob = bob();
    let channel = "presence-room-7";
    let data = r#"{"user_id":"alice"}"#;
    let member = |user, wish: &Subscribe| {
        let granted = asker(&secret, user).subscribe(wish)?;
        Ok::<_, SubscriptionRefusal>(granted.member.map(|member| member.id))
    };
    assert_eq!(member(None, &wish(channel, Some(data))), Ok(Some("alice".into())));
    assert_eq!(member(Some(&bob), &wish(channel, Some(data))), Ok(Some("alice".into())));
    assert_eq!(member(Some(&bob), &wish(channel, None)), Ok(Some("bob".into())));
    assert_eq!(member(None, &wish(channel, None)), Err(SubscriptionRefusal::NoMember));
    let forged = Subscribe {
        channel_data: Given::Text(r#"{"user_id":"bob"}"#.into()),
        ..wish(channel, Some(data))
    };
    assert_eq!(member(None, &forged), Err(SubscriptionRefusal::Signature));
    let object = Subscribe { channel_data: Given::Other, ..wish(channel, Some(data)) };
    assert_eq!(member(None, &object), Err(SubscriptionRefusal::Member(UserFault::Form)));
    let empty = wish(channel, Some(r#"{"user_id":""}"#));
    assert_eq!(member(None, &empty), Err(SubscriptionRefusal::Member(UserFault::Id)));
}

#[test]
fn users_own_channel_is_heard_by_its_user_alone() {
    let secret = secret();
    let bob = bob();
    let own = unsigned("#server-to-user-bob");
    assert!(asker(&secret, Some(&bob)).subscribe(&own).is_ok());
    for (user, channel) in [(None, "bob"), (Some(&bob), "alice"), (Some(&bob), "bobby")] {
        let wish = wish(&format!("#server-to-user-{channel}"), None);
        let refused = asker(&secret, user).subscribe(&wish).unwrap_err();
        assert_eq!(refused, SubscriptionRefusal::AnothersChannel, "a signature opens none");
    }
}

#[test]
fn bad_name_is_told_before_all_else() {
    let secret = secret();
    for name in ["", "1:rj", "#rj", "private-ü", "presence-a b"] {
        let refused = asker(&secret, None).subscribe(&wish(name, None)).unwrap_err();
        assert!(matches!(refused, SubscriptionRefusal::Name(_)), "{name}");
        assert_eq!(refused.status(), 400);
    }
}

#[test]
fn sign_in_holds_for_one_user() {
    let secret = secret();
    let bob = bob();
    let signed = |data: &str| SignIn {
        auth: Signed::User { user_data: data }.auth(KEY, &secret, SOCKET),
        user_data: data.to_owned(),
    };
    let sign_in = |user, wish: &SignIn| asker(&secret, user).sign_in(wish).map(|user| user.id);
    let wish = signed(r#"{"id":"bob"}"#);
    assert_eq!(sign_in(None, &wish), Ok("bob".into()));
    assert_eq!(sign_in(Some(&bob), &wish), Ok("bob".into()));
    let alice = signed(r#"{"id":"alice"}"#);
    assert_eq!(sign_in(Some(&bob), &alice), Err(SignInRefusal::Another));
    let forged = SignIn { user_data: r#"{"id":"eve"}"#.into(), ..wish.clone() };
    assert_eq!(sign_in(None, &forged), Err(SignInRefusal::Signature));
    let keyless = SignIn { auth: "x".into(), ..wish.clone() };
    assert_eq!(sign_in(None, &keyless), Err(SignInRefusal::NoAuth));
    let foreign = SignIn { auth: wish.auth.replace(KEY, "other"), ..wish };
    assert_eq!(sign_in(None, &foreign), Err(SignInRefusal::Key));
    let nobody = signed(r#"{"id":""}"#);
    assert_eq!(sign_in(None, &nobody), Err(SignInRefusal::User(UserFault::Id)));
    let channel = Signed::Channel { channel: "private-a", channel_data: None };
    let reused = SignIn { auth: channel.auth(KEY, &secret, SOCKET), ..alice };
    assert_eq!(sign_in(None, &reused), Err(SignInRefusal::Signature));
}
