//! Control messages that no node should send, and what is sent back of those that it may.

use super::*;
use crate::frames;

/// A frame with a control message of so many terms.
fn control(operation: i64, terms: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    frame(&mut out, |out| {
        write::tuple(out, 1 + terms.len() as u8);
        write::integer(out, operation);
        terms.iter().for_each(|term| out.extend_from_slice(term));
    });
    frames(&out).next().unwrap().to_vec()
}

fn term(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn pid_term() -> Vec<u8> {
    term(|out| write::pid(out, "a@h", [1, 0, 7]))
}

fn reference_term() -> Vec<u8> {
    term(|out| write::reference(out, "a@h", 7, [1, 2, 3]))
}

#[test]
fn headers_of_the_atom_cache_and_of_fragments_are_refused() {
    // A distribution header, the first of fragments, a later one, a compressed term.
    for header in [&[131, 68, 0][..], &[131, 69], &[131, 70], &[131, 80]] {
        let frame = [header, &[0; 16], &control(op::SEND, &[b"j", &pid_term()])].concat();
        assert_eq!(Message::read(&frame), Err(Malformed::Control), "{header:?}");
    }
    for broken in [&b""[..], b"p", b"p\x83", b"p\x83j", b"p\x83h\0", b"p\x83h\x01w\x01a", b"x"] {
        assert!(Message::read(broken).is_err(), "{broken:?}");
    }
    let unknown = control(4711, &[]);
    assert_eq!(Message::read(&unknown).map(|message| message.control), Ok(Control::Other));
}

#[test]
fn what_is_sent_back_is_what_it_must_be_and_short() {
    let (pid, reference) = (pid_term(), reference_term());
    let monitor = |to: &[u8], reference: &[u8]| {
        Message::read(&control(op::MONITOR_P, &[&pid, to, reference])).map(drop)
    };
    let name = term(|out| write::atom(out, "router"));
    // Lists of nothing about an atom: an atom of many bytes.
    let padded = [&b"l\0\0\0\0".repeat(1000)[..], &name].concat();
    let binary = term(|out| write::binary(out, b"router"));
    assert_eq!(monitor(&name, &reference), Ok(()));
    assert_eq!(monitor(&pid, &reference), Ok(()));
    for (to, reference) in [
        (&padded, &reference),
        (&binary, &reference),
        (&name, &name),
        (&name, &[&b"l\0\0\0\0".repeat(1000)[..], &reference].concat()),
    ] {
        assert_eq!(monitor(to, reference), Err(Malformed::Control));
    }
    let unlink = |id: &[u8]| Message::read(&control(op::UNLINK_ID, &[id, &pid, &pid])).map(drop);
    assert_eq!(unlink(&term(|out| write::natural(out, u64::MAX))), Ok(()));
    // A number of a megabyte that is one, and an atom.
    let long = [&b"o\0\x10\0\0\0\x01"[..], &vec![0; (1 << 20) - 1]].concat();
    assert_eq!((unlink(&long), unlink(&name)), (Err(Malformed::Control), Err(Malformed::Control)));
}

#[test]
fn call_with_a_needlessly_long_tag_has_nobody_to_answer() {
    let ours = OwnPid { node: "encke@h", creation: 9, id: 1 };
    let reply_to = |tag: &[u8]| {
        let from = term(|out| {
            write::tuple(out, 2);
            write::pid(out, "a@h", [1, 0, 7]);
            out.extend_from_slice(tag);
        });
        ReplyTo::of(Term::read(&mut &from[..]).unwrap(), ours)
    };
    assert!(reply_to(&reference_term()).is_some());
    assert!(reply_to(&term(|out| write::binary(out, &[0; TAG_BYTES_MAX - 5]))).is_some());
    assert!(reply_to(&term(|out| write::binary(out, &[0; TAG_BYTES_MAX]))).is_none());
}

#[test]
fn caller_of_a_frame_is_known_by_its_head() {
    let from = term(|out| {
        write::tuple(out, 2);
        out.extend_from_slice(&pid_term());
        out.extend_from_slice(&reference_term());
    });
    let call = |tag: &str, from: &[u8]| {
        let to = control(op::SEND, &[b"w\0", &pid_term()]);
        let asked = term(|out| {
            write::version(out);
            write::tuple(out, 3);
            write::atom(out, tag);
            out.extend_from_slice(from);
        });
        // A list of a million, of which little has come.
        [to, asked, b"l\0\x0f\x42\x40a\x01".to_vec()].concat()
    };
    let whole = call("$gen_call", &from);
    assert_eq!(caller(&whole).map(Term::bytes), Some(&from[..]));
    for cut in 0..whole.len() {
        let found = caller(&whole[..cut]);
        assert!(found.is_none_or(|found| found.bytes() == from), "cut at {cut}");
    }
    assert_eq!(caller(&call("$gen_cast", &from)), None);
    // A control message that carries nothing, and what is none.
    let link = [control(op::LINK, &[&pid_term(), &pid_term()]), whole].concat();
    assert_eq!((caller(&link), caller(b"x")), (None, None));
}
