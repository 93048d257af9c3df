//! URL patterns (WHATWG) as matchers of 1.0, by the crate `urlpattern`.
//!
//! Pattern and topic are both resolved against the hub's address. Each part of a URL has a matcher
//! of its own, most of them a comparison. The rest are regular expressions of the crate `regex`,
//! which takes linear time, with a bound on their size. What `regex` has not and JavaScript has,
//! such as looking ahead, is an invalid pattern.

mod bounded;

use bounded::Bounded;
use urlpattern::component::Component;
use urlpattern::matcher::{InnerMatcher, Matcher};
use urlpattern::{UrlPatternInit, UrlPatternOptions};

use crate::HubUrl;
use crate::limits::{ANY_HOST_COST, GROUPS_MAX, PLAIN_GROUPS_MAX};
use crate::topic::{UrlParts, grouping_text};

type LibraryPattern = urlpattern::UrlPattern<Bounded>;

/// A compiled pattern and the address that it is relative to.
#[derive(Debug)]
pub(crate) struct UrlPattern {
    hub: HubUrl,
    /// Scheme, user, password, host, port, path, query, fragment.
    parts: [Matcher<Bounded>; 8],
    literal: String,
    inside: Box<str>,
    /// For how much its regular expressions count.
    compile_cost: usize,
    /// Whether it may take long to try.
    is_costly: bool,
}

impl UrlPattern {
    /// Reads a pattern, seen from `hub`.
    ///
    /// # Errors
    /// It is none, as the sentence says.
    pub(crate) fn parse(text: &str, hub: &HubUrl) -> Result<UrlPattern, String> {
        let groups = text.bytes().filter(|byte| matches!(byte, b':' | b'(' | b'{' | b'*')).count();
        if groups > GROUPS_MAX {
            return Err(format!("it has more than {GROUPS_MAX} groups and wildcards"));
        }
        let base = hub.url().clone();
        let init = UrlPatternInit::parse_constructor_string::<Bounded>(text, Some(base));
        let init = init.map_err(|fault| fault.to_string())?;
        let options = UrlPatternOptions::default();
        let pattern = LibraryPattern::parse(init, options).map_err(|fault| fault.to_string())?;
        let inside = inside(&pattern.pathname.pattern_string).into();
        let parts = matchers(pattern);
        let costs = parts.iter().map(regex_cost);
        let compile_cost = costs.sum::<Option<usize>>();
        let compile_cost =
            compile_cost.ok_or("a regular expression in it is invalid or too large")?;
        let is_costly = compile_cost > 0 && (groups > PLAIN_GROUPS_MAX || text.contains('('));
        let literal = literal(&parts);
        let hub = hub.clone();
        Ok(UrlPattern { hub, parts, literal, inside, compile_cost, is_costly })
    }

    /// For how much its regular expressions count, which were compiled to read it.
    pub(crate) fn compile_cost(&self) -> usize {
        self.compile_cost
    }

    /// For how much those count that may take long to try.
    pub(crate) fn regex_cost(&self) -> usize {
        if self.is_costly { self.compile_cost } else { 0 }
    }

    /// For how many patterns it counts.
    pub(crate) fn cost(&self) -> usize {
        // Behind the host is a line break of the grouping text.
        let is_of_any_host = self.literal.matches('\n').count() < 2;
        if is_of_any_host { ANY_HOST_COST } else { 1 }
    }

    /// The address that pattern and topic are relative to.
    pub(crate) fn hub(&self) -> &HubUrl {
        &self.hub
    }

    /// What the grouping text of every match begins with.
    pub(crate) fn literal(&self) -> &str {
        &self.literal
    }

    /// What the grouping text of every match ends with, as far as it is known: the path's end.
    pub(crate) fn end(&self) -> &str {
        let [_, _, _, _, _, path, ..] = &self.parts;
        &path.suffix
    }

    /// The longest text that stands inside the path of every match, as far as it is known.
    pub(crate) fn inside(&self) -> &str {
        &self.inside
    }

    /// Whether a topic, seen from the same address, matches.
    pub(crate) fn matches(&self, topic: &UrlParts) -> bool {
        let url = &topic.url;
        let [scheme, user, password, host, port, path, query, fragment] = &self.parts;
        let has = |part: &Matcher<Bounded>, text: &str| part.matches(text).is_some();
        has(path, url.path())
            && has(host, url.host_str().unwrap_or_default())
            && has(scheme, url.scheme())
            && has(port, url::quirks::port(url))
            && has(query, url.query().unwrap_or_default())
            && has(fragment, url.fragment().unwrap_or_default())
            && has(user, url.username())
            && has(password, url.password().unwrap_or_default())
    }
}

/// Takes the matchers out of a pattern; the rest of it is for those who want to know what each
/// group matched.
fn matchers(pattern: LibraryPattern) -> [Matcher<Bounded>; 8] {
    let LibraryPattern { protocol, username, password, hostname, port, pathname, search, hash } =
        pattern;
    [protocol, username, password, hostname, port, pathname, search, hash]
        .map(|part: Component<Bounded>| part.matcher)
}

/// For how much the regular expression of a part counts; `None` if it is none.
fn regex_cost(part: &Matcher<Bounded>) -> Option<usize> {
    match &part.inner {
        InnerMatcher::RegExp { regexp } => regexp.as_ref().ok().and_then(Bounded::cost),
        InnerMatcher::Literal { .. } | InnerMatcher::SingleCapture { .. } => Some(0),
    }
}

/// The whole of a part, or what it begins with.
fn known(part: &Matcher<Bounded>) -> Result<String, &str> {
    match &part.inner {
        InnerMatcher::Literal { literal } => Ok(format!("{}{literal}{}", part.prefix, part.suffix)),
        InnerMatcher::SingleCapture { .. } | InnerMatcher::RegExp { .. } => Err(&part.prefix),
    }
}

fn literal(parts: &[Matcher<Bounded>; 8]) -> String {
    let [scheme, _, _, host, port, path, ..] = parts;
    let (scheme, host, port) = match (known(scheme), known(host), known(port)) {
        (Ok(scheme), Ok(host), Ok(port)) => (scheme, host, port),
        (Ok(scheme), Ok(host), Err(port)) => return format!("{scheme}\n{host}\n{port}"),
        (Ok(scheme), Err(host), _) => return format!("{scheme}\n{host}"),
        (Err(scheme), ..) => return scheme.to_owned(),
    };
    match known(path) {
        Ok(path) => grouping_text(&scheme, &host, &port, &path),
        Err(path) => grouping_text(&scheme, &host, &port, path),
    }
}

/// The longest text between two names of a pattern (`/:a/books/:b`), as the library writes it. Of
/// one that has anything else but names and text, none is known.
fn inside(pattern: &str) -> &str {
    if pattern.contains(['{', '}', '(', ')', '*', '+', '?', '\\']) {
        return "";
    }
    let mut behind_names: Vec<&str> = pattern.split(':').skip(1).collect();
    // The path ends with what is behind the last one.
    behind_names.pop();
    // A name has more letters than ASCII's: behind those, less of the text is known.
    let ends_name = |letter: char| letter.is_ascii_punctuation() && !matches!(letter, '_' | '$');
    let texts = behind_names.into_iter().filter_map(|text| Some(&text[text.find(ends_name)?..]));
    texts.max_by_key(|text| text.len()).unwrap_or_default()
}
