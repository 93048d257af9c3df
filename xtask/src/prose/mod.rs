//! `cargo xtask prose`: how hard the pages are to read, in figures.
//!
//! Pages are the README, those of docs/, clients/ and examples/, and a few others. The docs of
//! modules (`//!`) and the decisions are written for those who change the program, and count as one
//! page each.
//!
//! It looks at the sentences of paragraphs and lists. Code, tables and headings are left out, and a
//! piece of code within a sentence counts as one word. The figures say nothing about whether a page
//! is true or complete. A page that misses the bounds is hard to read all the same.

mod figures;
mod sentences;
mod syllables;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

pub(crate) use figures::{Bounds, Figures};
use sentences::Sentence;

/// What the chore prints for each page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A line with its figures.
    Figures,
    /// Also each sentence that is too long or begins badly.
    Sentences,
}

/// Its name, folders, kind of file, and what of a file counts.
type Gathered = (&'static str, &'static [&'static str], &'static str, fn(&str) -> String);

/// What is one page for the figures.
const GATHERED: [Gathered; 2] = [
    ("all module docs", &["crates", "examples", "fuzz", "xtask"], ".rs", module_docs),
    ("all decisions", &["docs/decisions"], ".md", str::to_owned),
];

/// Folders of programs, and of packages that others wrote.
const FOREIGN: [&str; 2] = ["target", "node_modules"];

/// Folders whose folders have a page each, `README.md`.
const FOLDERS_OF_PAGES: [&str; 2] = ["clients", "examples"];

/// Pages about the project itself: how it works, is changed and tried, and what has changed.
pub(crate) const OTHER_PAGES: [&str; 4] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "compat/README.md"];

/// Prints the figures of `pages`, or of all where none is named. A source is a page too: its
/// module's doc.
pub(crate) fn run(root: &Path, detail: Detail, pages: &[&str]) -> anyhow::Result<bool> {
    let whole = pages.is_empty();
    let pages = match pages {
        [] => all(root)?,
        named => named.iter().map(|page| (*page).to_owned()).collect(),
    };
    println!("{:<32} {}", "page", Figures::HEAD);
    for page in pages {
        let path = root.join(&page);
        let mut text = read(&path)?;
        if page.ends_with(".rs") {
            text = module_docs(&text);
        }
        let sentences = sentences::of_markdown(&text);
        let figures = Figures::of(&sentences);
        println!("{page:<32} {figures}");
        if detail == Detail::Sentences {
            print_faults(&page, &sentences);
        }
    }
    for (name, folders, kind, docs) in GATHERED.iter().filter(|_| whole) {
        let mut texts = Vec::new();
        for path in folders.iter().map(|folder| files(&root.join(folder), kind)) {
            for path in path? {
                texts.push(docs(&read(&path)?));
            }
        }
        println!("{name:<32} {}", figures(&texts.join("\n\n")));
    }
    Ok(true)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The files of that kind below `folder`.
fn files(folder: &Path, kind: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let cannot = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !FOREIGN.contains(&name.as_str()) {
            found.extend(files(&path, kind)?);
        } else if name.ends_with(kind) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The doc of a module, as the Markdown that it is.
pub(crate) fn module_docs(source: &str) -> String {
    let lines = source.lines().map(|line| line.trim_start().strip_prefix("//!"));
    let lines = lines.map(|line| line.map_or("", |line| line.strip_prefix(' ').unwrap_or(line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The README, the pages of docs/, clients/ and examples/ in the order of their names, and others.
fn all(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = names(root, "docs")?;
    pages.retain(|page| page.ends_with(".md"));
    for folder in FOLDERS_OF_PAGES {
        let of_folders = names(root, folder)?.into_iter().map(|name| format!("{name}/README.md"));
        pages.extend(of_folders.filter(|page| root.join(page).exists()));
    }
    pages.insert(0, "README.md".to_owned());
    pages.extend(OTHER_PAGES.map(str::to_owned));
    Ok(pages)
}

/// What lies in `folder`, in the order of the names, each with the folder's.
fn names(root: &Path, folder: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let cannot = || format!("cannot read {folder}");
    for entry in fs::read_dir(root.join(folder)).with_context(cannot)? {
        let name = entry.with_context(cannot)?.file_name();
        names.push(format!("{folder}/{}", name.to_string_lossy()));
    }
    names.sort_unstable();
    Ok(names)
}

fn print_faults(page: &str, sentences: &[Sentence]) {
    for sentence in sentences {
        let words = sentence.words().count();
        let opening = sentence.opening();
        if words > Bounds::PAGES.p90 || opening.is_some() {
            let why = opening.map_or(String::new(), |opening| format!(", begins {opening}"));
            println!("  {page}:{}: {words} words{why}: {sentence}", sentence.line);
        }
    }
}

/// The figures of a page of Markdown.
pub(crate) fn figures(markdown: &str) -> Figures {
    Figures::of(&sentences::of_markdown(markdown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_of_a_module_is_markdown_with_its_lines() {
        let source = "//! One.\n//!\n//! - two\n//!   words\nuse a;\n// Three.\n    //! Four.\n";
        assert_eq!(module_docs(source), "One.\n\n- two\n  words\n\n\nFour.");
        assert_eq!(figures(&module_docs(source)).sentences, 3);
    }
}
