//! The rule that no test asserts an upper bound on wall time: on a busy machine it fails by chance.
//!
//! It finds the plain form: an assertion that bounds a time that was measured. That is
//! `….elapsed()`, or a name that such a time was given to, on the smaller side of a comparison or
//! in a range. A bound of `DEADLINE`, the one of all tests, may stand: it measures nothing. Times
//! that go through a function or a list on their way are not followed. Tests in other languages
//! than Rust are not read so closely: they read no clock but where it is listed.

use std::collections::BTreeSet;

use super::tree::{Fault, File, Tree};

/// Which files may bound a time from above, and why. This list only shrinks: a test waits for its
/// event with `testing::DEADLINE`, counts, shows the order of events, or moves the clock itself.
const CLOCKS: [(&str, &str); 2] = [
    ("crates/erlang/src/tests.rs", "the clock is paused there, and moves by itself"),
    ("crates/httpd/src/permits.rs", "the clock is paused there, and moves by itself"),
];

/// Which tests in TypeScript, Python or Go read a clock, and what for. This list only shrinks, too.
const READERS: [(&str, &str); 11] = [
    ("clients/js/e2e/dashboard.test.ts", "the page's clock is moved there"),
    ("clients/js/e2e/listen.js", "when each event came, for what is late beside the others"),
    ("clients/js/e2e/server.ts", "the deadline of all waits"),
    ("clients/js/e2e/shared.test.ts", "how late the last is, in times of the first"),
    ("clients/js/e2e/silence/", "a silence is measured in times of the machine's own lateness"),
    ("clients/js/e2e/tokens.test.ts", "when a token ends is said by the clock"),
    ("clients/js/test/many.test.ts", "the clock is moved there"),
    ("clients/js/test/returns.test.ts", "the clock is moved there"),
    ("clients/js/test/tokens.test.ts", "when a token ends is said by the clock"),
    ("clients/python/tests/", "the deadline of all waits, and a silence that did not come"),
    ("examples/playdar/e2e/site.js", "a page names its calls by the time, as those of 2011 did"),
];

/// How programs in those languages read a clock.
const CLOCK_CALLS: [&str; 7] = [
    "Date.now",
    "performance.now",
    "process.hrtime",
    "time.monotonic",
    "time.perf_counter",
    "time.Since(",
    "time.Now(",
];

/// The one bound that measures nothing.
const DEADLINE: &str = "DEADLINE";

/// How a time is measured.
const MEASURED: [&str; 2] = [".elapsed()", ".duration_since("];

/// What may stand between a time and the comparison.
const UNITS: [&str; 6] = [
    ".as_secs()",
    ".as_millis()",
    ".as_micros()",
    ".as_nanos()",
    ".as_secs_f64()",
    ".as_secs_f32()",
];

/// Lines of a statement that are read at most.
const STATEMENT_LINES_MAX: usize = 12;

pub(super) fn upper_bounds(tree: &Tree) -> Vec<Fault> {
    let bounded = |file: &&File| {
        !file.path.contains("/benches/")
            && !CLOCKS.iter().any(|(path, _)| file.path.starts_with(path))
    };
    tree.rust().filter(bounded).flat_map(faults).collect()
}

pub(super) fn readers(tree: &Tree) -> Vec<Fault> {
    let what = "a test that reads a clock fails by chance: see the list in tidy/clocks.rs";
    let reads = |(_, line): &(usize, &str)| CLOCK_CALLS.iter().any(|call| line.contains(call));
    let is_listed = |file: &File| READERS.iter().any(|(path, _)| file.path.starts_with(path));
    let tests = tree.foreign().filter(|file| is_foreign_test(&file.path) && !is_listed(file));
    tests
        .flat_map(|file| {
            file.lines()
                .filter(reads)
                .map(|(number, _)| file.fault(number, what))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a file belongs to tests in another language than Rust.
pub(super) fn is_foreign_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let in_tests = ["/e2e/", "/test/", "/tests/"].iter().any(|part| path.contains(part));
    let is = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    in_tests && is(&[".ts", ".js", ".mjs", ".py"]) || is(&["_test.go", ".test.ts"])
}

fn faults(file: &File) -> Vec<Fault> {
    let from = file.tests_from();
    let lines: Vec<(usize, &str)> = file.lines().filter(|(number, _)| *number >= from).collect();
    let statements = |start: &'static [&'static str]| {
        let lines = &lines;
        (0..lines.len()).filter_map(move |at| {
            let begins = start.iter().any(|start| lines[at].1.trim_start().starts_with(start));
            begins.then(|| (lines[at].0, statement(&lines[at..])))
        })
    };
    let names: BTreeSet<String> =
        statements(&[""]).filter_map(|(_, text)| measured_name(&text)).collect();
    let asserts = statements(&["assert!(", "assert_eq!(", "debug_assert!(", "ensure!("]);
    let bounds = asserts.filter(|(_, text)| is_upper_bound(text, &names));
    let what = "a busy machine breaks this bound: see the list in tidy/clocks.rs for other ways";
    bounds.map(|(number, _)| file.fault(number, what)).collect()
}

/// The statement that begins with the first of `lines`, in one line and without comments.
fn statement(lines: &[(usize, &str)]) -> String {
    let mut text = String::new();
    for (_, line) in lines.iter().take(STATEMENT_LINES_MAX) {
        let code = line.split("//").next().unwrap_or_default().trim();
        text.extend([code, " "]);
        if code.ends_with(';') {
            break;
        }
    }
    text
}

/// The name that is given to a measured time, by a `let` or later on.
fn measured_name(text: &str) -> Option<String> {
    let (name, value) = text.split_once(';')?.0.split_once(" = ")?;
    let name = name.trim_start_matches("let ").trim_start_matches("mut ");
    let name = name.split(':').next()?.trim();
    let is_name = !name.is_empty() && name.bytes().all(is_part_of_name);
    (is_name && MEASURED.iter().any(|measured| value.contains(measured))).then(|| name.to_owned())
}

/// Whether a measured time must be less than something, in an assertion.
fn is_upper_bound(text: &str, names: &BTreeSet<String>) -> bool {
    // What is said when it fails is no part of it.
    let condition = text.split('"').next().unwrap_or_default();
    let is_deadline = |after: &str| {
        let bound = after.trim_start_matches(['<', '=', ' ']).split([',', ')']).next();
        bound.and_then(|bound| bound.trim().rsplit(':').next()) == Some(DEADLINE)
    };
    times(condition, names).into_iter().any(|(before, after)| {
        let less = after.starts_with('<') && !after.starts_with("<<") && !is_deadline(after);
        let more = before.ends_with('>') || before.ends_with(">=");
        let is_arrow = before.ends_with("->") || before.ends_with("=>");
        less || more && !is_arrow || before.ends_with("contains(&")
    })
}

/// What stands before and behind each time in a condition.
fn times<'t>(condition: &'t str, names: &BTreeSet<String>) -> Vec<(&'t str, &'t str)> {
    let measured = condition.match_indices(MEASURED[0]);
    let measured = measured.map(|(at, found)| (at, at + found.len()));
    let named = names.iter().flat_map(|name| {
        let found = condition.match_indices(name.as_str());
        let found = found.map(|(at, found)| (at, at + found.len()));
        found.filter(|&(from, to)| {
            let bytes = condition.as_bytes();
            let is_edge = |at: Option<usize>| {
                at.and_then(|at| bytes.get(at)).is_none_or(|&byte| !is_part_of_name(byte))
            };
            is_edge(from.checked_sub(1)) && is_edge(Some(to))
        })
    });
    let all = measured.chain(named);
    all.map(|(from, to)| {
        let subject = |c: char| c.is_alphanumeric() || "_.:".contains(c);
        let before = condition[..from].trim_end_matches(subject).trim_end();
        let mut after = &condition[to..];
        while let Some(rest) = UNITS.iter().find_map(|unit| after.strip_prefix(unit)) {
            after = rest;
        }
        (before, after.trim_start())
    })
    .collect()
}

fn is_part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        upper_bounds(&Tree::of(&[("a/tests/b.rs", text)])).len()
    }

    #[test]
    fn bound_on_a_measured_time_is_caught() {
        for text in [
            "    assert!(begun.elapsed() < Duration::from_secs(1));\n",
            "    assert!(begun.elapsed() <= 2 * LEASE, \"{:?}\", begun.elapsed());\n",
            "    assert!(begun.elapsed().as_secs() < 9);\n",
            "    assert!(\n        begun.elapsed()\n            < LIMIT,\n    );\n",
            "    assert!(Duration::from_secs(1) > begun.elapsed());\n",
            "    assert!((5..30).contains(&begun.elapsed().as_secs()));\n",
            "    assert!(begun.elapsed() < DEADLINE / 2);\n",
            "    let took = begun.elapsed();\n    assert!(LEASE <= took && took < 2 * LEASE);\n",
            "    let took =\n        begun.elapsed();\n    assert!(LIMIT >= took);\n",
            "    longest = longest.max(begun.elapsed());\n    assert!(longest < LIMIT);\n",
            "    let mut took: Duration = end.duration_since(begun);\n    assert!(took < LIMIT);\n",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
    }

    #[test]
    fn least_times_deadlines_and_other_names_may_stand() {
        for text in [
            "    assert!(begun.elapsed() >= PAUSE, \"less: <\");\n",
            "    assert!(PAUSE <= begun.elapsed());\n",
            "    assert!(begun.elapsed() < DEADLINE, \"it never ends\");\n",
            "    assert!(begun.elapsed() < crate::harness::DEADLINE);\n",
            "    let took = begun.elapsed();\n    assert!(took > PAUSE && untook < LIMIT);\n",
            "    let tooks = begun.elapsed();\n    assert!(took < LIMIT);\n",
            "    while begun.elapsed() < PAUSE {}\n",
            "    // assert!(begun.elapsed() < LIMIT);\n",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
        let own = "fn a() {\n    assert!(begun.elapsed() < LIMIT);\n}\n";
        assert!(upper_bounds(&Tree::of(&[("a/src/b.rs", own)])).is_empty(), "it is no test");
        assert!(upper_bounds(&Tree::of(&[("a/benches/b.rs", own)])).is_empty(), "a measurement");
    }

    #[test]
    fn clock_is_caught_in_tests_of_other_languages() {
        let found = |path: &str, text: &str| readers(&Tree::of(&[(path, text)])).len();
        for (path, text) in [
            ("a/e2e/looks.test.ts", "const took = performance.now() - begun;\n"),
            ("a/e2e/page.js", "at: Date.now()\n"),
            ("a/tests/test_b.py", "    took = time.monotonic() - began\n"),
            ("a/b_test.go", "\ttook := time.Since(began)\n"),
        ] {
            assert_eq!(found(path, text), 1, "{path}");
        }
        assert_eq!(found("a/src/hub.ts", "const now = Date.now();\n"), 0, "it is no test");
        assert_eq!(found("clients/js/e2e/server.ts", "performance.now();\n"), 0, "it is listed");
    }

    #[test]
    fn list_of_exceptions_only_shrinks() {
        let listed = (CLOCKS.len(), READERS.len());
        assert!(listed.0 <= 2, "a new bound on time is another chance to fail");
        assert!(listed.1 <= 11, "and so is another test that reads a clock");
    }
}
