//! What an Erlang node sends: any bytes as a message, and what becomes of its terms.

use erlang::term::{View, push_json, push_text, write_json};
use erlang::{Message, OwnPid, ReplyTo, Term, frames};
use serde_json::Value;

/// A frame; and the same bytes as many frames with lengths.
pub fn message(data: &[u8]) {
    for frame in frames(data) {
        let _ = Message::read(frame);
    }
    let Ok(Message { payload: Some(payload), .. }) = Message::read(data) else { return };
    walk(payload, 0);
    if let Some([_, from, request]) = payload.tuple() {
        let ours = OwnPid { node: "encke@h", creation: 4, id: 1 };
        if let Some(reply) = ReplyTo::of(from, ours) {
            let mut out = Vec::new();
            reply.answer(&mut out, |out| out.extend_from_slice(request.bytes()));
            // What we answer is a message again, with the request as its second half.
            let answer = Message::read(&out[4..]).unwrap().payload.unwrap();
            let [_, answered] = answer.tuple().unwrap();
            assert_eq!(answered, request);
        }
    }
}

/// The stack that terms of any depth are read on: a few hundred calls within one another fill it.
const SMALL_STACK_BYTES: usize = 64 << 10;

/// Terms within one another: the first byte says how many, the second how long the piece is that
/// stands around each. What follows is half within the innermost, half behind it.
pub fn nested(data: &[u8]) {
    let Some((&[depth, cut], pieces)) = data.split_first_chunk() else { return };
    let (around, rest) = pieces.split_at(usize::from(cut % 16).min(pieces.len()));
    let (inside, behind) = rest.split_at(rest.len().div_ceil(2));
    let depth = 1 << (depth % 13);
    let term = [&around.repeat(depth), inside, &behind.repeat(depth)].concat();
    let check = move || {
        let frame = [b"p\x83", &term[..]].concat();
        let _ = Message::read(&frame);
        let Ok(term) = Term::read(&mut &term[..]) else { return };
        term.view();
        let _ = push_text(&mut String::new(), term);
        let _ = push_json(&mut String::new(), term);
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES);
    thread.spawn(check).unwrap().join().unwrap();
}

/// Looks at `term` and at all terms in it, as far as a stack goes.
fn walk(term: Term<'_>, depth: usize) {
    let mut text = String::new();
    let _ = push_text(&mut text, term);
    check_json(term);
    if depth > 64 {
        return;
    }
    match term.view() {
        View::Tuple(terms) | View::Map(terms) => terms.for_each(|term| walk(term, depth + 1)),
        View::List(terms, tail) => {
            terms.for_each(|term| walk(term, depth + 1));
            walk(tail, depth + 1);
        }
        _ => {}
    }
}

/// What becomes JSON is JSON, and comes back as a term with the same JSON.
fn check_json(term: Term<'_>) {
    let mut json = String::new();
    if push_json(&mut json, term).is_err() {
        return;
    }
    let Ok(value) = serde_json::from_str::<Value>(&json) else {
        // An integer beyond what a float can be, or too deep, for serde_json too.
        return;
    };
    let mut out = Vec::new();
    write_json(&mut out, &json);
    let mut again = String::new();
    push_json(&mut again, Term::read(&mut &out[..]).unwrap()).unwrap();
    let again = serde_json::from_str::<Value>(&again).unwrap();
    assert!(is_close(&again, &value), "{json} became {again}");
}

/// Whether two values are the same but for the last digits of floats, which serde_json reads fast
/// and not to the last bit.
fn is_close(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let [one, other] = [one, other].map(|number| number.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 1e-14
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_close(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, value)| other.get(name).is_some_and(|other| is_close(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}
