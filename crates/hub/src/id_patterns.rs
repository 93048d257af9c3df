//! Which ids somebody may use: some as they are, and all that begin in a certain way. Paths of
//! durable streams are listed in the same form.

use thiserror::Error;

use crate::id::IdText;

/// The most ids and prefixes in one list.
pub const PATTERNS_MAX: usize = 256;
/// The most prefixes: each of them is looked at for each id that is asked for.
const PREFIXES_MAX: usize = 32;

/// The longest path of a durable stream, in bytes.
pub const PATH_BYTES_MAX: usize = 1_024;

/// A list of ids and of beginnings of ids.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdPatterns {
    /// Ids as they are, in order.
    ids: Box<[Box<str>]>,
    /// Each id that begins with one of these.
    prefixes: Box<[Box<str>]>,
}

/// Why a list is refused: one of it is no id and no beginning of one, or it is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "at most {PATTERNS_MAX} ids, of which at most {PREFIXES_MAX} end in * and stand for all that \
     begin so"
)]
pub struct BadPatterns;

/// Whether a token can grant this path of a durable stream.
pub fn is_path(path: &str) -> bool {
    (1..=PATH_BYTES_MAX).contains(&path.len()) && !path.contains(char::is_control)
}

impl IdPatterns {
    /// The list of these texts: an id, or with `*` at its end all ids that begin so.
    ///
    /// # Errors
    ///
    /// [`BadPatterns`].
    pub fn parse(texts: impl IntoIterator<Item = Box<str>>) -> Result<IdPatterns, BadPatterns> {
        IdPatterns::parse_if(|id| IdText::parse(id).is_ok(), texts)
    }

    /// The list of these paths of durable streams, in the same form.
    ///
    /// # Errors
    ///
    /// [`BadPatterns`].
    pub fn parse_paths(
        texts: impl IntoIterator<Item = Box<str>>,
    ) -> Result<IdPatterns, BadPatterns> {
        IdPatterns::parse_if(is_path, texts)
    }

    /// The list of these names of ids, topics or channels, in the same form: no white space.
    ///
    /// # Errors
    ///
    /// [`BadPatterns`].
    pub fn parse_names(
        texts: impl IntoIterator<Item = Box<str>>,
    ) -> Result<IdPatterns, BadPatterns> {
        let is_name = |name: &str| is_path(name) && !name.contains(char::is_whitespace);
        IdPatterns::parse_if(is_name, texts)
    }

    fn parse_if(
        valid: impl Fn(&str) -> bool,
        texts: impl IntoIterator<Item = Box<str>>,
    ) -> Result<IdPatterns, BadPatterns> {
        let (mut ids, mut prefixes) = (Vec::new(), Vec::<Box<str>>::new());
        for text in texts {
            match text.strip_suffix('*') {
                Some(prefix) if prefix.is_empty() || valid(prefix) => prefixes.push(prefix.into()),
                None if valid(&text) => ids.push(text),
                _ => return Err(BadPatterns),
            }
            if ids.len() + prefixes.len() > PATTERNS_MAX || prefixes.len() > PREFIXES_MAX {
                return Err(BadPatterns);
            }
        }
        ids.sort_unstable();
        Ok(IdPatterns { ids: ids.into(), prefixes: prefixes.into() })
    }

    /// Whether `id` is one of them.
    pub fn allows(&self, id: &str) -> bool {
        self.ids.binary_search_by(|listed| (**listed).cmp(id)).is_ok()
            || self.prefixes.iter().any(|prefix| id.starts_with(&**prefix))
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many are in it.
    pub fn len(&self) -> usize {
        self.ids.len() + self.prefixes.len()
    }

    /// The texts that [`IdPatterns::parse`] makes the list of again.
    pub fn texts(&self) -> impl Iterator<Item = Box<str>> {
        let prefixes = self.prefixes.iter().map(|prefix| format!("{prefix}*").into());
        self.ids.iter().cloned().chain(prefixes)
    }

    /// The bytes that it takes up beside itself, each text with `overhead` of its own.
    pub fn bytes(&self, overhead: usize) -> usize {
        let texts = self.ids.iter().chain(&self.prefixes);
        texts.map(|text| size_of::<Box<str>>() + text.len() + overhead).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<IdPatterns, BadPatterns> {
        IdPatterns::parse(texts.iter().map(|&text| text.into()))
    }

    #[test]
    fn list_allows_its_ids_and_what_begins_with_its_prefixes() {
        let list = parse(&["room:*", "news", "chess"]).unwrap();
        for id in ["chess", "news", "room:", "room:1"] {
            assert!(list.allows(id), "{id}");
        }
        for id in ["bob", "new", "newsy", "room", "Room:1", ""] {
            assert!(!list.allows(id), "{id}");
        }
        assert!(parse(&["*"]).unwrap().allows("anybody"), "* alone is everything");
        assert!(!IdPatterns::default().allows("bob"));
        let texts: Vec<_> = list.texts().collect();
        assert_eq!(texts, ["chess", "news", "room:*"].map(Box::<str>::from));
        assert_eq!(IdPatterns::parse(texts), Ok(list));
    }

    #[test]
    fn paths_have_what_no_id_has() {
        let paths = |texts: &[&str]| IdPatterns::parse_paths(texts.iter().map(|&text| text.into()));
        let list = paths(&["run/7", "jobs/*"]).unwrap();
        assert!(list.allows("run/7") && list.allows("jobs/1/log") && !list.allows("run/77"));
        assert_eq!(IdPatterns::parse_paths(list.texts()), Ok(list));
        for wrong in ["", "a\nb", &"p".repeat(PATH_BYTES_MAX + 1)] {
            assert_eq!(paths(&[wrong]), Err(BadPatterns), "{wrong:?}");
        }
    }

    #[test]
    fn names_are_those_of_topics_too() {
        let names = |text: &str| IdPatterns::parse_names([text.into()]);
        let list = names("https://a.test/b?x=1#y*").unwrap();
        assert!(list.allows("https://a.test/b?x=1#y/z") && !list.allows("https://a.test/b"));
        for wrong in ["", "a b", "a\u{85}", "a b*"] {
            assert_eq!(names(wrong), Err(BadPatterns), "{wrong:?}");
        }
    }

    #[test]
    fn list_that_is_too_long_or_has_what_is_no_id_is_refused() {
        for wrong in ["", "a b", "a b*", "a/b"] {
            assert_eq!(parse(&[wrong]), Err(BadPatterns), "{wrong:?}");
        }
        let many = |most: usize, end: &str| {
            IdPatterns::parse((0..most).map(|n| format!("{n}{end}").into())).is_ok()
        };
        assert!(many(PATTERNS_MAX, "") && !many(PATTERNS_MAX + 1, ""));
        assert!(many(PREFIXES_MAX, "*") && !many(PREFIXES_MAX + 1, "*"));
    }
}
