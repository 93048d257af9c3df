//! `cargo xtask prose`: how hard the pages are to read, in figures.
//!
//! Pages are README and docs/. The docs of modules (`//!`) and the decisions are written for those
//! who change the program, and count as one page each.
//!
//! It looks at the sentences of paragraphs and lists. Code, tables and headings are left out, and a
//! piece of code within a sentence counts as one word. The figures say nothing about whether a page
//! is true or complete. A page that misses the bounds is hard to read all the same.

mod figures;
mod sentences;
mod syllables;

use std::fs;
use std::path::Path;

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

/// Prints the figures of `pages`, or of the README and all of docs/ where none is named.
pub(crate) fn run(root: &Path, detail: Detail, pages: &[&str]) -> anyhow::Result<bool> {
    let pages = match pages {
        [] => all(root)?,
        named => named.iter().map(|page| (*page).to_owned()).collect(),
    };
    println!("{:<26} {}", "page", Figures::HEAD);
    for page in pages {
        let path = root.join(&page);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let sentences = sentences::of_markdown(&text);
        let figures = Figures::of(&sentences);
        println!("{page:<26} {figures}");
        if detail == Detail::Sentences {
            print_faults(&page, &sentences);
        }
    }
    Ok(true)
}

/// The README and the pages of docs/, in the order of their names.
fn all(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(root.join("docs")).context("cannot read docs")? {
        let name = entry.context("cannot read docs")?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort_unstable();
    pages.insert(0, "README.md".to_owned());
    Ok(pages)
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
