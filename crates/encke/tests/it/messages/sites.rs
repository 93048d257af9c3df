//! Where the program's source makes messages: the texts with a space in them that stand within what
//! makes an error. A text is known in what was said by its parts around `{…}`, in their order.

use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// What makes a message, up to the bracket that opens it.
const CALLS: [&str; 14] = [
    "anyhow!(",
    "bail!(",
    "ensure!(",
    "#[error(",
    ".context(",
    "with_context(",
    "map_err(",
    "ok_or(",
    "ok_or_else(",
    "Err(",
    "UsageError(",
    "complain(",
    "fn no_answer(",
    "fn cannot(",
];

/// Closures and texts that are made errors of further down.
const BOUND: [&str; 9] =
    ["cannot", "form", "hint", "late", "none", "odd", "silent", "unknown", "wrong"];

/// One message.
pub(super) struct Site {
    /// Below the program's `src`.
    file: String,
    text: String,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.file, self.text)
    }
}

impl Site {
    /// Whether it is in one of the texts.
    pub(super) fn is_said(&self, said: &[String]) -> bool {
        said.iter().any(|said| {
            let mut rest = said.as_str();
            parts(&self.text).all(|part| match rest.split_once(part) {
                Some((_, behind)) => {
                    rest = behind;
                    true
                }
                None => false,
            })
        })
    }

    pub(super) fn is_at(&self, file: &str, start: &str) -> bool {
        self.file == file && self.text.starts_with(start)
    }
}

/// What stands around `{…}`.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split('{').enumerate();
    pieces.map(|(n, piece)| match n {
        0 => piece,
        _ => piece.split_once('}').map_or(piece, |(_, behind)| behind),
    })
}

/// All messages of the program.
pub(super) fn all() -> Vec<Site> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sites = Vec::new();
    for path in sources(&root) {
        let source = fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        sites.extend(texts(source).into_iter().map(|text| Site { file: file.clone(), text }));
    }
    assert!(sites.len() > 100, "only {} messages were found: see CALLS", sites.len());
    sites
}

/// Whether a test or a function of that name is in these tests or beside the program's source.
pub(super) fn has_function(name: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = format!("fn {name}(");
    let files = ["src", "tests"].map(|folder| sources(&root.join(folder)));
    files.iter().flatten().any(|path| fs::read_to_string(path).unwrap().contains(&made))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The messages in a source, each once.
fn texts(source: &str) -> Vec<String> {
    let starts = CALLS.iter().map(|call| (*call).to_owned());
    let bound = BOUND.iter().map(|name| format!("let {name} = "));
    let mut found: Vec<(usize, String)> = Vec::new();
    for start in starts.chain(bound) {
        for (at, _) in source.match_indices(&start) {
            let from = at + start.len();
            let body = if start.starts_with("fn ") { function(source, from) } else { from };
            found.extend(literals(source, body));
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, text)| text).collect()
}

/// Behind the brace that opens the body of the function whose arguments begin at `from`.
fn function(source: &str, from: usize) -> usize {
    source[from..].find('{').map_or(source.len(), |at| from + at + 1)
}

/// The texts with a space from `from` on, to where the brackets around that close or its statement
/// ends, each with its place.
fn literals(source: &str, from: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut depth, mut at) = (0, from);
    while let Some(c) = source[at..].chars().next() {
        match c {
            '"' => {
                let (text, end) = literal(source, at + 1);
                found.extend(text.contains(' ').then_some((at, text)));
                at = end;
                continue;
            }
            // A character, not a lifetime.
            '\'' if source[at + 1..].chars().nth(1) == Some('\'') => {
                at += 1 + source[at + 1..].chars().next().map_or(0, char::len_utf8);
            }
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' if depth == 0 => break,
            ')' | '}' | ']' => depth -= 1,
            ';' if depth == 0 => break,
            '/' if source[at..].starts_with("//") => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    found
}

/// The text that begins at `from`, as it is at run time, and where it is over.
fn literal(source: &str, from: usize) -> (String, usize) {
    let mut text = String::new();
    let mut chars = source[from..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, from + at + 1),
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                // The line goes on behind the blanks of the next one.
                Some((at, '\n')) => {
                    let blanks = source[from + at + 1..].chars().take_while(|c| *c == ' ').count();
                    iter::repeat_with(|| chars.next()).take(blanks).for_each(drop);
                }
                Some((_, other)) => text.push(other),
                None => break,
            },
            c => text.push(c),
        }
    }
    (text, source.len())
}

#[test]
fn messages_are_found_where_errors_are_made() {
    let source = "fn a() {\n    bail!(\"no {name:?} (\\\"x\\\"): \\\n           do so\", f(')'));\n\
                  say(\"all is well\")\n}\nlet wrong = || format!(\"{text} is wrong\");\n\
                  fn no_answer(u: &U) -> String {\n    \"no answer\".into()\n}\n\
                  x.context(\"word\").y(\"not an error\")\n";
    let found = texts(source);
    assert_eq!(found, ["no {name:?} (\"x\"): do so", "{text} is wrong", "no answer"]);
    let site = |text: &str| Site { file: "a.rs".into(), text: text.into() };
    let said = ["encke: no b (\"x\"): do so".to_owned()];
    assert!(site(&found[0]).is_said(&said) && !site(&found[1]).is_said(&said));
    assert!(!site("do so: no {}").is_said(&said), "the parts are in order");
}
