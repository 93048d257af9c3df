//! Files of pairs: `a b` a line, separated by white space; blank lines and `#` comments are
//! skipped. This is what igraph's `write_edgelist`, SNAP's data sets and `encke graph generate`
//! write, except that ids may be names as well.
//!
//! Memory does not grow with the input, whatever it holds. Cost: about 50 ns a line.

use std::io::{self, ErrorKind, Read};

use hub::{Id, IdError, IdText};
use thiserror::Error;

/// Bytes read at once, and the longest line that is looked at.
const BUFFER_BYTES: usize = 1 << 20;

/// What is wrong with one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LineError {
    /// One field, or three and more.
    #[error("expected two ids, found {0}")]
    Fields(usize),
    /// A field that is not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A field that is not even text.
    #[error("an id must be UTF-8")]
    NotText,
    /// Not a file of pairs, most likely.
    #[error("a line has at most 1048576 bytes")]
    TooLong,
}

/// Malformed lines that are named; all are counted.
const NAMED_MAX: usize = 20;

/// Lines that are not pairs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// How many there are.
    pub count: u64,
    /// The first ones: the line's number, from 1, and what is wrong.
    pub first: Vec<(u64, LineError)>,
}

impl Malformed {
    /// Takes note of line `number`.
    pub fn note(&mut self, number: u64, error: LineError) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push((number, error));
        }
    }

    /// What to tell the owner of the file `name`: "has 2 malformed lines", and which.
    pub fn complaint(&self, name: &str) -> String {
        let lines = if self.count == 1 { "line" } else { "lines" };
        let mut text = format!(
            "{name} has {} malformed {lines}; correct them, or add --skip-malformed:",
            self.count
        );
        for (number, error) in &self.first {
            text.push_str(&format!("\n{name}:{number}: {error}"));
        }
        debug_assert!(self.first.len() as u64 <= self.count);
        match self.count - self.first.len() as u64 {
            0 => text,
            more => text + &format!("\nand {more} more"),
        }
    }
}

/// The line's two ids; `None` when it has none to have.
pub type Line<'a> = Result<Option<(IdText<'a>, IdText<'a>)>, LineError>;

/// Calls `visit` with each line and the number of bytes read so far, until it fails.
pub fn for_each_line<E: From<io::Error>>(
    input: &mut dyn Read,
    mut visit: impl FnMut(Line<'_>, u64) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut filled, mut bytes_read, mut skipping) = (0, 0, false);
    let mut is_first = true;
    loop {
        debug_assert!(filled < BUFFER_BYTES, "nothing read would be taken for the end");
        let read = read_some(input, &mut buffer[filled..])?;
        bytes_read += read as u64;
        filled += read;
        let mut rest = &buffer[..filled];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let is_first = std::mem::take(&mut is_first);
            if !std::mem::take(&mut skipping) {
                visit(parse(unmarked(&rest[..end], is_first)), bytes_read)?;
            }
            rest = &rest[end + 1..];
        }
        if read == 0 {
            // The last line may lack its line feed.
            return if rest.is_empty() || skipping {
                Ok(())
            } else {
                visit(parse(unmarked(rest, is_first)), bytes_read)
            };
        }
        let start = filled - rest.len();
        if rest.len() == BUFFER_BYTES {
            if !std::mem::replace(&mut skipping, true) {
                visit(Err(LineError::TooLong), bytes_read)?;
            }
            filled = 0;
        } else {
            buffer.copy_within(start..filled, 0);
            filled -= start;
        }
    }
}

/// Without the byte order mark that some editors put before a text, where it is the first line.
fn unmarked(line: &[u8], is_first: bool) -> &[u8] {
    let rest = if is_first { line.strip_prefix(b"\xef\xbb\xbf") } else { None };
    rest.unwrap_or(line)
}

fn read_some(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn parse(line: &[u8]) -> Line<'_> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let Some(first) = fields.next().filter(|first| first[0] != b'#') else { return Ok(None) };
    match (fields.next(), fields.count()) {
        (Some(second), 0) => Ok(Some((id(first)?, id(second)?))),
        (None, _) => Err(LineError::Fields(1)),
        (Some(_), more) => Err(LineError::Fields(2 + more)),
    }
}

fn id(field: &[u8]) -> Result<IdText<'_>, LineError> {
    if let Some(id) = short_integer(field) {
        return Ok(IdText::Integer(id));
    }
    Ok(IdText::parse(str::from_utf8(field).map_err(|_| LineError::NotText)?)?)
}

/// [`IdText::parse`], faster for short integers.
pub(super) fn parse_id(text: &str) -> Result<IdText<'_>, IdError> {
    short_integer(text.as_bytes()).map_or_else(|| IdText::parse(text), |id| Ok(IdText::Integer(id)))
}

/// Canonical integers of at most 18 digits, which is nearly all there is in large files, in a
/// fraction of the time that the general way takes.
fn short_integer(field: &[u8]) -> Option<Id> {
    if field.is_empty() || field.len() > 18 || (field[0] == b'0' && field.len() > 1) {
        return None;
    }
    let mut number = 0;
    for byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Id::integer(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.len().min(self.1).min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    fn lines(text: &[u8], step: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let visit = |line: Line<'_>, _| {
            lines.push(match line {
                Ok(Some((IdText::Integer(a), IdText::Integer(b)))) => {
                    format!("{} {}", a.to_bits(), b.to_bits())
                }
                Ok(Some((a, b))) => format!("{a:?} {b:?}"),
                Ok(None) => "none".into(),
                Err(error) => error.to_string(),
            });
            Ok::<(), io::Error>(())
        };
        for_each_line(&mut Trickle(text, step), visit).unwrap();
        lines
    }

    #[test]
    fn every_kind_of_line_split_anywhere() {
        let text = b"0 1\n\n  # 5 6\n\t12\t 345 \r\nalice 007\n1\n1 2 3\na/b c\n\xff 1\n\
                     999999999999999999 9223372036854775807\n9223372036854775808 1\n8 9";
        let expected = [
            "0 1",
            "none",
            "none",
            "12 345",
            "Name(\"alice\") Name(\"007\")",
            "expected two ids, found 1",
            "expected two ids, found 3",
            "an id must not contain '/': no control characters, no white space, no '/', '?', '#'",
            "an id must be UTF-8",
            "999999999999999999 9223372036854775807",
            "Name(\"9223372036854775808\") Integer(Id(1))",
            "8 9",
        ];
        for step in 1..text.len() + 1 {
            assert_eq!(lines(text, step), expected);
        }
    }

    #[test]
    fn line_longer_than_the_buffer_is_one_malformed_line() {
        let mut text = b"1 2\n".to_vec();
        text.resize(3 * BUFFER_BYTES, b'x');
        text.extend_from_slice(b"\n3 4\n");
        assert_eq!(lines(&text, 1 << 16), ["1 2", "a line has at most 1048576 bytes", "3 4"]);
        text.truncate(2 * BUFFER_BYTES);
        assert_eq!(lines(&text, 1 << 16), ["1 2", "a line has at most 1048576 bytes"]);
    }
}
