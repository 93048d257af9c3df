//! Axes: where they begin and end, which values are marked on them, and how those are written.
//!
//! Marks stand at round values: 1, 2 or 5 of a power of ten; of time, what clocks divide by.

use figures::numbers::grouped;

/// A stretch of values with its marks.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Values with a line and a text.
    pub(super) marks: Vec<Mark>,
    /// Values with a line only.
    pub(super) minor: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Scale {
    Linear,
    Logarithmic,
}

/// A marked value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Mark {
    pub(super) value: f64,
    pub(super) text: String,
}

/// Marks of a linear axis, at most.
const MARKS_MAX: f64 = 4.0;

/// Marks of the time axis, at most.
const TIME_MARKS_MAX: f64 = 10.0;

/// Decades up to which a logarithmic axis names 2 and 5, too.
const DETAILED_DECADES: i32 = 1;

/// Decades up to which it has lines for the other digits.
const MINOR_DECADES: i32 = 2;

/// Decades that a logarithmic axis shows at most.
const DECADES_MAX: i32 = 9;

/// What people divide time by, in seconds, and how the axis then counts: the factor and its name.
const TIME_UNITS: [(f64, &str, &[f64]); 4] = [
    (1.0, "seconds", &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0]),
    (60.0, "minutes", &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0]),
    (3_600.0, "hours", &[1.0, 2.0, 3.0, 6.0, 12.0]),
    (86_400.0, "days", &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]),
];

impl Axis {
    /// From 0 to over `most`, by values of `unit` each.
    pub(super) fn from_zero(most: f64, unit: f64) -> Axis {
        let most = if most > 0.0 { most / unit } else { 1.0 };
        let step = round_step(most / MARKS_MAX);
        let count = (most / step * (1.0 - 1e-9)).ceil();
        let decimals = decimals(step);
        let mark = |number: u32| {
            let value = f64::from(number) * step;
            Mark { value: value * unit, text: decimal(value, decimals) }
        };
        let marks = (0..=count as u32).map(mark).collect();
        Axis {
            low: 0.0,
            // Room above the highest mark for a line that runs along it.
            high: count * step * unit * 1.04,
            scale: Scale::Linear,
            marks,
            minor: Vec::new(),
        }
    }

    /// Whole decades around the values from `least` to `most`, both over 0.
    pub(super) fn logarithmic(least: f64, most: f64) -> Axis {
        let high = (most.log10() - 1e-9).ceil() as i32;
        let low = ((least.log10() + 1e-9).floor() as i32).clamp(high - DECADES_MAX, high - 1);
        let detailed = high - low <= DETAILED_DECADES;
        let (mut marks, mut minor) = (Vec::new(), Vec::new());
        for decade in low..=high {
            for digit in 1..=9 {
                let value = f64::from(digit) * 10_f64.powi(decade);
                if decade == high && digit > 1 {
                    break;
                }
                if digit == 1 || (detailed && [2, 5].contains(&digit)) {
                    marks.push(Mark { value, text: decimal(value, decade.min(0).unsigned_abs()) });
                } else if high - low <= MINOR_DECADES {
                    minor.push(value);
                }
            }
        }
        let (low, high) = (10_f64.powi(low), 10_f64.powi(high));
        Axis { low, high, scale: Scale::Logarithmic, marks, minor }
    }

    /// From the time `low` to `high`, in seconds; also the unit that its texts count in.
    pub(super) fn time(low: f64, high: f64) -> (Axis, &'static str) {
        // Runs begin at 0, or a blink later.
        let low = if low < 0.02 * high { 0.0 } else { low };
        // A single moment has room around it.
        let high = if high > low { high } else { (low + 1.0).max(low.next_up()) };
        let enough = |step: f64| (high - low) / step <= TIME_MARKS_MAX;
        let steps = TIME_UNITS.iter().flat_map(|&(unit, name, steps)| {
            steps.iter().map(move |&step| (unit, name, step * unit))
        });
        let (unit, name, step) =
            steps.into_iter().find(|&(_, _, step)| enough(step)).unwrap_or_else(|| {
                let day = 86_400.0;
                (day, "days", day * round_step((high - low) / day / TIME_MARKS_MAX))
            });
        let decimals = decimals(step / unit);
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        // Counted, since beside a large number one more is nothing.
        let count = (last - first + 1.0).clamp(0.0, 2.0 * TIME_MARKS_MAX) as u32;
        let mark = |nth: u32| {
            let value = (first + f64::from(nth)) * step;
            Mark { value, text: decimal(value / unit, decimals) }
        };
        let marks = (0..count).map(mark).collect();
        (Axis { low, high, scale: Scale::Linear, marks, minor: Vec::new() }, name)
    }

    /// The least value that has a place.
    pub(super) fn low(&self) -> f64 {
        self.low
    }

    /// The greatest one.
    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// Where `value` lies: 0 at the low end, 1 at the high one, within these.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        share.clamp(0.0, 1.0)
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Digits behind the point that tell multiples of `step` apart.
fn decimals(step: f64) -> u32 {
    (-(step.log10() + 1e-9).floor()).max(0.0) as u32
}

/// A number with so many digits behind the point, thousands grouped.
fn decimal(value: f64, decimals: u32) -> String {
    if decimals == 0 {
        return grouped(value.round().max(0.0) as u64);
    }
    format!("{value:.*}", decimals as usize)
}

#[cfg(test)]
mod tests;
