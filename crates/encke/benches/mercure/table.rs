//! The figures, with their bounds, as a table of Markdown.

use figures::numbers::grouped;

/// What a figure may be.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// It has none.
    None,
}

/// Figures, in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Table {
    lines: Vec<[String; 3]>,
    is_past: bool,
}

impl Table {
    /// Takes a figure and prints it, so that it is seen before the end.
    pub(crate) fn take(&mut self, name: &str, figure: f64, unit: &str, bound: Bound) {
        let (is_within, bound) = match bound {
            Bound::AtMost(most) => (figure <= most, format!("at most {}", number(most))),
            Bound::AtLeast(least) => (figure >= least, format!("at least {}", number(least))),
            Bound::None => (true, String::new()),
        };
        self.is_past |= !is_within;
        let past = if is_within { "" } else { ": past it" };
        let figure = format!("{} {unit}", number(figure));
        self.line(name, figure.trim_end().to_owned(), format!("{bound}{past}"));
    }

    /// Takes what is no single figure.
    pub(crate) fn tell(&mut self, name: &str, text: String) {
        self.line(name, text, String::new());
    }

    /// What was to be heard was not, or twice.
    pub(crate) fn fault(&mut self, name: &str, what: String) {
        self.is_past = true;
        self.line(name, what, "none of it".to_owned());
    }

    fn line(&mut self, name: &str, figure: String, bound: String) {
        let bound_or_not = if bound.is_empty() { String::new() } else { format!(" ({bound})") };
        println!("  {name}: {figure}{bound_or_not}");
        self.lines.push([name.to_owned(), figure, bound]);
    }

    /// Whether all figures are within their bounds, and nothing went wrong.
    pub(crate) fn is_within(&self) -> bool {
        !self.is_past
    }

    pub(crate) fn print(&self) {
        println!("\n| figure | measured | bound |\n| --- | --- | --- |");
        for [name, figure, bound] in &self.lines {
            println!("| {name} | {figure} | {bound} |");
        }
    }
}

/// Three digits, or all that stand before the point.
pub(crate) fn number(value: f64) -> String {
    match value {
        100.0.. => grouped(value.round() as u64),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
