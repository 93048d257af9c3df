//! The table, state by state.

use super::*;

const REASON: DisconnectReason = DisconnectReason::LoggedOut;

const ALL: [Life; 13] = [
    Life::Handshake,
    Life::Head,
    Life::Body,
    Life::Verifying,
    Life::Sending,
    Life::Stream,
    Life::Held,
    Life::Poll,
    Life::HeldPoll,
    Life::Between,
    Life::Leaving(Leave::Cut(REASON)),
    Life::Ending(REASON),
    Life::Lingering(REASON),
];

fn dues() -> impl Iterator<Item = Due> {
    (0..8).map(|bits| Due { blocked: bits & 1 > 0, late: bits & 2 > 0, expired: bits & 4 > 0 })
}

/// Whether a connection may be ended and go, from each state, by its time alone or by its turn.
#[test]
fn every_state_has_an_end() {
    for life in ALL {
        let goes = dues().any(|due| {
            matches!(
                life.on(Input::Time(due), due.blocked),
                Act::Close { .. }
                    | Act::RefuseLate
                    | Act::RefuseBody
                    | Act::RefuseToken
                    | Act::RefuseSend
                    | Act::Answer
                    | Act::WaitOn
            )
        });
        assert!(goes || matches!(life, Life::Leaving(_)), "{life:?} stays for ever");
    }
}

#[test]
fn broken_connection_is_closed_unless_it_is_to_leave() {
    for (life, blocked) in ALL.into_iter().flat_map(|life| [(life, false), (life, true)]) {
        let act = life.on(Input::Broken(ErrorKind::ConnectionReset), blocked);
        let closes = matches!(act, Act::Close { abort: true, .. });
        assert_eq!(closes, !matches!(life, Life::Leaving(_)), "{life:?}");
    }
}

#[test]
fn who_breaks_the_rules_of_tls_is_told_so_unless_it_knows_or_is_to_leave() {
    for (life, blocked) in ALL.into_iter().flat_map(|life| [(life, false), (life, true)]) {
        let act = life.on(Input::Broken(ErrorKind::InvalidData), blocked);
        let lingers = !matches!(life, Life::Leaving(_) | Life::Lingering(_));
        assert_eq!(matches!(act, Act::Fail(_)), lingers, "{life:?}");
        assert_eq!(life.may_move_to(Life::Lingering(REASON)), lingers, "{life:?}");
    }
}

#[test]
fn event_is_taken_by_exactly_those_who_hear() {
    for life in ALL {
        let act = life.on_event();
        assert_eq!(act != EventAct::Drop, life.hears(), "{life:?}");
        assert_eq!(act == EventAct::Hold, life.is_held(), "{life:?}");
        assert_eq!(life.on_missed().is_some(), life.is_held(), "{life:?}");
    }
}

#[test]
fn gap_is_told_to_exactly_those_who_hear() {
    for life in ALL {
        assert_eq!(life.on_gap().is_some(), life.hears(), "{life:?}");
    }
}

#[test]
fn bytes_are_messages_of_those_alone_who_send_some() {
    for life in ALL {
        let (some, none) = (life.on_bytes(true), life.on_bytes(false));
        assert_eq!(some == BytesAct::Message, matches!(life, Life::Stream | Life::Held));
        assert!(some == none || (some, none) == (BytesAct::Message, BytesAct::Discard));
        let leaves = matches!(life, Life::Leaving(_));
        assert_eq!(some == BytesAct::LeaveUnread, leaves, "{life:?}");
    }
}

#[test]
fn who_is_logged_in_is_logged_out_before_its_end() {
    for (from, to) in ALL.into_iter().flat_map(|from| ALL.map(|to| (from, to))) {
        if matches!(from, Life::Ending(_) | Life::Lingering(_)) {
            assert!(!from.may_move_to(to) || !to.is_logged_in(), "{from:?} to {to:?}");
        }
    }
}
