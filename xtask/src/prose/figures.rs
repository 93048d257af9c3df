//! The figures of a page, and the bounds that a page must keep.

use std::fmt;

use super::sentences::Sentence;
use super::syllables::syllables;

/// How long sentences may be, in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) median: usize,
    /// Nine of ten sentences are no longer.
    pub(crate) p90: usize,
}

impl Bounds {
    /// What every page for users keeps, once it has been mended.
    pub(crate) const PAGES: Bounds = Bounds { median: 15, p90: 25 };
}

#[derive(Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) words: usize,
    pub(crate) sentences: usize,
    /// Words of a sentence.
    pub(crate) median: usize,
    pub(crate) p90: usize,
    /// How often the page addresses its reader: "you", "your".
    pub(crate) you: usize,
    /// Sentences that begin without their subject.
    pub(crate) openings: usize,
    /// Flesch's reading ease (Flesch 1948): 60 to 70 is plain English, below 30 is hard.
    pub(crate) ease: f64,
}

impl Figures {
    pub(super) const HEAD: &'static str = "  words  sentences  median  p90  you  openings  ease";

    pub(super) fn of(sentences: &[Sentence]) -> Figures {
        let mut lengths: Vec<usize> = sentences.iter().map(|one| one.words().count()).collect();
        lengths.sort_unstable();
        let words: usize = lengths.iter().sum();
        let spoken = || sentences.iter().flat_map(Sentence::words).filter(|word| is_spoken(word));
        let syllables: usize = spoken().map(syllables).sum();
        Figures {
            words,
            sentences: lengths.len(),
            median: nearest_rank(&lengths, 50),
            p90: nearest_rank(&lengths, 90),
            you: spoken().filter(|word| is_you(word)).count(),
            openings: sentences.iter().filter(|one| one.opening().is_some()).count(),
            ease: ease(words, lengths.len(), syllables, spoken().count()),
        }
    }

    /// What the page misses of `bounds`, in words.
    pub(crate) fn missed(&self, bounds: Bounds) -> Option<String> {
        let median = (self.median > bounds.median)
            .then(|| format!("half of its sentences have {} words or more", self.median));
        let p90 = (self.p90 > bounds.p90)
            .then(|| format!("one sentence in ten has {} words or more", self.p90));
        median.or(p90)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { words, sentences, median, p90, you, openings, ease } = self;
        write!(
            out,
            "{words:>7} {sentences:>10} {median:>7} {p90:>4} {you:>4} {openings:>9} {ease:>5.0}"
        )
    }
}

/// Whether people say `word` as a word: numbers and code have no syllables to count.
fn is_spoken(word: &str) -> bool {
    word.chars().any(char::is_alphabetic) && !word.chars().any(|c| c.is_ascii_digit())
}

fn is_you(word: &str) -> bool {
    let letters = word.trim_matches(|c: char| !c.is_alphabetic()).to_ascii_lowercase();
    let stem = letters.split(['\'', '’']).next().unwrap_or_default();
    matches!(stem, "you" | "your" | "yours" | "yourself" | "yourselves")
}

/// The smallest of `sorted` that `percent` of all do not exceed; 0 where there is none.
fn nearest_rank(sorted: &[usize], percent: usize) -> usize {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Flesch's formula; a page without a sentence is as easy as can be.
#[allow(clippy::cast_precision_loss, reason = "a page has fewer words than a float has digits")]
fn ease(words: usize, sentences: usize, syllables: usize, spoken: usize) -> f64 {
    if sentences == 0 || spoken == 0 {
        return 100.0;
    }
    let of_sentence = words as f64 / sentences as f64;
    let of_word = syllables as f64 / spoken as f64;
    206.835 - 1.015 * of_sentence - 84.6 * of_word
}

#[cfg(test)]
mod tests {
    use super::super::figures as of;
    use super::*;

    #[test]
    fn ranks_are_values_of_the_page() {
        let ten: Vec<usize> = (1..=10).collect();
        assert_eq!((nearest_rank(&ten, 50), nearest_rank(&ten, 90)), (5, 9));
        assert_eq!((nearest_rank(&[7], 50), nearest_rank(&[7], 90)), (7, 7));
        assert_eq!(nearest_rank(&[], 90), 0);
    }

    #[test]
    fn page_counts_its_words_and_whom_it_addresses() {
        let figures = of("Run `a b c` now. You can stop it.\n\n- Your key, and yours alone.\n");
        assert_eq!((figures.words, figures.sentences), (12, 3));
        assert_eq!((figures.median, figures.p90, figures.you), (4, 5, 3));
    }

    #[test]
    fn long_page_says_what_it_misses() {
        let long = "Word ".repeat(30);
        let missed = |text: &str| of(text).missed(Bounds::PAGES);
        assert_eq!(missed("One word. Two more words."), None);
        assert!(missed(&long).is_some_and(|what| what.contains("half of its sentences have 30")));
        let mixed = format!("{}{long}.", "Short words. ".repeat(8));
        assert!(missed(&mixed).is_some_and(|what| what.contains("one sentence in ten has 30")));
    }

    #[test]
    fn plain_words_are_easier_than_long_ones() {
        let plain = of("The server keeps the key. You can read it there.").ease;
        let hard = of("Authentication necessitates cryptographical verification.").ease;
        assert!(plain > 80.0 && hard < 0.0, "{plain} {hard}");
    }
}
