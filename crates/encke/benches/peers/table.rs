//! The table has a line for each figure: the median over all rounds, the smallest and the largest
//! value, and the ratio to the bare loop. That is the median of the ratios of the rounds.

use figures::numbers::grouped;

use crate::rows::Figure;
use crate::systems::System;

/// Columns of a system.
const WIDTH: usize = 38;

/// Columns of a figure's name.
const NAME_WIDTH: usize = 35;

/// Figures of all rounds.
#[derive(Default)]
pub(crate) struct Table {
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    /// By system, a value for each round.
    values: [Vec<f64>; System::ALL.len()],
}

impl Table {
    /// Takes what one system did in one round.
    pub(crate) fn take(&mut self, system: System, figures: Vec<Figure>) {
        for Figure { name, value } in figures {
            let place = self.lines.iter().position(|line| line.name == name);
            let place = place.unwrap_or_else(|| {
                self.lines.push(Line { name, values: Default::default() });
                self.lines.len() - 1
            });
            self.lines[place].values[system as usize].push(value);
        }
    }

    /// Forgets a system that did not last.
    pub(crate) fn forget(&mut self, system: System) {
        self.lines.iter_mut().for_each(|line| line.values[system as usize].clear());
    }

    pub(crate) fn print(&self) {
        let is_there = |system: &System| {
            self.lines.iter().any(|line| !line.values[*system as usize].is_empty())
        };
        let systems: Vec<System> = System::ALL.into_iter().filter(is_there).collect();
        print!("\n{:<NAME_WIDTH$}", "median (min to max), ratio");
        systems.iter().for_each(|system| print!("{:>WIDTH$}", system.name()));
        println!();
        for line in &self.lines {
            print!("{:<NAME_WIDTH$}", line.name);
            systems.iter().for_each(|&system| print!("{:>WIDTH$}", line.cell(system)));
            println!();
        }
    }
}

impl Line {
    fn cell(&self, system: System) -> String {
        let values = sorted(&self.values[system as usize]);
        let (Some(&least), Some(&most)) = (values.first(), values.last()) else {
            return String::new();
        };
        let bare = &self.values[System::Bare as usize];
        let ratios =
            self.values[system as usize].iter().zip(bare).map(|(value, bare)| value / bare);
        let ratios = sorted(&ratios.collect::<Vec<_>>());
        let ratio = match ratios.is_empty() || system == System::Bare {
            true => String::new(),
            false => format!(" {:.2}", median(&ratios)),
        };
        format!("{} ({} to {}){ratio}", number(median(&values)), number(least), number(most))
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle one; of an even number the mean of the two.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// Three digits, or all that stand before the point.
fn number(value: f64) -> String {
    match value {
        100.0.. => grouped(value.round() as u64),
        _ => format!("{value:.1}"),
    }
}
