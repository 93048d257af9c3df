//! A shard whose wall clock somebody sets.

use mercure::MatchType;

use super::one::One;
use super::subscribers_upgraded::{bearer, guarded_for, subscribe};
use super::token_ends::in_all_ways;
use super::tokens::request;

/// What somebody sets the wall clock to is what tokens are meant by, as soon as it is seen.
#[test]
fn token_ends_by_the_wall_clock_too() {
    in_all_ways(ends_by_the_wall_clock);
}

fn ends_by_the_wall_clock(mut one: One) {
    let minute = |one: &mut One| one.client(1 << 20, &request("/stream/bob", "sub=bob;ms=60000"));
    let streams = [0; 20].map(|_| minute(&mut one));
    let hours = one.client(1 << 20, &request("/stream/bob", "sub=bob;ms=7200000"));
    let for_ever = one.client(1 << 20, &request("/stream/bob", "sub=bob"));
    let poll = one.client(1 << 20, &request("/poll/bob?wait=50", "sub=bob;ms=60000"));
    // All that they have said is read: handshakes take more than a turn.
    while one.answer(&hub::Nobody) == 0 {
        one.turn_after(1);
    }
    one.turn_after(900);
    let mut polled = Vec::new();
    let mut set = |one: &mut One, by_ms: i64| {
        let clock = &one.server.clock;
        clock.set_unix(clock.unix_ms().saturating_add_signed(by_ms));
        for _ in 0..10 {
            one.turn_after(50);
            for client in streams.iter().chain([&hours]) {
                one.wire(*client).client_reads(usize::MAX);
            }
            polled.extend(one.wire(poll).client_reads(usize::MAX));
        }
    };
    let ended = |one: &One, client| one.wire(client).server_ended;
    // Nobody is ended before its time.
    set(&mut one, -900);
    set(&mut one, 30_000);
    assert!(!streams.iter().any(|&stream| ended(&one, stream)), "half a minute is left");
    set(&mut one, 3_600_000);
    assert!(streams.iter().all(|&stream| ended(&one, stream)), "its time is over");
    assert!(!ended(&one, hours) && !ended(&one, for_ever));
    // Who comes now has all of its time.
    let late = minute(&mut one);
    one.turn_after(50_000);
    assert!(!ended(&one, late));
    set(&mut one, -3_600_000);
    one.turn_after(10_000);
    assert!(ended(&one, late), "it does not last longer when the clock is set back");
    set(&mut one, 2 * 3_600_000);
    assert!(ended(&one, hours) && !ended(&one, for_ever));
    assert!(polled.starts_with(b"HTTP/1.1 200"), "it is answered: {}", polled.escape_ascii());
}

/// A hub that has keys of its own knows what time it is without any other tokens.
#[test]
fn stream_of_the_hub_ends_by_the_wall_clock() {
    let mut one = guarded_for(60_000);
    let token = bearer(false, &[(MatchType::Exact, "note")]);
    let stream = subscribe(&mut one, "topic=note", &token);
    one.turn_after(1_000);
    assert!(!one.wire(stream).server_ended);
    let clock = &one.server.clock;
    clock.set_unix(clock.unix_ms() + 3_600_000);
    for _ in 0..10 {
        one.turn_after(50);
        one.reads(stream);
    }
    assert!(one.wire(stream).server_ended, "its time is over");
}
