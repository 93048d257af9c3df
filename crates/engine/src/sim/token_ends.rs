//! One shard whose streams need tokens: how streams end with theirs, go on with others, and what is
//! left of a crowd that does both.

use std::collections::BTreeMap;

use hub::{DisconnectReason, IdText};

use super::one::One;
use super::random::Random;
use super::server::Place;
use super::talk::client_frame;
use super::tokens::{guarded, guarded_by, request, status, verify, websocket};
use super::world::NEVER;
use crate::limits::WORK_PER_TURN;
use crate::tokens::Revocation;

/// Without TLS, and through TLS that is cut by some seeds; by one server, and by one version after
/// the other.
pub(super) fn in_all_ways(test: fn(One)) {
    test(guarded());
    test(guarded().upgraded());
    for seed in 0..20 {
        test(guarded_by(Some(seed)));
        test(guarded_by(Some(seed)).upgraded());
    }
}

#[test]
fn stream_ends_with_its_token_and_says_why() {
    in_all_ways(ends_with_its_token);
}

fn ends_with_its_token(mut one: One) {
    let stream = one.client(1 << 20, &request("/stream/bob", "sub=bob;ms=5000"));
    let socket = one.client(1 << 20, &websocket("/stream/bob", "sub=bob;ms=5000"));
    let for_ever = one.client(1 << 20, &request("/stream/bob", "sub=bob"));
    let poll = one.client(1 << 20, &request("/poll/bob?wait=25", "sub=bob;ms=5000"));
    one.answer(&hub::Nobody);
    one.turn_after(4_800);
    for client in [stream, socket, for_ever, poll] {
        one.wire(client).client_reads(usize::MAX);
    }
    let ended = |one: &One, client| one.wire(client).server_ended;
    assert!(!ended(&one, stream) && !ended(&one, socket));
    one.turn_after(400);
    assert!(one.reads(stream).ends_with("0\r\n\r\n") && ended(&one, stream));
    // 3000, as IANA's registry has it.
    let close = one.wire(socket).client_reads(usize::MAX);
    assert_eq!(close, [&[0x88, 15, 0x0b, 0xb8], &b"token_expired"[..]].concat());
    assert!(!ended(&one, for_ever));
    assert_eq!(status(&one.reads(poll)), "200", "it is answered, and asks with another token");
    let expired = one.server.figures().closed[DisconnectReason::TokenExpired as usize];
    one.wire(stream).client_ends();
    one.wire(socket).client_ends();
    one.turn_after(100);
    assert_eq!(
        (expired, one.server.figures().closed[DisconnectReason::TokenExpired as usize]),
        (0, 2)
    );
}

#[test]
fn websocket_goes_on_with_another_token() {
    in_all_ways(goes_on_with_another_token);
}

fn goes_on_with_another_token(mut one: One) {
    let client = one.client(1 << 20, &websocket("/stream/bob?id=news", "sub=bob;ids=news;ms=5000"));
    let again = |token: &str| format!("{{\"token\":\"{token}\"}}");
    for (token, answered) in [
        ("sub=alice;ids=news,bob", "another subject"),
        ("sub=bob", "does not grant the id news"),
        ("sub=bob;ids=news;most=1", "at most 1 ids"),
        ("bad", "its signature is wrong"),
    ] {
        let answer = one.says(client, &again(token));
        assert!(answer.contains(answered), "{token} {answer}");
        assert!(answer.ends_with("},\"token\":true}"), "it says what it answers: {answer}");
    }
    one.turn_after(3_000);
    assert_eq!(one.says(client, &again("sub=bob;ids=news;ms=9000")), r#"{"ok":{"token":true}}"#);
    one.turn_after(6_000);
    assert!(!one.wire(client).server_ended);
    assert_eq!(one.says(client, &again("late;sub=bob;ids=news;ms=9000")), "");
    assert!(one.says(client, &again("sub=bob;ids=news")).contains("still being looked at"));
    one.verify_all();
    assert_eq!(one.texts(client), r#"{"ok":{"token":true}}"#);
    assert_eq!(one.says(client, &again("late;bad")), "");
    one.verify_all();
    assert!(one.texts(client).ends_with("},\"token\":true}"));
    one.turn_after(6_000);
    assert!(!one.wire(client).server_ended);
    one.turn_after(3_200);
    assert!(one.wire(client).server_ended);
}

#[test]
fn revoked_tokens_end_their_streams_and_no_others() {
    in_all_ways(revoked_tokens_end);
}

fn revoked_tokens_end(mut one: One) {
    let tokens = ["sub=bob;jti=t1;iat=10", "sub=bob;jti=t2;iat=20", "sub=bob", "sub=eve;jti=t3"];
    let clients = tokens.map(|token| one.client(1 << 20, &request("/stream", token)));
    let mut ended_after = |revocation| {
        assert!(one.server.token_queue.revoke(&revocation));
        while one.turn_after(1) {}
        clients.map(|client| one.wire(client).server_ended)
    };
    let bob = |before| Revocation::Subject { subject: "bob".into(), before };
    assert_eq!(
        ended_after(bob(10)),
        [false, false, true, false],
        "it does not say when it was made"
    );
    assert_eq!(ended_after(bob(11)), [true, false, true, false]);
    assert_eq!(ended_after(Revocation::Token("t3".into())), [true, false, true, true]);
    assert_eq!(ended_after(Revocation::Token("t9".into())), [true, false, true, true]);
}

/// The verifier finds a token good, it is revoked, and only then its connection hears of it.
/// Whoever verifies has those who are revoked ended once more, and that must find each of them: who
/// goes on with another token, and who comes in by it, even if the turn has no time to let it in.
#[test]
fn token_that_is_revoked_while_it_is_verified_is_no_way_in() {
    for work in [200, WORK_PER_TURN] {
        let mut one = guarded();
        let turns = |one: &mut One| assert!((0..1_000).any(|_| !one.turn_after(1)), "no end");
        let renews = one.client(1 << 20, &websocket("/stream/bob", "sub=bob;jti=t1"));
        assert_eq!(one.says(renews, r#"{"token":"late;sub=bob;jti=t2"}"#), "");
        let asks: Vec<Place> = ["/stream/bob", "/poll/bob"]
            .repeat(40)
            .iter()
            .map(|target| one.client(1 << 20, &request(target, "late;sub=bob;jti=t2")))
            .collect();
        turns(&mut one);
        let questions: Vec<_> = std::iter::from_fn(|| one.server.token_queue.take()).collect();
        assert_eq!(questions.len(), 81);
        let revoke = |one: &One| {
            assert!(one.server.token_queue.revoke(&Revocation::Token("t2".into())));
        };
        revoke(&one);
        turns(&mut one);
        assert!(!one.wire(renews).server_ended, "its own token is another one");
        one.server.set_work_per_turn(work);
        for question in questions {
            let outcome = verify(question.token().text());
            one.server.token_queue.post_result(question.asker().conn(), outcome).unwrap();
        }
        revoke(&one);
        turns(&mut one);
        one.answer(&hub::Nobody);
        turns(&mut one);
        assert_eq!(one.router.connections(IdText::parse("bob").unwrap()), 0, "{work}");
        assert!(one.texts(renews).contains("token_revoked") || one.wire(renews).server_ended);
        for client in asks {
            let answer = one.reads(client);
            assert!(matches!(status(&answer), "200" | "401"), "it is told: {answer}");
        }
    }
}

/// A connection without a token is not taken for the one that had its slot before.
#[test]
fn revoked_token_is_forgotten_with_its_stream() {
    let mut one = guarded();
    let gone = one.client(1 << 20, &request("/stream/bob", "sub=bob;jti=t1"));
    one.wire(gone).client_resets();
    one.server.report_one(gone);
    let next = one.client(1 << 20, "GET /stream/b");
    assert_eq!(next.key.slot, gone.key.slot);
    assert!(one.server.token_queue.revoke(&Revocation::Token("t1".into())));
    while one.turn_after(1) {}
    one.say(next, &request("ob", "sub=bob;jti=t2").as_bytes()["GET ".len()..]);
    assert_eq!(status(&one.reads(next)), "200");
}

#[test]
fn token_is_good_for_so_many_connections() {
    in_all_ways(is_good_for_so_many);
}

fn is_good_for_so_many(mut one: One) {
    let says = request("/stream/bob", "sub=bob;jti=t1;uses=2");
    let clients = [0; 3].map(|_| one.client(1 << 20, &says));
    one.turn_after(1);
    let answers = clients.map(|client| one.reads(client));
    assert_eq!(answers.each_ref().map(|answer| status(answer)), ["200", "200", "429"]);
    assert_eq!(one.server.token_queue.tokens_in_use(), 1);
    one.wire(clients[0]).client_resets();
    one.server.report_one(clients[0]);
    let next = one.client(1 << 20, &says);
    assert_eq!(status(&one.reads(next)), "200");
    // A poll uses it as long as it waits.
    let poll = one.client(1 << 20, &request("/poll/eve", "sub=eve;uses=1"));
    let other = one.client(1 << 20, &request("/poll/eve", "sub=eve;uses=1"));
    assert_eq!(
        (one.reads(poll), status(&one.reads(other)).to_owned()),
        (String::new(), "429".into())
    );
    one.answer(&hub::Nobody);
    one.send("eve", "1");
    one.turn_after(1);
    assert_eq!(status(&one.reads(poll)), "200");
    one.say(poll, request("/poll/eve", "sub=eve;uses=1").as_bytes());
    assert_eq!(one.reads(poll), "");
}

/// Hundreds who come, wait, are let in, say that they are others, renew, reset and are revoked: all
/// hear of whom they may, and nothing is left of them.
#[test]
fn crowd_hears_what_its_tokens_grant_and_leaves_nothing() {
    crowd("crowd_hears_what_its_tokens_grant", 40, false, NEVER);
    crowd("crowd_hears_what_its_tokens_grant", 40, false, 20);
}

#[test]
fn crowd_through_tls_hears_what_its_tokens_grant_and_leaves_nothing() {
    crowd("crowd_through_tls_hears_what_its_tokens_grant", 20, true, NEVER);
    crowd("crowd_through_tls_hears_what_its_tokens_grant", 20, true, 20);
}

fn crowd(name: &str, seeds: u64, tls: bool, upgrade_one_in: usize) {
    super::each_seed(name, seeds, |seed| {
        let (mut random, mut upgrades) = (Random::new(seed), Random::new(!seed));
        let mut one = guarded_by(tls.then_some(seed));
        one.server.set_work_per_turn([400, 10_000][random.below(2)]);
        // Records are longer than what is read at a time, and than what there is room for.
        one.server.set_read_bytes([64, 16_384][random.below(2)]);
        let room = [600, 4_000][random.below(2)];
        let mut clients: BTreeMap<usize, Bearer> = BTreeMap::new();
        for step in 0..600 {
            if upgrades.one_in(upgrade_one_in) {
                one.upgrade(&mut upgrades);
            }
            let who = random.below(12);
            let late = ["", "late;"][random.below(2)];
            let uses = ["", ";uses=2"][random.below(2)];
            let ms = ["", ";ms=700"][random.below(2)];
            let token = format!("{late}sub={who}{uses}{ms};jti=t{who}");
            let asks = if random.below(4) == 0 { random.below(12) } else { who };
            match random.below(9) {
                0..=2 => {
                    let says = match random.below(3) {
                        0 => request(&format!("/stream/{asks}"), &token),
                        1 => request(&format!("/poll/{asks}?wait=1"), &token).repeat(2),
                        _ => websocket(&format!("/stream/{asks}"), &token),
                    };
                    let place = one.client(room, &says);
                    clients.insert(step, Bearer { place, who, talks: false, got: Vec::new() });
                }
                3 => drop(one.verify_all()),
                4 => {
                    for about in 0..12 {
                        one.send(&about.to_string(), "1");
                    }
                    one.answer(&hub::Nobody);
                }
                5 => {
                    let text = format!("t{who}");
                    assert!(one.server.token_queue.revoke(&Revocation::Token(text.into())));
                }
                6 => {
                    let Some((_, mut bearer)) = clients.pop_first() else { continue };
                    bearer.reads(&one, usize::MAX);
                    bearer.check();
                    one.wire(bearer.place).client_resets();
                    one.server.report_one(bearer.place);
                }
                7 => {
                    for bearer in clients.values_mut() {
                        bearer.reads(&one, random.below(300));
                    }
                }
                _ => {
                    if let Some(bearer) = clients.values_mut().next() {
                        bearer.talks = true;
                        let (client, who) = (bearer.place, bearer.who);
                        let other = random.below(12);
                        let says = format!("{{\"login\":[\"{other}\"]}}");
                        one.say(client, &client_frame(0x81, says.as_bytes()));
                        let says = format!("{{\"token\":\"late;sub={who};ms=700\"}}");
                        one.say(client, &client_frame(0x81, says.as_bytes()));
                    }
                }
            }
            one.turn_after(random.below(300) as u64);
        }
        for mut bearer in clients.into_values() {
            bearer.reads(&one, usize::MAX);
            bearer.check();
            one.wire(bearer.place).client_resets();
        }
        one.verify_all();
        one.server.end();
        one.server.check_nothing_is_left();
        assert_eq!(one.server.token_queue.tokens_in_use(), 0);
    });
}

/// A token is being verified when another version takes over: its client is told that it was not.
/// Unless it is at its end, or gone, and somebody else is in its place.
#[test]
fn token_that_nobody_verifies_any_more_is_told_to_whom_it_matters() {
    for seed in 0..20 {
        let (mut one, random) = (guarded(), &mut Random::new(seed));
        let token = "sub=bob;ms=5000";
        let clients = [0; 3].map(|_| one.client(1 << 20, &websocket("/stream/bob", token)));
        for client in clients {
            assert_eq!(one.says(client, r#"{"token":"late;sub=bob"}"#), "");
        }
        one.turn_after(2_000);
        one.upgrade(random);
        let [gone, stays, _] = clients;
        one.wire(gone).client_resets();
        one.server.report_one(gone);
        let next = one.client(1 << 20, &request("/stream/bob", "sub=bob"));
        one.turn_after(1);
        assert_eq!(status(&one.reads(next)), "200");
        assert!(one.texts(stays).contains("\"status\":503"));
        assert_eq!(one.says(stays, r#"{"token":"late;sub=bob"}"#), "", "it is asked for anew");
        one.server.clock.pass(2_900);
        one.upgrade(random);
        one.turn_after(200);
        assert!(one.texts(stays).is_empty() && one.wire(stays).server_ended);
    }
}

/// One of the crowd.
struct Bearer {
    place: Place,
    who: usize,
    /// As on a WebSocket, be it one or not.
    talks: bool,
    got: Vec<u8>,
}

impl Bearer {
    fn reads(&mut self, one: &One, len: usize) {
        self.got.extend(one.wire(self.place).client_reads(len));
    }

    /// Whatever else came, it was understood, and no event is about another.
    fn check(&self) {
        let text = String::from_utf8_lossy(&self.got);
        assert!(self.talks || !text.contains("HTTP/1.1 400"), "{text}");
        let mut rest = text.split("\"about\":\"").skip(1).peekable();
        while let Some(about) = rest.next() {
            let (about, behind) = about.split_once('"').unwrap_or((about, ""));
            // The last one may be cut off.
            let is_whole = !behind.is_empty() || rest.peek().is_some();
            assert!(!is_whole || about == self.who.to_string(), "{text}");
        }
    }
}
