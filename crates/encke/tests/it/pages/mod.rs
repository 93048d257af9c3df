//! What README, and the pages of Start and Build, show: each block between fences has an entry in
//! `listed.rs`, which says what runs it. What is typed into a shell is typed here, as the page has
//! it and in its order.

mod build;
mod listed;
mod page;
mod session;
mod start;

use listed::{By, LISTED};
use page::{Block, blocks, file, pages};
use session::Session;

/// The tests that follow a page.
const FOLLOWED: [&str; 2] = [include_str!("start.rs"), include_str!("build.rs")];

#[test]
fn every_block_of_readme_start_and_build_is_run_or_says_why_not() {
    let mut listed: Vec<&str> = LISTED.iter().map(|(page, _)| *page).collect();
    listed.sort_unstable();
    assert_eq!(listed, pages(), "the pages in pages/listed.rs, and those of the site");
    for (page, by) in LISTED {
        let blocks = blocks(page);
        assert_eq!(blocks.len(), by.len(), "the blocks of {page}: list them in pages/listed.rs");
        for (block, by) in blocks.iter().zip(*by) {
            check(page, block, by);
        }
    }
}

/// Whether what is said of a block can be.
fn check(page: &str, block: &Block, by: &By) {
    let at = format!("{page}:{} ({})", block.line, block.kind);
    let is_followed = FOLLOWED.iter().any(|tests| tests.contains(&format!("\"{page}\"")));
    let name = page.rsplit('/').next().unwrap_or(page);
    let folder = page.strip_suffix("/README.md").unwrap_or(page);
    match *by {
        By::Followed => assert!(is_followed, "{at} is followed by no test"),
        By::Read(test) => assert!(file(test).contains(name), "{at}: {test} does not read {name}"),
        By::Like(test, words) => {
            assert!(file(test).contains(words), "{at}: {test} does not have {words:?}");
        }
        By::Example(test) => {
            assert!(file(test).contains(folder), "{at}: {test} does not run {folder}");
        }
        By::Shown => {
            let kinds = ["text", "json", "http", "ini"];
            assert!(kinds.contains(&&*block.kind), "{at} could be run");
            if block.kind == "json" {
                check_json(&at, &block.text);
            }
        }
        By::Not(why) => assert!(!why.is_empty(), "{at}"),
    }
}

/// What is shown as JSON is JSON: one value, or one a line.
fn check_json(at: &str, text: &str) {
    let text = text.replace('…', "");
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    assert!(is_json(&text) || text.lines().all(is_json), "{at} is no JSON: {text}");
}

/// A session, and the blocks of a page; nothing where a session cannot be had.
fn open(page: &str) -> Option<(Session, Vec<Block>)> {
    Session::start().map(|session| (session, blocks(page)))
}
