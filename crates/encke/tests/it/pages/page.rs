//! The pages of the project, and the blocks of code in them.

use std::fs;
use std::path::{Path, PathBuf};

/// What is between two fences.
#[derive(Debug)]
pub(super) struct Block {
    /// The line of the page at which it begins.
    pub(super) line: usize,
    /// What stands behind the fence: `sh`, `json`.
    pub(super) kind: String,
    pub(super) text: String,
}

impl Block {
    /// The commands of a block for a shell, each with what the page shows as its answer.
    pub(super) fn commands(&self) -> Vec<(String, String)> {
        let mut commands: Vec<(String, String)> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let typed = if self.kind == "console" { line.strip_prefix("$ ") } else { Some(line) };
            match (goes_on, typed, commands.last_mut()) {
                (true, _, Some((command, _))) => command.push_str(&format!("\n{line}")),
                (_, Some(line), _) if line.trim().is_empty() || line.starts_with('#') => {}
                (_, Some(line), _) => commands.push((line.to_owned(), String::new())),
                (_, None, Some((_, shown))) => shown.push_str(&format!("{line}\n")),
                (_, None, None) => panic!("line {}: an answer without a command", self.line),
            }
            goes_on = line.ends_with('\\');
        }
        commands
    }
}

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the project.
pub(super) fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The blocks of a page, in order.
pub(super) fn blocks(path: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (line, text) in (1..).zip(file(path).lines()) {
        match text.strip_prefix("```") {
            Some(kind) if !is_open => {
                blocks.push(Block { line, kind: kind.to_owned(), text: String::new() });
                is_open = true;
            }
            Some(_) => is_open = false,
            None if is_open => {
                let block = blocks.last_mut().expect("one is open");
                block.text.push_str(&format!("{text}\n"));
            }
            None => {}
        }
    }
    blocks
}

/// The README, and the pages to which *Start* and *Build* of the site's sidebar lead.
pub(super) fn pages() -> Vec<String> {
    let config = file("site/theme/config.js");
    let part = config.split("text: \"Start\"").nth(1).expect("the sidebar has Start");
    let part = part.split("text: \"Run\"").next().expect("the sidebar has Run");
    let links = part.split("item(\"").skip(1).filter_map(|item| item.split('"').nth(2));
    let mut pages: Vec<String> = links
        .map(|link| match link.trim_start_matches('/') {
            "" => "docs/index.md".to_owned(),
            link if link.contains('/') => format!("{link}/README.md"),
            link => format!("docs/{link}.md"),
        })
        .collect();
    pages.push("README.md".to_owned());
    pages.sort_unstable();
    pages
}
