//! A regular expression that is compiled when it is first needed, and has a bound on its size.

use std::sync::OnceLock;

use urlpattern::RegexSyntax;
use urlpattern::regexp::RegExp;

use crate::limits::{REGEX_CACHE_BYTES_MAX, REGEX_SIZES};

/// The library makes one for each part of a URL and then compares most parts without it.
#[derive(Debug)]
pub(super) struct Bounded {
    source: String,
    compiled: OnceLock<Option<(Compiled, usize)>>,
}

#[derive(Debug)]
enum Compiled {
    /// The parts of a URL are ASCII, and so are nearly all expressions: a tenth of the size.
    Ascii(regex::bytes::Regex),
    /// One that names classes of Unicode.
    Unicode(regex::Regex),
}

impl Bounded {
    /// For how many patterns it counts; `None` if it cannot be compiled within its bound.
    pub(super) fn cost(&self) -> Option<usize> {
        self.compiled().map(|(_, cost)| *cost)
    }

    fn compiled(&self) -> Option<&(Compiled, usize)> {
        self.compiled.get_or_init(|| compile(&self.source)).as_ref()
    }
}

/// Compiles it within the smallest bound that it fits into. The library does not say how large a
/// program is.
fn compile(source: &str) -> Option<(Compiled, usize)> {
    let ascii = |bytes_max| {
        let mut builder = regex::bytes::RegexBuilder::new(source);
        builder.unicode(false).size_limit(bytes_max).dfa_size_limit(REGEX_CACHE_BYTES_MAX);
        builder.build().map(Compiled::Ascii)
    };
    let unicode = |bytes_max| {
        let mut builder = regex::RegexBuilder::new(source);
        builder.size_limit(bytes_max).dfa_size_limit(REGEX_CACHE_BYTES_MAX);
        builder.build().map(Compiled::Unicode)
    };
    smallest(&ascii).or_else(|| smallest(&unicode))
}

/// What `compile` makes within the smallest bound, with what that counts for. A syntax that it does
/// not know no other bound helps.
fn smallest(
    compile: &dyn Fn(usize) -> Result<Compiled, regex::Error>,
) -> Option<(Compiled, usize)> {
    for (bytes_max, cost) in REGEX_SIZES {
        match compile(bytes_max) {
            Ok(compiled) => return Some((compiled, cost)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return None,
        }
    }
    None
}

impl RegExp for Bounded {
    fn syntax() -> RegexSyntax {
        RegexSyntax::Rust
    }

    fn parse(pattern: &str, _: &str, _: bool) -> Result<Bounded, ()> {
        Ok(Bounded { source: pattern.to_owned(), compiled: OnceLock::new() })
    }

    /// What the groups matched is of no use here.
    fn matches<'a>(&self, text: &'a str) -> Option<Vec<Option<&'a str>>> {
        let is_match = match &self.compiled()?.0 {
            Compiled::Ascii(regex) => regex.is_match(text.as_bytes()),
            Compiled::Unicode(regex) => regex.is_match(text),
        };
        is_match.then(Vec::new)
    }

    fn pattern_string(&self) -> &str {
        &self.source
    }
}
