//! Texts in which a term is written, read back.
//!
//! Only what we write ourselves counts. A text that is read as a term which is written otherwise
//! (`{ a }`, `007`, `+1.50`) is a text, so that each id has one term.

use erlang::Term;
use erlang::term::write;

use super::{atoms, digits, push, written};

/// Appends the term that is written in `text`; nothing, and false, if there is none, or one with an
/// atom that [may not go](atoms::may_go) to nodes.
pub(super) fn write(out: &mut Vec<u8>, text: &str) -> bool {
    if !text.starts_with(|first: char| matches!(first, '{' | '[' | '+' | '-' | '0'..='9')) {
        return false;
    }
    let begin = out.len();
    let mut reader = Reader { rest: text, out, atoms: Vec::new() };
    let is_term = reader.term().is_some() && reader.rest.is_empty();
    let atoms = reader.atoms;
    let goes = is_term
        && is_written_so(&out[begin..], text)
        && atoms.iter().all(|atom| atoms::may_go(atom));
    if !goes {
        out.truncate(begin);
    }
    goes
}

fn is_written_so(mut term: &[u8], text: &str) -> bool {
    let mut again = String::with_capacity(text.len());
    let pushed = Term::read(&mut term).map(|term| push(&mut again, term, &mut |_| ()));
    matches!(pushed, Ok(Ok(()))) && again == text
}

/// Reads terms off the front of `rest` and appends them to `out`. Each takes a character at least,
/// so it does not go deeper than the 255 bytes of an id. Half a term may be left in `out` where it
/// finds none.
struct Reader<'t, 'o> {
    rest: &'t str,
    out: &'o mut Vec<u8>,
    atoms: Vec<String>,
}

impl<'t> Reader<'t, '_> {
    fn term(&mut self) -> Option<()> {
        let first = self.rest.chars().next()?;
        match first {
            '{' => self.tuple(),
            '[' => self.list(),
            '"' => {
                let characters = self.quoted('"')?;
                write::list(self.out, characters.chars().count());
                characters
                    .chars()
                    .for_each(|each| write::integer(self.out, u32::from(each).into()));
                write::nil(self.out);
                Some(())
            }
            '<' => self.binary(),
            '\'' => {
                let name = self.quoted('\'')?;
                self.atom(name)
            }
            'a'..='z' => {
                let name = self.take_while(written::is_of_bare).to_owned();
                self.atom(name)
            }
            _ => self.number(),
        }
    }

    fn atom(&mut self, name: String) -> Option<()> {
        if name.chars().count() > 255 {
            return None;
        }
        write::atom(self.out, &name);
        self.atoms.push(name);
        Some(())
    }

    fn tuple(&mut self) -> Option<()> {
        let head = self.out.len();
        write::tuple(self.out, 0);
        let arity = self.elements('{', '}')?;
        // The head of a tuple ends with the number of its elements.
        self.out[head + 1] = u8::try_from(arity).ok()?;
        Some(())
    }

    fn list(&mut self) -> Option<()> {
        let begin = self.out.len();
        let len = self.elements('[', ']')?;
        if len > 0 {
            let elements = self.out.split_off(begin);
            write::list(self.out, len);
            self.out.extend(elements);
        }
        write::nil(self.out);
        Some(())
    }

    /// Terms with commas between, and how many they are.
    fn elements(&mut self, open: char, close: char) -> Option<usize> {
        self.skip(open)?;
        if self.skip(close).is_some() {
            return Some(0);
        }
        let mut len = 0;
        loop {
            self.term()?;
            len += 1;
            if self.skip(close).is_some() {
                return Some(len);
            }
            self.skip(',')?;
        }
    }

    fn binary(&mut self) -> Option<()> {
        self.skip('<')?;
        self.skip('<')?;
        let mut bytes = Vec::new();
        if self.rest.starts_with('"') {
            bytes.extend(self.quoted('"')?.into_bytes());
        } else {
            loop {
                bytes.push(self.take_while(|digit| digit.is_ascii_digit()).parse::<u8>().ok()?);
                if self.skip(',').is_none() {
                    break;
                }
            }
        }
        self.skip('>')?;
        self.skip('>')?;
        write::binary(self.out, &bytes);
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let number = self.take_while(|each| matches!(each, '0'..='9' | '+' | '-' | '.' | 'e'));
        if number.contains('.') {
            let float = number.parse::<f64>().ok().filter(|float| float.is_finite())?;
            write::float(self.out, float);
            return Some(());
        }
        let (negative, magnitude) = match number.strip_prefix('-') {
            Some(magnitude) => (true, magnitude),
            None => (false, number),
        };
        if magnitude.is_empty() || !magnitude.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        match number.parse::<i64>() {
            Ok(small) => write::integer(self.out, small),
            Err(_) => write::big(self.out, negative, &digits::to_magnitude(magnitude)),
        }
        Some(())
    }

    /// What stands between two of `quote`.
    fn quoted(&mut self, quote: char) -> Option<String> {
        self.skip(quote)?;
        let mut content = String::new();
        loop {
            content.push_str(self.take_while(|each| each != quote && each != '\\'));
            if self.skip(quote).is_some() {
                return Some(content);
            }
            for each in "\\x{".chars() {
                self.skip(each)?;
            }
            let code = u32::from_str_radix(self.take_while(|each| each != '}'), 16).ok()?;
            self.skip('}')?;
            content.push(char::from_u32(code)?);
        }
    }

    fn skip(&mut self, character: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(character)?;
        Some(())
    }

    fn take_while(&mut self, takes: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|each| !takes(each)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}
