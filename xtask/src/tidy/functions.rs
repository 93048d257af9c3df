//! The rules that functions are short and take few arguments, but for those listed. Tests are not
//! looked at: a story may be long.
//!
//! The text is as rustfmt writes it, so the end of a function is the brace below its beginning.

use super::tree::{Fault, File, Tree};

/// Lines of a function, its signature's but the first among them.
const LINES_MAX: usize = 70;

/// Arguments beside `self`.
const ARGUMENTS_MAX: usize = 5;

/// Files and functions.
type Listed = &'static [(&'static str, &'static str)];

/// Those that are longer. This list only shrinks.
const LONG: Listed = &[
    ("crates/engine/src/start.rs", "assemble"),
    ("crates/dispatch/src/cluster/node_loop/actions.rs", "act"),
    ("crates/server/src/start/control.rs", "new"),
];

/// Those that take more. This list only shrinks.
const MANY: Listed = &[
    ("crates/engine/src/router.rs", "new"),
    ("crates/engine/src/worker.rs", "new"),
    ("crates/erlang/src/control.rs", "watch"),
    ("crates/graph/src/open.rs", "new"),
    ("crates/load/src/plot/mod.rs", "draw_text"),
    ("crates/server/src/api/endpoints/send.rs", "send_one"),
    ("crates/dispatch/src/cluster/starting.rs", "start"),
    ("crates/gateway/src/lib.rs", "start"),
    ("crates/gateway/src/names.rs", "call"),
    ("crates/gateway/src/tasks.rs", "change"),
    ("crates/httpd/src/connection.rs", "serve"),
    ("crates/auth/src/keys/record.rs", "make"),
    ("crates/tls/src/cipher.rs", "seal_to"),
];

/// A function as its file has it.
struct Function<'f> {
    line: usize,
    name: &'f str,
    lines: usize,
    arguments: usize,
}

pub(super) fn lengths(tree: &Tree) -> Vec<Fault> {
    let over = |function: &Function<'_>| function.lines > LINES_MAX;
    let what = |function: &Function<'_>| {
        format!("{} has {} lines, at most {LINES_MAX}", function.name, function.lines)
    };
    faults(tree, LONG, over, what)
}

pub(super) fn arguments(tree: &Tree) -> Vec<Fault> {
    let over = |function: &Function<'_>| function.arguments > ARGUMENTS_MAX;
    let what = |function: &Function<'_>| {
        let Function { name, arguments, .. } = function;
        format!("{name} takes {arguments} arguments, at most {ARGUMENTS_MAX}: give it a struct")
    };
    faults(tree, MANY, over, what)
}

fn faults(
    tree: &Tree,
    listed: Listed,
    over: impl Fn(&Function<'_>) -> bool,
    what: impl Fn(&Function<'_>) -> String,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.rust() {
        let functions = functions(file);
        let mut left: Vec<&str> =
            listed.iter().filter(|(path, _)| *path == file.path).map(|(_, name)| *name).collect();
        for function in functions.iter().filter(|function| over(function)) {
            match left.iter().position(|name| *name == function.name) {
                Some(at) => drop(left.swap_remove(at)),
                None => faults.push(file.fault(function.line, what(function))),
            }
        }
        let gone =
            |name| format!("{name} is within the bound: take it off the list in functions.rs");
        faults.extend(left.into_iter().map(|name| file.fault(1, gone(name))));
    }
    faults
}

/// The functions of a file, but for its tests'.
fn functions(file: &File) -> Vec<Function<'_>> {
    let until = file.tests_from();
    let lines: Vec<&str> = file.text.lines().take(until.saturating_sub(1)).collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        let is_word = |word: &str| {
            let word = word.split('(').next().unwrap_or_default();
            ["pub", "const", "async", "unsafe", "extern"].contains(&word)
                || matches!(word, "\"C\"" | "crate)" | "super)" | "in")
        };
        if !before.split_whitespace().all(is_word) {
            continue;
        }
        let name =
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", &line[..indent]);
        let len = lines[at..].iter().position(|line| *line == end);
        let signature = lines[at..].join("\n");
        let signature = &signature[signature.find("fn ").unwrap_or_default()..];
        functions.push(Function {
            line: at + 1,
            name,
            lines: len.map_or(0, |len| len.saturating_sub(1)),
            arguments: arguments_of(signature),
        });
    }
    functions
}

/// How many arguments but `self` a signature has.
fn arguments_of(signature: &str) -> usize {
    let (mut brackets, mut angles, mut before) = (0, 0, ' ');
    let mut arguments = vec![String::new()];
    for c in signature.chars() {
        match c {
            // An arrow is no bracket.
            '>' if before != '-' => angles -= 1,
            '<' => angles += 1,
            ')' | ']' | '}' => brackets -= 1,
            _ => {}
        }
        before = c;
        let is_between = brackets == 1 && angles == 0;
        if c == ')' && brackets == 0 && angles == 0 {
            break;
        } else if c == ',' && is_between {
            arguments.push(String::new());
        } else if brackets > 0 && (angles == 0 || !arguments[0].is_empty()) {
            arguments.last_mut().expect("there is one").push(c);
        }
        brackets += i32::from(matches!(c, '(' | '[' | '{'));
    }
    // As `&'a mut self`, or `self: Arc<Self>`.
    let is_self = |argument: &str| {
        let name = argument.split(':').next().unwrap_or_default();
        name.trim_start_matches('&').split_whitespace().next_back() == Some("self")
    };
    arguments.iter().filter(|text| !text.trim().is_empty() && !is_self(text.trim())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, rule: fn(&Tree) -> Vec<Fault>) -> Vec<String> {
        let tree = Tree::of(&[("crates/x/src/a.rs", text)]);
        rule(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_function_is_found_and_a_test_may_be_long() {
        let long = |lines| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
        assert!(found(&long(70), lengths).is_empty());
        assert_eq!(found(&long(71), lengths).len(), 1);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long(100));
        assert!(found(&test, lengths).is_empty());
    }

    #[test]
    fn arguments_are_counted_without_self_and_what_stands_in_brackets() {
        for (signature, count) in [
            ("fn f() {", 0),
            ("fn f(&self) -> (u8, u8) {", 0),
            ("fn f(&'a mut self, a: u8) {", 1),
            ("fn f(itself: u8) {", 1),
            ("fn f<'a, T: A<u8, u8>>(a: &'a [u8], b: (u8, u8), c: impl Fn(u8, u8) -> u8) {", 3),
            ("fn f(\n    self: Pin<&mut Self>,\n    a: Map<u8, u8>,\n    B { c, d }: B,\n) {", 2),
        ] {
            assert_eq!(arguments_of(signature), count, "{signature}");
        }
        let six = "pub(crate) async fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {\n}\n";
        assert_eq!(found(six, arguments).len(), 1);
        assert!(found(&six.replace(", f: u8", ""), arguments).is_empty());
    }

    #[test]
    fn list_shrinks() {
        let tree = Tree::of(&[("crates/engine/src/start.rs", "fn assemble() {\n}\n")]);
        assert!(lengths(&tree)[0].to_string().contains("take it off"));
    }
}
