//! The sentences of a page of Markdown (CommonMark, with the tables of code hosts).

use std::fmt;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Stands for a piece of code in a sentence: one word, whatever is in it.
const CODE: char = '\u{E000}';

/// What ends with a full stop and ends no sentence.
const ABBREVIATIONS: [&str; 9] = ["e.g", "i.e", "etc", "vs", "cf", "no", "fig", "mr", "dr"];

/// How a sentence may not begin: its subject is missing, or is somewhere else.
const POINTING: [&str; 7] = ["what", "who", "whom", "whoever", "whatever", "that", "of"];

/// Participles that do not end in "ed".
const PARTICIPLES: [&str; 18] = [
    "built", "caught", "chosen", "done", "given", "gone", "held", "kept", "known", "lost", "made",
    "meant", "seen", "sent", "shown", "taken", "told", "written",
];

/// Words in "ed" that are no participles.
const NO_PARTICIPLES: [&str; 6] = ["embed", "feed", "hundred", "indeed", "need", "speed"];

/// One sentence of a paragraph or of an item of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// The line of the page at which its paragraph begins.
    pub(super) line: usize,
    text: String,
}

impl Sentence {
    /// The words; a number and a piece of code are words, a dash is none.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split_whitespace().filter(|word| is_word(word))
    }

    /// The word that the sentence begins with, where that makes it hard to follow.
    pub(super) fn opening(&self) -> Option<&str> {
        let mut words = self.words();
        let first = words.next()?;
        let letters = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let is_question = self.text.ends_with('?');
        let is_hard = match letters(first).as_str() {
            "of" => words.next().is_some_and(|second| letters(second) == "which"),
            word if POINTING.contains(&word) => !is_question,
            word => is_participle(word),
        };
        is_hard.then_some(first)
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text.replace(CODE, "`…`"))
    }
}

fn is_word(piece: &str) -> bool {
    piece.chars().any(|c| c.is_alphanumeric() || c == CODE)
}

fn is_participle(word: &str) -> bool {
    let ends = word.len() > 4 && word.ends_with("ed") && !NO_PARTICIPLES.contains(&word);
    ends || PARTICIPLES.contains(&word)
}

/// The sentences of `markdown`, in order.
pub(super) fn of_markdown(markdown: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for (line, text) in blocks(markdown) {
        let parts = split(&text).into_iter().map(|part| text[part].to_owned());
        let parts = parts.filter(|part| part.split_whitespace().any(is_word));
        sentences.extend(parts.map(|text| Sentence { line, text }));
    }
    sentences
}

/// The paragraphs and items of lists, each with the line at which it begins.
fn blocks(markdown: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut block = (1, String::new());
    // Headings, tables, pictures and blocks of code, one perhaps within another.
    let mut skipped: u32 = 0;
    let mut counted = (0, 1);
    for (event, at) in Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(tag) if is_skipped(&tag) => {
                finish(&mut block, &mut blocks);
                skipped += 1;
            }
            Event::End(TagEnd::Heading(_) | TagEnd::Table | TagEnd::CodeBlock | TagEnd::Image) => {
                skipped -= 1
            }
            Event::Start(Tag::Paragraph | Tag::Item | Tag::List(_)) => {
                finish(&mut block, &mut blocks);
                block.0 = line_at(markdown, at.start, &mut counted);
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item) => finish(&mut block, &mut blocks),
            Event::Text(text) if skipped == 0 => block.1.push_str(&text),
            Event::Code(_) if skipped == 0 => block.1.push(CODE),
            Event::SoftBreak | Event::HardBreak if skipped == 0 => block.1.push(' '),
            _ => {}
        }
    }
    finish(&mut block, &mut blocks);
    blocks
}

fn is_skipped(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Heading { .. } | Tag::Table(_) | Tag::CodeBlock(_) | Tag::Image { .. })
}

fn finish(block: &mut (usize, String), blocks: &mut Vec<(usize, String)>) {
    let text = std::mem::take(&mut block.1);
    if !text.trim().is_empty() {
        blocks.push((block.0, text));
    }
}

/// The number of the line, from 1, in which `at` is. It counts on from the place of the last call
/// and the line there: from the beginning each time it would take half of all rules.
fn line_at(text: &str, at: usize, counted: &mut (usize, usize)) -> usize {
    if at < counted.0 {
        *counted = (0, 1);
    }
    let between = &text.as_bytes()[counted.0..at];
    *counted = (at, counted.1 + between.iter().filter(|&&byte| byte == b'\n').count());
    counted.1
}

/// Where the sentences of `text` are: each ends at a full stop, a question mark or an exclamation
/// mark behind which white space and the beginning of another one follow.
fn split(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, end) in text.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?')) {
        let behind = &text[at + end.len_utf8()..];
        let closed = behind.trim_start_matches(['"', '\'', ')', ']', '”', '’']);
        let next = closed.trim_start();
        let begins = |c: char| c.is_uppercase() || c.is_numeric() || matches!(c, CODE | '"' | '“');
        let is_end = next.len() < closed.len()
            && next.trim_start_matches(['(', '[', '-', '/']).starts_with(begins)
            && !(end == '.' && is_abbreviation(&text[from..at]));
        if is_end {
            let until = text.len() - closed.len();
            sentences.push(from..until);
            from = text.len() - next.len();
        }
    }
    sentences.push(from..text.len());
    sentences
}

/// Whether what ends with a full stop here is a short form, such as "e.g." or an initial.
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let mut letters = word.chars();
    let is_initial = letters.next().is_some_and(char::is_uppercase) && letters.next().is_none();
    is_initial || ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_on_and_anew_where_a_place_lies_before() {
        let mut counted = (0, 1);
        let lines = [0, 2, 2, 5, 1].map(|at| line_at("a\nb\n\nc", at, &mut counted));
        assert_eq!(lines, [1, 2, 2, 4, 1]);
    }

    fn texts(markdown: &str) -> Vec<String> {
        of_markdown(markdown).iter().map(ToString::to_string).collect()
    }

    fn opening(sentence: &str) -> Option<String> {
        of_markdown(sentence)[0].opening().map(str::to_owned)
    }

    #[test]
    fn sentences_end_at_full_stops_before_a_beginning() {
        let two = texts("It takes 2.1 s (RFC 9110). `encke` ends. Does it? Yes!");
        assert_eq!(two, ["It takes 2.1 s (RFC 9110).", "`…` ends.", "Does it?", "Yes!"]);
        assert_eq!(texts("Say \"stop.\" Then go on.").len(), 2);
        assert_eq!(texts("It is 5 s. 10 s are too long.").len(), 2);
    }

    #[test]
    fn short_forms_numbers_and_names_of_files_end_none() {
        assert_eq!(texts("Use a proxy, e.g. Caddy or (cf. RFC 9110) nginx.").len(), 1);
        assert_eq!(texts("As J. Postel says, see No. 7 of encke.toml and so on.").len(), 1);
        assert_eq!(texts("Version 0.1.0 and `a. B` are fine.").len(), 1);
    }

    #[test]
    fn code_tables_headings_and_targets_are_no_prose() {
        let page = "# A heading. Two.\n\nOne [link](other.md#a.B) here:\n\n```sh\nrun. It\n```\n\n\
                    | a | b |\n| --- | --- |\n| c. D | e |\n\n![A picture. Of it](a.svg)\n";
        assert_eq!(texts(page), ["One link here:"]);
    }

    #[test]
    fn items_of_lists_are_sentences_with_their_line() {
        let items = of_markdown("Two things:\n\n- one\n  and more\n- two\n  - three\n");
        let lines: Vec<(usize, String)> =
            items.iter().map(|item| (item.line, item.to_string())).collect();
        let expected = [(1, "Two things:"), (3, "one and more"), (5, "two"), (6, "three")];
        assert_eq!(lines, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn words_are_numbers_and_code_but_no_dashes() {
        let sentence = &of_markdown("It – `a b` – takes 10 % of well-known cores.")[0];
        assert_eq!(sentence.words().count(), 7);
    }

    #[test]
    fn beginnings_without_a_subject_are_found() {
        for hard in ["What waits is sent.", "Whoever asks is told.", "Of which two are left."] {
            assert!(opening(hard).is_some(), "{hard}");
        }
        assert_eq!(opening("Measured with two cores.").as_deref(), Some("Measured"));
        assert_eq!(opening("Told are all clients.").as_deref(), Some("Told"));
        for plain in ["What does it cost?", "Of the two, one is left.", "Need more? Ask."] {
            assert_eq!(opening(plain), None, "{plain}");
        }
        assert_eq!(opening("The client that asks is told."), None);
    }
}
