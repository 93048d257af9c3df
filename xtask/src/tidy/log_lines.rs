//! This is the rule that the page of log lines has each warning and each error that the server can
//! log. An operator who meets one at night should find what it means, and what to do.
//!
//! A line is looked for by a piece of its text that is the same each time. What a line
//! says in a variable alone (`warn!("{error}")`) is not looked for.

use super::tree::{Fault, Tree};

/// The page that has them all.
const PAGE: &str = "docs/log-lines.md";

/// The macros that log what somebody should look at.
const MACROS: [&str; 2] = ["warn!(", "error!("];

/// So much of a piece is looked for, in bytes: the page need not repeat a long line.
const LOOKED_FOR: usize = 28;

/// A piece that is as long is known by itself.
const LONG: usize = 16;

/// Shorter pieces say nothing.
const SHORTEST: usize = 8;

pub(super) fn on_their_page(tree: &Tree) -> Vec<Fault> {
    let page = tree.find(PAGE).map(|page| page.text.as_str()).unwrap_or_default();
    let mut faults = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with("crates/")) {
        let until = file.tests_from();
        let code: Vec<&str> =
            file.text.lines().take(until.saturating_sub(1)).map(without_comment).collect();
        let code = code.join("\n");
        for (at, name) in MACROS.iter().flat_map(|name| code.match_indices(name)) {
            let Some(text) = first_text(&code[at + name.len()..]) else { continue };
            let piece = looked_for(&text);
            if piece.len() >= SHORTEST && !page.contains(piece) {
                let line = 1 + code[..at].matches('\n').count();
                faults.push(file.fault(line, format!("{PAGE} does not say what {piece:?} means")));
            }
        }
    }
    faults
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") { "" } else { line }
}

/// The first string of a macro's arguments, as it is written, in one line.
fn first_text(arguments: &str) -> Option<String> {
    let begin = arguments.find('"')? + 1;
    let is_of_another = arguments[..begin].contains(';');
    let mut text = String::new();
    let mut rest = arguments[begin..].chars().peekable();
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => match rest.next()? {
                '\n' => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                escaped => text.push(escaped),
            },
            other => text.push(other),
        }
    }
    (!is_of_another).then_some(text)
}

/// What is looked for of a format's text: the beginning of its first long piece between braces, or
/// of its longest, up to where a clause ends.
fn looked_for(text: &str) -> &str {
    let pieces = || {
        text.split('{').enumerate().map(|(at, part)| match part.split_once('}') {
            Some((_, piece)) if at > 0 => piece,
            _ => part,
        })
    };
    let longest = || pieces().max_by_key(|piece| piece.len());
    let piece = pieces().find(|piece| piece.len() >= LONG).or_else(longest).unwrap_or_default();
    let piece = piece.trim_matches(|c: char| !c.is_alphanumeric() && c != '-');
    let clause = piece.find(['(', ':', ';']).filter(|end| *end >= SHORTEST);
    let most = clause.unwrap_or(piece.len()).min(LOOKED_FOR);
    let end = (0..=most).rev().find(|end| piece.is_char_boundary(*end));
    piece[..end.unwrap_or_default()].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(code: &str) -> Vec<String> {
        let page = "| `the disk of … is nearly full: …` | make room |\n";
        let tree = Tree::of(&[("crates/a/src/b.rs", code), (PAGE, page)]);
        on_their_page(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn line_that_the_page_lacks_is_found() {
        let known = "fn f() {\n    warn!(\n        %error,\n        \"the disk of {name} is \\\n  \
                     nearly full: {error}\"\n    );\n}\n";
        assert_eq!(faults(known), [""; 0]);
        assert_eq!(faults("// warn!(\"the disk is gone\")\nerror!(\"{error}\");\n"), [""; 0]);
        let found = faults("fn f() {\n    error!(\"the disk {name} is gone for ever\");\n}\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/b.rs:2: "), "{}", found[0]);
        assert!(found[0].contains("\"is gone for ever\""), "{}", found[0]);
        let test = "#[cfg(test)]\nmod tests {\n    warn!(\"nobody looks for this\");\n}\n";
        assert_eq!(faults(test), [""; 0]);
    }

    #[test]
    fn piece_that_is_known_by_itself_is_looked_for() {
        let tried_again = "there is no more of it: {a}; it is tried again";
        assert_eq!(looked_for("{a}: it is {b}, and more of it {c}"), "and more of it");
        assert_eq!(looked_for("{a} is said at first {b}, and more later on"), "is said at first");
        assert_eq!(looked_for(tried_again), "there is no more of it");
        assert_eq!(looked_for("all of a long line is not there"), "all of a long line is not th");
        assert_eq!(looked_for("{}"), "");
    }
}
