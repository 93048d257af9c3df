//! The table, state by state.

use super::*;

const REASON: DisconnectReason = DisconnectReason::LoggedOut;

const ALL: [State; 13] = [
    State::Handshake,
    State::Head,
    State::Body,
    State::Verifying,
    State::Sending,
    State::Stream,
    State::Held,
    State::Poll,
    State::HeldPoll,
    State::Between,
    State::Leaving(Leave::Cut(REASON)),
    State::Ending(REASON),
    State::Lingering(REASON),
];

fn dues() -> impl Iterator<Item = Due> {
    (0..8).map(|bits| Due { blocked: bits & 1 > 0, late: bits & 2 > 0, expired: bits & 4 > 0 })
}

/// Whether a connection may be ended and go, from each state, by its time alone or by its turn.
#[test]
fn every_state_has_an_end() {
    for state in ALL {
        let goes = dues().any(|due| {
            matches!(
                state.on(Input::Time(due), due.blocked),
                Action::Close { .. }
                    | Action::RefuseLate
                    | Action::RefuseBody
                    | Action::RefuseToken
                    | Action::RefuseSend
                    | Action::Answer
                    | Action::WaitOn
            )
        });
        assert!(goes || matches!(state, State::Leaving(_)), "{state:?} stays for ever");
    }
}

#[test]
fn broken_connection_is_closed_unless_it_is_to_leave() {
    for (state, blocked) in ALL.into_iter().flat_map(|state| [(state, false), (state, true)]) {
        let action = state.on(Input::Broken(ErrorKind::ConnectionReset), blocked);
        let closes = matches!(action, Action::Close { abort: true, .. });
        assert_eq!(closes, !matches!(state, State::Leaving(_)), "{state:?}");
    }
}

#[test]
fn who_breaks_the_rules_of_tls_is_told_so_unless_it_knows_or_is_to_leave() {
    for (state, blocked) in ALL.into_iter().flat_map(|state| [(state, false), (state, true)]) {
        let action = state.on(Input::Broken(ErrorKind::InvalidData), blocked);
        let lingers = !matches!(state, State::Leaving(_) | State::Lingering(_));
        assert_eq!(matches!(action, Action::Fail(_)), lingers, "{state:?}");
        assert_eq!(state.may_move_to(State::Lingering(REASON)), lingers, "{state:?}");
    }
}

#[test]
fn event_is_taken_by_exactly_those_who_hear() {
    for state in ALL {
        let action = state.on_event();
        assert_eq!(action != EventAction::Drop, state.hears(), "{state:?}");
        assert_eq!(action == EventAction::Hold, state.is_held(), "{state:?}");
        assert_eq!(state.on_missed().is_some(), state.is_held(), "{state:?}");
    }
}

#[test]
fn gap_is_told_to_exactly_those_who_hear() {
    for state in ALL {
        assert_eq!(state.on_gap().is_some(), state.hears(), "{state:?}");
    }
}

#[test]
fn bytes_are_messages_of_those_alone_who_send_some() {
    for state in ALL {
        let (some, none) = (state.on_bytes(true), state.on_bytes(false));
        assert_eq!(some == BytesAction::Message, matches!(state, State::Stream | State::Held));
        assert!(some == none || (some, none) == (BytesAction::Message, BytesAction::Discard));
        let leaves = matches!(state, State::Leaving(_));
        assert_eq!(some == BytesAction::LeaveUnread, leaves, "{state:?}");
    }
}

#[test]
fn who_is_logged_in_is_logged_out_before_its_end() {
    for (from, to) in ALL.into_iter().flat_map(|from| ALL.map(|to| (from, to))) {
        if matches!(from, State::Ending(_) | State::Lingering(_)) {
            assert!(!from.may_move_to(to) || !to.is_logged_in(), "{from:?} to {to:?}");
        }
    }
}
