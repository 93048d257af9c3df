//! The table that is printed, line by line as figures come.

use figures::numbers::grouped;

/// Where a line's bound stands.
const BOUND_COLUMN: usize = 46;

/// What was printed, and whether all oracles held.
pub(crate) struct Table {
    broken: u64,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table { broken: 0 }
    }

    /// A row begins.
    pub(crate) fn row(&mut self, name: &str) {
        println!("{name}");
    }

    pub(crate) fn all_hold(&self) -> bool {
        self.broken == 0
    }

    /// A figure without a bound.
    pub(crate) fn shown(&mut self, what: &str, value: impl std::fmt::Display) {
        println!("  {what:<BOUND_COLUMN$} {value}");
    }

    /// What must be exactly so.
    pub(crate) fn oracle(&mut self, what: &str, is: u64, must_be: u64) {
        let result = if is == must_be { "" } else { "  BROKEN" };
        self.broken += u64::from(is != must_be);
        println!("  {what:<BOUND_COLUMN$} {} ({}){result}", grouped(is), grouped(must_be));
    }

    /// A figure that is to be at most so much.
    pub(crate) fn most(&mut self, what: &str, is: f64, most: f64, unit: &str) {
        let result = if is <= most { "" } else { "  over" };
        println!("  {what:<BOUND_COLUMN$} {is:.2}{unit} (at most {most}{unit}){result}");
    }

    /// A figure that is to be at least so much.
    pub(crate) fn least(&mut self, what: &str, is: f64, least: f64, unit: &str) {
        let result = if is >= least { "" } else { "  under" };
        let (is, least) = (grouped(is as u64), grouped(least as u64));
        println!("  {what:<BOUND_COLUMN$} {is}{unit} (at least {least}{unit}){result}");
    }
}
