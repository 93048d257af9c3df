//! The list of servers as libketama reads it: one a line, its address, tabs or blanks, its memory.
//!
//! A line whose first character is `#` is a comment, an empty one is nothing. Where the original
//! takes what nobody can have meant, this parser does not follow it but says so, or reads what
//! stands there:
//!
//! | line | libketama | here |
//! | --- | --- | --- |
//! | the last one, without a line end | the memory loses its last digit | the memory as it stands |
//! | `10.0.1.1:11211 600 # old` | the memory loses its last digit | refused |
//! | `10.0.1.1:11211 600MB`, `-600` | 600, a number near 2^64 | refused |
//! | blanks only | refused | nothing |
//! | more than 126 bytes | read as several lines | one line |
//! | an address of more than 22 bytes | cut to 22, or refused | taken up to 255 bytes |
//!
//! Cost: one pass over the bytes, and an allocation for each server.

use thiserror::Error;

use crate::server::{Server, ServerError};

/// Characters of a word that an error quotes: enough to find it in its line.
const QUOTED_CHARS_MAX: usize = 60;

/// A list that cannot be read: in which line, and why.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {fault}")]
pub struct ListError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// Only comments may hold any bytes.
    #[error("these bytes are not UTF-8: save the list as plain text")]
    NotText,
    /// There is an address and nothing else.
    #[error("no memory after {0:?}: a line is an address, a tab or blanks, and a memory")]
    NoMemory(String),
    /// The second word is no number, or not one below 2^64.
    #[error("{0:?} is no memory: write a whole number from 1 on, in the unit of all lines")]
    BadMemory(String),
    /// There is a third word.
    #[error("{0:?} after the memory: one server a line; a comment's `#` is the first of its line")]
    Rest(String),
    /// Address and memory make no server.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Reads a list of servers. It may be empty, of which [`Continuum::new`](crate::Continuum::new)
/// makes an error.
///
/// A server that stands in it twice is taken twice, as the original does: it counts twice when the
/// others' shares are computed, and its points fall on each other.
pub fn parse(list: &[u8]) -> Result<Vec<Server>, ListError> {
    let mut servers = Vec::new();
    for (line, bytes) in (1..).zip(list.split(|&byte| byte == b'\n')) {
        servers.extend(parse_line(bytes).map_err(|fault| ListError { line, fault })?);
    }
    Ok(servers)
}

fn parse_line(line: &[u8]) -> Result<Option<Server>, Fault> {
    if line.starts_with(b"#") {
        return Ok(None);
    }
    let line = str::from_utf8(line).map_err(|_| Fault::NotText)?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let Some(address) = words.next() else { return Ok(None) };
    let Some(memory) = words.next() else { return Err(Fault::NoMemory(quoted(address))) };
    if let Some(rest) = words.next() {
        return Err(Fault::Rest(quoted(rest)));
    }
    let memory = memory.parse().map_err(|_| Fault::BadMemory(quoted(memory)))?;
    Ok(Some(Server::new(address, memory)?))
}

fn quoted(word: &str) -> String {
    word.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Vec<(String, u64)> {
        let servers = parse(list.as_bytes()).unwrap();
        servers.iter().map(|server| (server.address().to_owned(), server.memory())).collect()
    }

    fn refused(list: &str) -> String {
        parse(list.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn lines_are_servers_comments_or_nothing() {
        let list = "#------ Server -------\t-Mem-#\n#255.255.255.255:65535\t66666#\n\
                    10.0.1.1:11211\t600\n\n  10.0.1.2:11211 \t 300 \t\r\n \t\n\
                    10.0.1.1:11211 600\n##\n10.0.1.3:11211 +20";
        let expected = [
            ("10.0.1.1:11211", 600),
            ("10.0.1.2:11211", 300),
            ("10.0.1.1:11211", 600),
            ("10.0.1.3:11211", 20),
        ];
        assert_eq!(read(list), expected.map(|(address, memory)| (address.to_owned(), memory)));
        assert_eq!(read(""), []);
        assert_eq!(read("# nobody\n"), []);
    }

    #[test]
    fn comment_may_hold_any_bytes_and_a_server_may_not() {
        assert_eq!(parse(b"# \xff\n"), Ok(Vec::new()));
        let error = parse(b"\na:1 1\n\xff:1 1\n").unwrap_err();
        assert_eq!((error.line, error.fault), (3, Fault::NotText));
    }

    #[test]
    fn faults_name_the_line_the_word_and_the_way_out() {
        for (list, expected) in [
            ("a:1 1\nb:1\n", "line 2: no memory after \"b:1\": a line is an address, "),
            ("\n\na:1 600MB\n", "line 3: \"600MB\" is no memory: write a whole number "),
            ("a:1 -600\n", "line 1: \"-600\" is no memory"),
            ("a:1 6e2\n", "line 1: \"6e2\" is no memory"),
            ("a:1 18446744073709551616\n", "line 1: \"18446744073709551616\" is no memory"),
            ("a:1 0\n", "line 1: a server's memory must not be 0"),
            ("a:1 600 # old\n", "line 1: \"#\" after the memory: one server a line; "),
            (" # note\n", "line 1: \"note\" is no memory"),
            (" #a 1\n", "line 1: an address must not begin with `#`"),
            ("\u{feff}a:1 1\n", "line 1: an address must not contain '\\u{feff}'"),
            ("a:1\u{b}1\n", "line 1: no memory after \"a:1\\u{b}1\""),
        ] {
            let told = refused(list);
            assert!(told.starts_with(expected), "{list:?}: {told}");
        }
    }

    #[test]
    fn fault_quotes_the_beginning_of_an_endless_word() {
        assert!(refused(&format!("a:1 {}", "9".repeat(1 << 20))).len() < 200);
    }
}
