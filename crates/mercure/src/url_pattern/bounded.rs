//! A regular expression that is compiled when it is first needed, and has a bound on its size.

use std::sync::OnceLock;

use urlpattern::RegexSyntax;
use urlpattern::regexp::RegExp;

use crate::limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX};

/// The library makes one for each part of a URL and then compares most parts without it.
#[derive(Debug)]
pub(super) struct Bounded {
    source: String,
    compiled: OnceLock<Option<Compiled>>,
}

#[derive(Debug)]
enum Compiled {
    /// The parts of a URL are ASCII, and so are nearly all expressions: a tenth of the size.
    Ascii(regex::bytes::Regex),
    /// One that names classes of Unicode.
    Unicode(regex::Regex),
}

impl Bounded {
    /// Whether it can be compiled within its bound.
    pub(super) fn is_valid(&self) -> bool {
        self.compiled().is_some()
    }

    fn compiled(&self) -> Option<&Compiled> {
        self.compiled.get_or_init(|| compile(&self.source)).as_ref()
    }
}

fn compile(source: &str) -> Option<Compiled> {
    let ascii = regex::bytes::RegexBuilder::new(source)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        .build();
    if let Ok(regex) = ascii {
        return Some(Compiled::Ascii(regex));
    }
    let unicode = regex::RegexBuilder::new(source)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        .build();
    unicode.ok().map(Compiled::Unicode)
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
        let is_match = match self.compiled()? {
            Compiled::Ascii(regex) => regex.is_match(text.as_bytes()),
            Compiled::Unicode(regex) => regex.is_match(text),
        };
        is_match.then(Vec::new)
    }

    fn pattern_string(&self) -> &str {
        &self.source
    }
}
