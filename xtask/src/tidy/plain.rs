//! These rules keep pages, module docs and the help of the program in plain sentences. A page for
//! users also begins by saying who it is for and what the reader can do after it.

use super::tree::{Fault, File, Tree};
use crate::prose::{Bounds, OTHER_PAGES, figures, module_docs};

/// Where pages for users lie: the files of Markdown right in the first, and the `README.md` of each
/// folder in the others.
const PAGES: &str = "docs/";
const FOLDERS_OF_PAGES: [&str; 2] = ["clients/", "examples/"];

/// Folders whose `README.md` is for those who change the project, or a story of its own: it need
/// not say whom it is for.
const OTHERS: [&str; 2] = ["clients/cases/", "examples/playdar/"];

/// The pages that are made of the help.
const HELP: [&str; 2] = ["docs/options.md", "docs/command-options.md"];

/// The folder of decisions.
const DECISIONS: &str = "docs/decisions/";

/// The page that a code host shows first: its first sentence says what the project is.
const FIRST: &str = "README.md";

pub(super) fn pages(tree: &Tree) -> Vec<Fault> {
    all_pages(tree).filter_map(long_sentences).collect()
}

/// No page has a sentence that begins without its subject, such as "Sent to all".
pub(super) fn openings_of_sentences(tree: &Tree) -> Vec<Fault> {
    let fault = |file: &File| {
        let count = figures(&file.text).openings;
        let path = &file.path;
        let list = format!("`cargo xtask prose --long {path}` lists them");
        let what = format!("sentences that begin without their subject: {count}; {list}");
        (count > 0).then(|| file.fault(1, what))
    };
    all_pages(tree).filter_map(fault).collect()
}

fn all_pages(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_one = |path: &str| path == FIRST || OTHER_PAGES.contains(&path) || is_page(path);
    tree.files().iter().filter(move |file| is_one(&file.path))
}

/// The help of all options, as the pages that are made of it have it.
pub(super) fn help(tree: &Tree) -> Vec<Fault> {
    let pages = HELP.iter().filter_map(|path| tree.find(path));
    let fault = |page: &File| {
        let rows = page.text.lines().filter(|line| line.starts_with("| `"));
        let help: Vec<&str> = rows.filter_map(|row| row.split(" | ").nth(1)).collect();
        let what = figures(&help.join("\n\n")).missed(Bounds::PAGES)?;
        Some(page.fault(1, format!("of the help of its options {what}")))
    };
    pages.filter_map(fault).collect()
}

/// The docs of all modules, as one page: most have too few sentences for a bound of their own.
pub(super) fn docs_of_modules(tree: &Tree) -> Vec<Fault> {
    let sources = tree.files().iter().filter(|file| file.is_rust());
    let docs: Vec<_> = sources.map(|file| (file, module_docs(&file.text))).collect();
    gathered(&docs)
}

/// All decisions, as one page.
pub(super) fn decisions(tree: &Tree) -> Vec<Fault> {
    let pages = tree.files().iter().filter(|file| file.path.starts_with(DECISIONS));
    let texts: Vec<_> = pages.map(|file| (file, file.text.clone())).collect();
    gathered(&texts)
}

/// What all `texts` together miss, told at the one with the longest sentences.
fn gathered(texts: &[(&File, String)]) -> Vec<Fault> {
    let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    let Some(what) = figures(&all.join("\n\n")).missed(Bounds::PAGES) else { return Vec::new() };
    let worst = texts.iter().max_by_key(|(_, text)| figures(text).p90);
    let fault = |(file, _): &(&File, String)| {
        let path = &file.path;
        file.fault(
            1,
            format!("of all together {what}: begin with `cargo xtask prose --long {path}`"),
        )
    };
    worst.map(fault).into_iter().collect()
}

pub(super) fn openings(tree: &Tree) -> Vec<Fault> {
    let is_other = |path: &str| OTHERS.iter().any(|other| path.starts_with(other));
    let says = |file: &&File| is_page(&file.path) && !is_other(&file.path);
    tree.files().iter().filter(says).filter_map(opening).collect()
}

fn is_page(path: &str) -> bool {
    let of_docs =
        path.strip_prefix(PAGES).is_some_and(|name| name.ends_with(".md") && !name.contains('/'));
    let of_folder = |folder: &&str| {
        let inside = path.strip_prefix(folder).and_then(|name| name.split_once('/'));
        inside.is_some_and(|(_, name)| name == "README.md")
    };
    of_docs || FOLDERS_OF_PAGES.iter().any(of_folder)
}

fn long_sentences(file: &File) -> Option<Fault> {
    let what = figures(&file.text).missed(Bounds::PAGES)?;
    let path = &file.path;
    Some(file.fault(1, format!("{what}: `cargo xtask prose --long {path}` lists the long ones")))
}

/// The first paragraph says "This page is for you if …" and "After it …".
fn opening(file: &File) -> Option<Fault> {
    let first = file.text.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
    let says_whom = first.starts_with("This ") && first.contains(" is for you if ");
    let says_what_for = first.contains("After it ") || first.contains("after it ");
    let what = "begin with \"This page is for you if …\", and what is known \"After it\"";
    (!says_whom || !says_what_for).then(|| file.fault(1, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# A\n\nThis page is for you if you\nread. After it you can write.\n";

    #[test]
    fn page_with_long_sentences_is_caught() {
        let long = format!("{}.", "word ".repeat(26));
        let found = |path: &str, text: &str| pages(&Tree::of(&[(path, text)])).len();
        for path in ["README.md", "docs/a.md", "clients/go/README.md", "examples/a/README.md"] {
            assert_eq!(found(path, "Run it. You can stop it."), 0, "{path}");
            assert_eq!(found(path, &long), 1, "{path}");
        }
        for path in
            ["CHANGELOG.md", "CONTRIBUTING.md", "compat/README.md", "clients/cases/README.md"]
        {
            assert_eq!(found(path, &long), 1, "{path}");
        }
        for path in ["docs/decisions/a.md", "examples/a/b/README.md"] {
            assert_eq!(found(path, &long), 0, "{path}");
        }
        let caught = pages(&Tree::of(&[("docs/a.md", &long)]))[0].to_string();
        assert!(caught.starts_with("docs/a.md:1: half of its sentences have 26"), "{caught}");
    }

    #[test]
    fn sentences_without_a_subject_are_caught() {
        let found = |path: &str, text: &str| {
            let faults = openings_of_sentences(&Tree::of(&[(path, text)]));
            faults.iter().map(ToString::to_string).collect::<String>()
        };
        assert_eq!(found("docs/a.md", "It is sent to all. Where is it?"), "");
        for path in ["docs/a.md", "CHANGELOG.md", "examples/playdar/README.md"] {
            let caught = found(path, "It waits.\n\n- Sent to all.\n- What waits is sent.\n");
            assert!(caught.starts_with(&format!("{path}:1: ")), "{caught}");
            assert!(caught.contains("without their subject: 2; "), "{caught}");
        }
    }

    #[test]
    fn help_with_long_sentences_is_caught() {
        let found = |text: &str| {
            let row = format!("| option | help |\n| --- | --- |\n| `--a N` | {text} | `1` |\n");
            help(&Tree::of(&[("docs/options.md", &row)])).len()
        };
        assert_eq!(found("Sets it. 0 is none."), 0);
        assert_eq!(found(&"word ".repeat(26)), 1);
    }

    #[test]
    fn docs_of_modules_and_decisions_count_together() {
        let long = "word ".repeat(26);
        let (source, plain) = (format!("//! {long}.\n"), "//! Sends it. It waits.\nuse a;\n");
        let found = |files: &[(&str, &str)]| docs_of_modules(&Tree::of(files)).len();
        assert_eq!(found(&[("a/a.rs", plain), ("a/b.rs", "fn a() {}\n")]), 0);
        assert_eq!(found(&[("a/a.rs", &source)]), 1);
        let few = plain.repeat(5);
        assert_eq!(found(&[("a/a.rs", &source), ("a/b.rs", &few)]), 0, "one of eleven");
        let worst = &docs_of_modules(&Tree::of(&[("a/a.rs", &source), ("a/b.rs", plain)]))[0];
        assert!(worst.to_string().starts_with("a/a.rs:1: of all together one"), "{worst}");
        let decision = ("docs/decisions/0001-a.md", &*long);
        assert_eq!(decisions(&Tree::of(&[decision])).len(), 1);
        assert_eq!(decisions(&Tree::of(&[("docs/decisions/0001-a.md", "It is so.")])).len(), 0);
    }

    #[test]
    fn page_that_does_not_say_whom_it_is_for_is_caught() {
        let found = |path: &str, text: &str| openings(&Tree::of(&[(path, text)])).len();
        assert_eq!(found("docs/a.md", GOOD), 0);
        assert_eq!(found("README.md", "# A\n\nA server.\n"), 0, "it says what the project is");
        let later = GOOD.replace("# A\n\n", "# A\n\nA server.\n\n");
        for text in [&*later, &GOOD.replace("for you if", "about"), &GOOD.replace("After it", "So")]
        {
            assert_eq!(found("docs/a.md", text), 1, "{text}");
        }
        assert_eq!(found("examples/playdar/README.md", &later), 0, "it is a story of its own");
    }
}
