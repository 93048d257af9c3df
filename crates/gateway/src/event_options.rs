//! What an event of an Erlang process has beside an id and a payload: the options of a send.
//!
//! A list of `{event, Name}`, `{also, [Id]}` and `{except, ConnectionId}`; of one that is given
//! twice the last counts. Names and connections' ids are texts: binaries, lists of characters, or
//! atoms.

use erlang::term::push_text;
use erlang::{Term, View};
use hub::{ConnectionId, LeftOut, SUBJECTS_MAX};

use super::ids;
use super::refusal::Refusal;

/// The options of a send.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct EventOptions {
    /// What kind of event it is.
    pub(super) name: Option<String>,
    /// The further ids that it is about.
    pub(super) also: Vec<String>,
    /// The connection that does not hear it.
    pub(super) except: LeftOut,
}

impl EventOptions {
    /// Reads the options in `term`; without one there are none.
    pub(super) fn read(term: Option<Term<'_>>) -> Result<EventOptions, Refusal> {
        let mut options = EventOptions::default();
        let Some(term) = term else { return Ok(options) };
        for option in term.list().ok_or(Refusal::BadRequest)? {
            let [name, value] = option.tuple().ok_or(Refusal::BadRequest)?;
            match name.atom().ok_or(Refusal::BadRequest)? {
                name if name.is("event") => options.name = Some(text(value)?),
                name if name.is("also") => options.also = id_texts(value)?,
                name if name.is("except") => {
                    options.except = ConnectionId::parse(&text(value)?).into();
                }
                _ => return Err(Refusal::BadRequest),
            }
        }
        Ok(options)
    }

    /// The bytes that they add to an event.
    pub(super) fn len(&self) -> usize {
        self.name.iter().chain(&self.also).map(String::len).sum()
    }
}

/// A text: a binary, a list of characters, or an atom.
pub(super) fn text(term: Term<'_>) -> Result<String, Refusal> {
    let mut text = String::new();
    match term.view() {
        View::Atom(atom) => text.push_str(&atom.text()),
        _ => push_text(&mut text, term).map_err(|_| Refusal::BadRequest)?,
    }
    Ok(text)
}

/// The ids in a list.
fn id_texts(term: Term<'_>) -> Result<Vec<String>, Refusal> {
    // A list of small integers travels as bytes.
    if let View::Bytes(bytes) = term.view() {
        check_count(bytes.len())?;
        return Ok(bytes.iter().map(u8::to_string).collect());
    }
    let ids = term.list().ok_or(Refusal::BadRequest)?;
    check_count(ids.len())?;
    ids.map(|id| {
        let mut text = String::new();
        ids::read_id(&mut text, id)?;
        Ok(text)
    })
    .collect()
}

fn check_count(ids: usize) -> Result<(), Refusal> {
    if ids < SUBJECTS_MAX { Ok(()) } else { Err(Refusal::BadRequest) }
}

#[cfg(test)]
mod tests {
    use erlang::term::write;

    use super::*;

    /// `[{Name, Value}]`, of values that are written already.
    fn list(options: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        write::list(&mut out, options.len());
        for (name, value) in options {
            write::tuple(&mut out, 2);
            write::atom(&mut out, name);
            out.extend_from_slice(value);
        }
        write::nil(&mut out);
        out
    }

    fn read(bytes: &[u8]) -> Result<EventOptions, Refusal> {
        let mut bytes = bytes;
        EventOptions::read(Some(Term::read(&mut bytes).unwrap()))
    }

    fn binary(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::binary(&mut out, text.as_bytes());
        out
    }

    #[test]
    fn options_are_read_in_any_order_and_form() {
        assert_eq!(EventOptions::read(None), Ok(EventOptions::default()));
        assert_eq!(read(b"\x6a"), Ok(EventOptions::default()));
        let id = "9f86d081884c7d65";
        let all = EventOptions {
            name: Some("typing".into()),
            also: vec!["7".into(), "9".into()],
            except: ConnectionId::parse(id).into(),
        };
        assert_eq!(all.except.count(), 1);
        let options = list(&[
            ("except", &binary(id)),
            ("also", b"\x6b\0\x02\x07\x09"),
            ("event", b"\x77\x06typing"),
        ]);
        assert_eq!(read(&options), Ok(all.clone()));
        assert_eq!(all.len(), 8);
        let mut also = Vec::new();
        write::list(&mut also, 2);
        also.extend(binary("7"));
        write::integer(&mut also, 9);
        write::nil(&mut also);
        let options =
            list(&[("event", &binary("typing")), ("also", &also), ("except", &binary(id))]);
        assert_eq!(read(&options), Ok(all));
        let nobody = read(&list(&[("except", &binary("nobody"))]));
        assert_eq!(nobody, Ok(EventOptions::default()));
    }

    #[test]
    fn what_is_no_option_is_refused() {
        let refused = Err(Refusal::BadRequest);
        assert_eq!(read(b"\x61\x01"), refused, "no list");
        assert_eq!(read(&list(&[("key", &binary("k"))])), refused);
        assert_eq!(read(&list(&[("except", b"\x61\x07")])), refused, "no text");
        assert_eq!(read(&list(&[("also", &binary("7"))])), refused, "no list of ids");
        let many = [&b"\x6b\0\x64"[..], &[1; 100]].concat();
        assert_eq!(read(&list(&[("also", &many)])), refused, "with the first they are 101");
        let bad = b"\x6c\0\0\0\x01\x6d\0\0\0\x03a b\x6a";
        assert_eq!(read(&list(&[("also", bad)])), Err(Refusal::BadId));
    }
}
