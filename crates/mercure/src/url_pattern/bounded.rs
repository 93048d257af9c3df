//! A regular expression that is compiled when it is first needed, and has a bound on its size.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};
use urlpattern::RegexSyntax;
use urlpattern::regexp::RegExp;

use crate::limits::{REGEX_CACHE_BYTES_MAX, REGEX_SIZES};

/// The library makes one for each part of a URL and then compares most parts without it.
#[derive(Debug)]
pub(super) struct Bounded {
    source: String,
    compiled: OnceLock<Option<(Regex, usize)>>,
}

impl Bounded {
    /// For how much it counts; `None` if it cannot be compiled within its bound.
    pub(super) fn cost(&self) -> Option<usize> {
        self.compiled().map(|(_, cost)| *cost)
    }

    fn compiled(&self) -> Option<&(Regex, usize)> {
        self.compiled.get_or_init(|| compile(&self.source)).as_ref()
    }
}

/// Compiles it within the smallest bound that it fits into: the library does not say how large a
/// program is. The parts of a URL are ASCII, so it knows no classes of Unicode, which are large.
fn compile(source: &str) -> Option<(Regex, usize)> {
    for (bytes_max, cost) in REGEX_SIZES {
        let mut builder = RegexBuilder::new(source);
        builder.unicode(false).size_limit(bytes_max).dfa_size_limit(REGEX_CACHE_BYTES_MAX);
        match builder.build() {
            Ok(regex) => return Some((regex, cost)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            // What it does not know no other bound helps.
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
        let is_match = self.compiled()?.0.is_match(text.as_bytes());
        is_match.then(Vec::new)
    }

    fn pattern_string(&self) -> &str {
        &self.source
    }
}
