//! The rule that no test makes a second attempt inside itself and tells nobody: its chance to fail
//! would be hidden from the count of second tries.
//!
//! What is found is the plain form: a loop over a few fixed values, which stand in its head as a
//! list of numbers or as a range that ends at [`FEW`] or before, and that is left as soon as an
//! attempt is good: by `break` or `return` in an `if` of its own, or by `any`, `find` and
//! `find_map`. In it stands `tried_again`, or its file is listed. What is not found: a loop whose
//! end is a name, an attempt that is made again by a function that waits (a state that is looked at
//! again and again is no attempt), and a failure that is forgiven without a loop.

use super::tree::{Fault, File, Tree};

/// Which files have loops of that form that are no second attempts. This list only shrinks.
const COUNTED: [(&str, &str); 2] = [
    ("crates/encke/tests/it/address_limits.rs", "heads are sent until their bytes are too many"),
    ("crates/tls/tests/it/both.rs", "both sides write until neither has anything to say"),
];

/// What tells of a second attempt, in Rust and in TypeScript.
const TOLD: [&str; 2] = ["tried_again(", "triedAgain("];

/// A loop of more rounds is no loop of attempts.
const FEW: u32 = 20;

/// What is left as soon as one of them is good.
const SEARCHES: [&str; 3] = [".any(", ".find(", ".find_map("];

/// Lines of a loop that are read at most.
const LOOP_LINES_MAX: usize = 80;

const WHAT: &str = "a second attempt that nobody is told of: wait for the event itself, or say \
                    testing::tried_again";

pub(super) fn untold(tree: &Tree) -> Vec<Fault> {
    let files = tree.rust().filter(|file| !file.path.contains("/benches/"));
    files.flat_map(|file| faults(file, file.tests_from(), rust_head)).collect()
}

pub(super) fn untold_elsewhere(tree: &Tree) -> Vec<Fault> {
    let is_test = |file: &&File| super::clocks::is_foreign_test(&file.path);
    tree.foreign().filter(is_test).flat_map(|file| faults(file, 1, script_head)).collect()
}

fn faults(file: &File, from: usize, is_head: fn(&str) -> Option<Head>) -> Vec<Fault> {
    let lines: Vec<(usize, &str)> = file.lines().filter(|(number, _)| *number >= from).collect();
    let is_listed = COUNTED.iter().any(|(path, _)| *path == file.path);
    let untold = |at: &usize| {
        let Some(head) = is_head(lines[*at].1) else { return false };
        let all = body(&lines[*at..]);
        let told = all.iter().any(|line| TOLD.iter().any(|told| line.contains(told)));
        !told && (head == Head::Search || is_left_when_good(&all))
    };
    let found = (0..lines.len()).filter(untold).filter(|_| !is_listed);
    found.map(|at| file.fault(lines[at].0, WHAT)).collect()
}

/// How a loop begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// With a block, which may leave it.
    Block,
    /// As a search, which ends with what it finds.
    Search,
}

/// Whether a line of Rust begins a loop over a few values.
fn rust_head(line: &str) -> Option<Head> {
    let code = line.split("//").next().unwrap_or_default().trim();
    if let Some((_, over)) = code.strip_prefix("for ").and_then(|rest| rest.split_once(" in ")) {
        let block = code.ends_with('{') && is_few(over);
        return block.then_some(Head::Block);
    }
    let search = SEARCHES.iter().find_map(|search| code.split_once(search));
    let before = search?.0.trim_end_matches(".into_iter()");
    let over = match before.rfind(['(', '[']) {
        Some(at) if before[at..].starts_with('(') => before[at + 1..].strip_suffix(')')?,
        Some(at) => &before[at..],
        None => return None,
    };
    is_few(over).then_some(Head::Search)
}

/// Whether a line of TypeScript, Python or Go begins one.
fn script_head(line: &str) -> Option<Head> {
    let code = line.trim();
    let of_script = code.strip_prefix("for (const ").and_then(|rest| rest.split_once(" of "));
    let of_python = code.strip_prefix("for ").and_then(|rest| rest.split_once(" in "));
    let over = match (of_script, of_python) {
        (Some((_, over)), _) => over.trim_end_matches([' ', '{', ')']),
        (None, Some((_, over))) => {
            let over = over.trim_end_matches(':');
            over.strip_prefix("range(").map_or(over, |rest| rest.trim_end_matches(')'))
        }
        (None, None) => counted(code)?,
    };
    let few = is_number(over).is_some_and(|number| number <= FEW) || is_few(over);
    few.then_some(Head::Block)
}

/// Up to which number a line of TypeScript or Go counts.
fn counted(code: &str) -> Option<&str> {
    let (_, rest) = code.strip_prefix("for ")?.split_once(';')?;
    let (condition, _) = rest.split_once(';')?;
    condition.rsplit(['<', '=', ' ']).next()
}

/// Whether that is a list of numbers, or a range of a few.
fn is_few(over: &str) -> bool {
    if let Some(list) = over.strip_prefix('[') {
        let Some((list, _)) = list.split_once(']') else { return false };
        let mut values = list.split(',').map(str::trim).filter(|value| !value.is_empty());
        return values.clone().count() > 1 && values.all(|value| is_number(value).is_some());
    }
    let Some((_, to)) = over.split_once("..") else { return false };
    let to = to.trim_start_matches('=').trim_end_matches([' ', '{', ')']);
    is_number(to).is_some_and(|to| to <= FEW)
}

fn is_number(text: &str) -> Option<u32> {
    text.replace('_', "").parse().ok()
}

/// The loop that begins with the first line: up to a line that is no further in than that.
fn body<'t>(lines: &[(usize, &'t str)]) -> Vec<&'t str> {
    let indent = indent(lines[0].1);
    let is_in = |line: &&str| line.trim().is_empty() || self::indent(line) > indent;
    let rest = lines[1..].iter().map(|(_, line)| *line).take(LOOP_LINES_MAX).take_while(is_in);
    std::iter::once(lines[0].1).chain(rest).collect()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether an `if` that stands in the loop itself leaves it.
fn is_left_when_good(all: &[&str]) -> bool {
    let Some(step) = all.get(1).map(|line| indent(line)) else { return false };
    let mut in_if = false;
    all[1..].iter().any(|line| {
        let code = line.trim();
        if indent(line) <= step && !code.is_empty() {
            // `let … else { return }` leaves for another reason.
            in_if = code.starts_with("if ") || code.starts_with("} else");
            return false;
        }
        let leaves = ["break", "return"].iter().any(|word| {
            code.strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([';', ' ']))
        });
        in_if && leaves
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop with that head, in the body of a test, and what its lines are.
    fn text(head: &str, lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| format!("        {line}\n"));
        format!("    {head}\n{}    }}\n", lines.collect::<String>())
    }

    const LEAVES: [&str; 3] = ["if is_good(n) {", "    break;", "}"];

    fn found(text: &str) -> usize {
        untold(&Tree::of(&[("a/tests/b.rs", text)])).len()
    }

    #[test]
    fn second_attempts_of_which_nobody_is_told_are_caught() {
        for head in ["for seed in 1..=5 {", "for wait in [250, 2_000].map(ms) {", "for _ in 0..3 {"]
        {
            assert_eq!(found(&text(head, &LEAVES)), 1, "{head}");
            let returns = ["let a = ask(n);", "if a == 5 {", "    return a;", "}"];
            assert_eq!(found(&text(head, &returns)), 1, "{head}");
        }
        for search in [
            "    assert!((0..5).any(|_| is_good()), \"never\");\n",
            "    let seen = [1, 10, 60].into_iter().any(|wait| {\n        is_good(wait)\n    });\n",
            "    let one = (0..20).find_map(|_| {\n        ask()\n    });\n",
        ] {
            assert_eq!(found(search), 1, "{search}");
        }
    }

    #[test]
    fn second_attempts_in_other_languages_are_caught() {
        let python = "    for _ in range(3):\n        if good():\n            break\n".to_owned();
        let go =
            "\tfor n := 0; n < 3; n++ {\n\t\tif good() {\n\t\t\treturn\n\t\t}\n\t}\n".to_owned();
        for (path, text) in [
            ("a/e2e/b.test.ts", text("for (const seconds of [3, 12]) {", &LEAVES)),
            ("a/e2e/b.test.ts", text("for (let n = 0; n < 3; n++) {", &LEAVES)),
            ("a/tests/test_b.py", python),
            ("a/b_test.go", go),
        ] {
            assert_eq!(untold_elsewhere(&Tree::of(&[(path, &text)])).len(), 1, "{text}");
        }
    }

    #[test]
    fn told_attempts_counts_and_long_loops_may_stand() {
        let told = [&LEAVES[..], &["tried_again(\"late\");"]].concat();
        assert_eq!(found(&text("for wait in [2, 8] {", &told)), 0);
        assert_eq!(found(&text("for n in 0..5 {", &["assert!(good(n));"])), 0);
        let skips = ["let Some(world) = World::new() else {", "    return;", "};"];
        assert_eq!(found(&text("for n in 0..5 {", &skips)), 0);
        for head in ["for batch in 0..1_000 {", "for n in 0.. {", "for one in servers {"] {
            assert_eq!(found(&text(head, &LEAVES)), 0, "{head}");
        }
        for search in [
            "    let first = (0..sent).find(|n| !heard.contains(n));\n",
            "    let found = servers.into_iter().find(|one| one == name);\n",
        ] {
            assert_eq!(found(search), 0, "{search}");
        }
        let own = "fn a() {\n    (0..3).any(|_| good());\n}\n";
        assert!(untold(&Tree::of(&[("a/src/b.rs", own)])).is_empty(), "it is no test");
    }

    #[test]
    fn list_of_exceptions_only_shrinks() {
        let listed = COUNTED.len();
        assert!(listed <= 2, "another loop of attempts is another chance that is hidden");
    }
}
