//! Topics: what they may be, and what a match needs to know of one.

use std::cell::OnceCell;

use url::Url;

use crate::HubUrl;

/// A topic that selectors are tried on. Its URL is read once, when the first selector asks.
#[derive(Debug)]
pub struct Topic<'t> {
    text: &'t str,
    whole: OnceCell<Option<Box<UrlParts>>>,
    /// The first relative reading, with the address that it was read from.
    relative: OnceCell<(HubUrl, Option<Box<UrlParts>>)>,
}

impl<'t> Topic<'t> {
    /// A topic; nothing is looked at yet.
    pub fn new(text: &'t str) -> Topic<'t> {
        Topic { text, whole: OnceCell::new(), relative: OnceCell::new() }
    }

    /// The topic as it was published.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Shows `see` the topic as a URL, seen from `hub`. A topic that is a whole URL is the same
    /// from everywhere and read once; another is read once for the first address, and anew each
    /// time for others.
    pub(crate) fn with_url<R>(&self, hub: &HubUrl, see: impl FnOnce(&UrlParts) -> R) -> Option<R> {
        let whole = self.whole.get_or_init(|| whole_url(self.text).map(UrlParts::boxed));
        if let Some(parts) = whole {
            return Some(see(parts));
        }
        let read = || hub.resolve(self.text).map(UrlParts::boxed);
        let (of, parts) = self.relative.get_or_init(|| (hub.clone(), read()));
        if of == hub {
            return parts.as_deref().map(see);
        }
        read().as_deref().map(see)
    }
}

/// What URL patterns look at, each part on its own, and the text by which they are grouped.
#[derive(Debug)]
pub(crate) struct UrlParts {
    pub(crate) url: Url,
    pub(crate) grouping: String,
}

impl UrlParts {
    fn boxed(url: Url) -> Box<UrlParts> {
        let grouping = grouping_text(
            url.scheme(),
            url.host_str().unwrap_or_default(),
            url::quirks::port(&url),
            url.path(),
        );
        Box::new(UrlParts { url, grouping })
    }
}

/// Scheme, host, port and path as one text, by whose beginning patterns are grouped. Whoever is
/// named before the host is left out: a pattern does not look at it unless it names somebody.
pub(crate) fn grouping_text(scheme: &str, host: &str, port: &str, path: &str) -> String {
    format!("{scheme}\n{host}\n{port}\n{path}")
}

/// The URL that `text` is by itself, wherever it is read from. One such as `https:books`, without
/// slashes, is relative to an address of the same scheme (WHATWG URL, "special relative state").
fn whole_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_special = matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp" | "file");
    let rest = text.split_once(':').map_or("", |(_, rest)| rest);
    let slashes = rest.bytes().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
    (!is_special || slashes >= 2).then_some(url)
}

/// Whether a text of 1.0 has a character that neither a topic nor a matcher may have.
pub(crate) fn has_forbidden(text: &str) -> bool {
    text.chars().any(|letter| letter.is_control() || is_format(letter))
}

/// The characters of Unicode's category `Cf`, version 15: they have no shape of their own, so two
/// texts with and without one look the same. In ranges, from `DerivedGeneralCategory.txt`.
const FORMAT: [(u32, u32); 21] = [
    (0x00AD, 0x00AD),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0001, 0xE0001),
    (0xE0020, 0xE007F),
];

fn is_format(letter: char) -> bool {
    let code = u32::from(letter);
    code >= FORMAT[0].0 && FORMAT.iter().any(|&(from, to)| (from..=to).contains(&code))
}
