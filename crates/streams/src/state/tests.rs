//! The table of producers, closes and sequences, with the protocol's own vectors.

use super::*;
use crate::Offset;

const TAIL: Offset = Offset { id: 1, position: 99 };

fn append(data: &'static [u8]) -> Append<'static> {
    let content_type = Some("text/plain");
    Append { closes: false, producer: None, sequence: None, data, content_type }
}

fn by(epoch: u64, sequence: u64) -> Append<'static> {
    Append { producer: Some(Producer { id: "p", epoch, sequence }), ..append(b"x") }
}

fn send(state: &mut State, append: Append<'_>) -> Result<Checked, Refusal> {
    let checked = state.check(&append, TAIL)?;
    if checked == Checked::Take {
        state.apply(&Record::Append(append));
    }
    Ok(checked)
}

#[test]
fn producers_follow_the_table() {
    let mut state = State::new("text/plain");
    let taken = Ok(Checked::Take);
    let repeat = |epoch, sequence| Ok(Checked::Repeat(Some((epoch, sequence))));
    let mut send =
        |epoch, sequence| send(&mut state, by(epoch, sequence)).map_err(|e| e.to_string());
    let gap = |expected, received| Err(Refusal::Gap { expected, received }.to_string());
    assert_eq!(send(0, 1), gap(0, 1), "an unknown one begins with 0");
    assert_eq!(send(0, 0), taken);
    assert_eq!(send(0, 0), repeat(0, 0));
    assert_eq!(send(0, 2), gap(1, 2));
    assert_eq!(send(0, 1), taken);
    assert_eq!(send(0, 0), repeat(0, 1), "the highest, not what was sent");
    assert_eq!(send(1, 1), Err(Refusal::EpochStart.to_string()));
    assert_eq!(send(1, 0), taken);
    assert_eq!(send(0, 2), Err(Refusal::StaleEpoch(1).to_string()));
}

#[test]
fn close_of_a_producer_is_remembered_and_stale_comes_before_closed() {
    let mut state = State::new("text/plain");
    send(&mut state, by(1, 0)).unwrap();
    let close = Append { closes: true, ..by(1, 1) };
    assert_eq!(send(&mut state, close).unwrap(), Checked::Take);
    let again = Append { data: b"other", ..close };
    assert_eq!(send(&mut state, again).unwrap(), Checked::Repeat(Some((1, 1))));
    assert!(matches!(send(&mut state, by(0, 0)), Err(Refusal::StaleEpoch(1))));
    assert!(matches!(send(&mut state, by(1, 2)), Err(Refusal::Closed(TAIL))));
    assert!(matches!(send(&mut state, append(b"x")), Err(Refusal::Closed(TAIL))));
    let plain_close = Append { closes: true, ..append(b"") };
    assert_eq!(send(&mut state, plain_close).unwrap(), Checked::Repeat(None));
    let with_body = Append { closes: true, ..append(b"x") };
    assert!(matches!(send(&mut state, with_body), Err(Refusal::Closed(TAIL))));
}

#[test]
fn sequence_grows_byte_by_byte_and_faults_have_an_order() {
    let mut state = State::new("Text/Plain");
    let seq = |sequence| Append { sequence: Some(sequence), ..append(b"x") };
    assert_eq!(send(&mut state, seq("2")).unwrap(), Checked::Take);
    assert!(matches!(send(&mut state, seq("10")), Err(Refusal::Sequence)));
    assert!(matches!(send(&mut state, seq("2")), Err(Refusal::Sequence)));
    let other = Append { content_type: Some("image/png"), ..seq("1") };
    assert!(matches!(send(&mut state, other), Err(Refusal::OtherType(_))), "before the sequence");
    assert_eq!(send(&mut state, append(b"x")).unwrap(), Checked::Take, "none is asked for");
    send(&mut state, Append { closes: true, ..append(b"") }).unwrap();
    assert!(matches!(send(&mut state, other), Err(Refusal::Closed(_))), "before the type");
}

#[test]
fn producers_of_a_stream_are_bounded() {
    let mut state = State::new("text/plain");
    for number in 0..=PRODUCERS_MAX {
        let id = number.to_string();
        let producer = Some(Producer { id: &id, epoch: 0, sequence: 0 });
        let sent = send(&mut state, Append { producer, ..append(b"x") });
        assert_eq!(sent.is_ok(), number < PRODUCERS_MAX);
    }
    assert!(send(&mut state, append(b"x")).is_ok());
}
