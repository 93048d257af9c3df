//! This is the rule about links in documents (CommonMark, with the tables and footnotes of code
//! hosts). Each leads to a file, a folder or a heading of the project, or has the form of a web
//! address. Whether a web address answers is not asked: that changes without the project.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{BrokenLink, CowStr, Event, Options, Parser, Tag, TagEnd};

use super::tree::{Fault, File, Tree};

pub(super) fn links(tree: &Tree) -> Vec<Fault> {
    let documents = || tree.files().iter().filter(|file| file.is_markdown());
    let pages: BTreeMap<&str, Page> =
        documents().map(|file| (file.path.as_str(), Page::read(&file.text))).collect();
    let mut faults = Vec::new();
    for file in documents() {
        let page = &pages[file.path.as_str()];
        for (at, link) in &page.links {
            if let Some(what) = broken(tree, &pages, file, link) {
                faults.push(file.fault(line_at(&file.text, at.start), what));
            }
        }
        for (at, reference) in &page.undefined {
            let what = format!("the link [{reference}] is not defined");
            faults.push(file.fault(line_at(&file.text, at.start), what));
        }
    }
    faults
}

/// What a document links to, and what in it can be linked to.
#[derive(Default)]
struct Page {
    links: Vec<(Range<usize>, String)>,
    /// References for which nothing says where they lead.
    undefined: Vec<(Range<usize>, String)>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(text: &str) -> Page {
        let mut undefined = Vec::new();
        let note_undefined = |link: BrokenLink<'_>| -> Option<(CowStr<'_>, CowStr<'_>)> {
            // `[x]` alone is text in brackets; `[x][y]` and `[x][]` mean to be links.
            if text[link.span.clone()].contains("][") {
                undefined.push((link.span, link.reference.to_string()));
            }
            None
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        let parser = Parser::new_with_broken_link_callback(text, options, Some(note_undefined));
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for (event, at) in parser.into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((at, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.add_heading(&heading.take().unwrap_or_default())
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Html(html) | Event::InlineHtml(html) => page.anchors.extend(ids(&html)),
                _ => {}
            }
        }
        page.undefined = undefined;
        page
    }

    /// The second heading of a name is linked to by `name-1`, the third by `name-2`.
    fn add_heading(&mut self, heading: &str) {
        let name = anchor(heading);
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        self.anchors.extend(names.find(|name| !self.anchors.contains(name)));
    }
}

/// The names that elements of HTML have: `<a id="here">`.
fn ids(html: &str) -> impl Iterator<Item = String> {
    let values = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    values.map(str::to_owned)
}

/// What is wrong with `link` in the file `from`.
fn broken(tree: &Tree, pages: &BTreeMap<&str, Page>, from: &File, link: &str) -> Option<String> {
    if let Some((scheme, rest)) = link.split_once(':') {
        let is_address = matches!(scheme, "http" | "https") && is_web_address(rest);
        return (!is_address).then(|| format!("{link} is no address of the web"));
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => from.path.clone(),
        path => match resolve(&from.path, path) {
            Some(target) => target,
            None => return Some(format!("the link {link} leads out of the project")),
        },
    };
    if !target.is_empty() && !tree.has(&target) {
        return Some(format!("the link leads to {target}, which is not there"));
    }
    if heading.is_empty() {
        return None;
    }
    let is_there = pages.get(target.as_str()).is_some_and(|page| page.anchors.contains(heading));
    (!is_there).then(|| format!("{target} has no heading #{heading}"))
}

/// Whether what follows the scheme is a host and perhaps a path in plain characters (RFC 3986).
fn is_web_address(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    !host.is_empty() && !host.starts_with(['.', ':']) && rest.bytes().all(plain)
}

/// The path from the root to which `link` leads from the file `from`.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The name by which a heading is linked to, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept =
        heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The number of the line, from 1, in which the byte `at` is.
fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a file `path` with this text, beside another document.
    fn faults(path: &str, text: &str) -> Vec<String> {
        let other = "# Other\n\n## One turn, of `it`\n\n## Twice\n\n## Twice\n\n<a id=\"x\"></a>\n";
        let tree = Tree::of(&[(path, text), ("docs/other.md", other)]);
        links(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn link_to_nowhere_is_caught() {
        assert_eq!(faults("README.md", "[a](docs/other.md) [b](docs/)"), [""; 0]);
        assert_eq!(faults("docs/a.md", "[a](other.md) [b](../docs/other.md) [c](..)"), [""; 0]);
        let caught = faults("docs/a.md", "One.\n\n[a](docs/other.md)");
        assert_eq!(
            caught,
            ["docs/a.md:3: the link leads to docs/docs/other.md, which is not there"]
        );
        assert_eq!(faults("docs/a.md", "![a](picture.svg)").len(), 1);
        assert_eq!(faults("docs/a.md", "[a](../../other.md)").len(), 1, "out of the project");
    }

    #[test]
    fn link_over_two_lines_and_link_by_reference_are_read() {
        assert_eq!(faults("README.md", "[over two\nlines](none.md)").len(), 1);
        assert_eq!(faults("README.md", "[a][b]\n\n[b]: none.md").len(), 1);
        assert_eq!(faults("README.md", "[a][b]\n\n[b]: docs/other.md"), [""; 0]);
        assert_eq!(faults("README.md", "[a][b]"), ["README.md:1: the link [b] is not defined"]);
        assert_eq!(faults("README.md", "an array [a] and `[a][b]` and `[a](b)`"), [""; 0]);
        assert_eq!(faults("README.md", "```\n[a](b)\n```"), [""; 0], "code has no links");
    }

    #[test]
    fn link_to_a_heading_that_is_not_there_is_caught() {
        for there in ["one-turn-of-it", "twice", "twice-1", "x"] {
            assert_eq!(faults("README.md", &format!("[a](docs/other.md#{there})")), [""; 0]);
        }
        for gone in ["two", "twice-2", "One-turn-of-it"] {
            assert_eq!(faults("README.md", &format!("[a](docs/other.md#{gone})")).len(), 1);
        }
        assert_eq!(faults("README.md", "# Here\n[a](#here) [b](#there)").len(), 1);
        assert_eq!(faults("README.md", "```\n# Here\n```\n[a](#here)").len(), 1, "it is code");
        assert_eq!(faults("README.md", "[a](docs/#x)").len(), 1, "a folder has no headings");
    }

    #[test]
    fn address_without_its_form_is_caught() {
        let good = "<https://h.example/a?b#c> [a](http://[::1]:8000/) [b](https://h.example)";
        assert_eq!(faults("README.md", good), [""; 0]);
        for bad in ["https:/h.example", "https://", "htps://h.example", "<https://h.example/a b>"] {
            assert_eq!(faults("README.md", &format!("[a]({bad})")).len(), 1, "{bad}");
        }
    }
}
