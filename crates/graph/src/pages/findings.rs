//! What a check has found wrong.

/// Sentences about what is damaged: the first ones, and how many there are.
#[derive(Debug)]
pub(in super::super) struct Findings {
    pub(in super::super) first: Vec<String>,
    pub(in super::super) count: u64,
    /// Sentences that are kept.
    named_max: usize,
    /// Whether the first one ends the check.
    ends_at_first: bool,
}

/// The check need not go on.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Enough;

impl Findings {
    /// For one who wants to know whether all is well.
    pub(in super::super) fn first_only() -> Findings {
        Findings { first: Vec::new(), count: 0, named_max: 1, ends_at_first: true }
    }

    /// For one who wants to know what is wrong: `named_max` sentences of it.
    pub(in super::super) fn all(named_max: usize) -> Findings {
        Findings { first: Vec::new(), count: 0, named_max, ends_at_first: false }
    }

    /// Takes note of one more.
    pub(in super::super) fn note(&mut self, what: impl Into<String>) -> Result<(), Enough> {
        self.count += 1;
        if self.first.len() < self.named_max {
            self.first.push(what.into());
        }
        if self.ends_at_first { Err(Enough) } else { Ok(()) }
    }
}
