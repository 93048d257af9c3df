//! The degree distribution of a graph: on logarithmic axes a power law is a straight line.
//!
//! Of a large degree few users have exactly that many friends, so single degrees scatter in the
//! tail. They are drawn faintly; the points to read are averages over bins that grow by a constant
//! factor (Newman, "Power laws, Pareto distributions and Zipf's law", 2005, section II).

use std::path::Path;

use figures::numbers::grouped;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor, ShapeStyle};

use super::axis::Axis;
use super::theme::Colours;
use crate::plot::{FONT, Look, MONOSPACE_FONT, Picture, PlotError, draw_text, save};

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_200, 800);
/// The frame in it: what is left are the texts of the axes.
const LEFT: i32 = 100;
const RIGHT: i32 = 1_160;
const TOP: i32 = 104;
const BOTTOM: i32 = 720;
const LEGEND_WIDTH: i32 = 330;
const TEXT_SIZE: i32 = 17;
const BINS_PER_DECADE: f64 = 10.0;

/// A degree distribution to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Degrees<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// Degrees and how many users have each, ascending; those with degree 0 have no place here.
    pub counts: &'a [(u64, u64)],
    /// The power law to draw beside it.
    pub power_law: Option<PowerLaw>,
    /// How it looks.
    pub look: Look,
}

/// A power law: among users with at least `from` friends, the share of those with `k` falls as
/// `k^-exponent`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PowerLaw {
    /// Its exponent, over 1.
    pub exponent: f64,
    /// The degree that it holds from.
    pub from: u64,
}

impl Degrees<'_> {
    /// Draws into the file `path`, SVG or PNG by its extension.
    pub fn save(&self, path: &Path) -> Result<(), PlotError> {
        save(self, path)
    }

    fn users(&self) -> f64 {
        self.counts.iter().map(|&(_, users)| users as f64).sum()
    }

    /// Each degree's share of the users.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let users = self.users();
        let seen = self.counts.iter().filter(|&&(degree, count)| degree > 0 && count > 0);
        seen.map(move |&(degree, count)| (degree as f64, count as f64 / users))
    }

    /// Averages over bins, at their middle: the mean share of the bin's integers, those that
    /// nobody has included. The first bin starts at the lowest degree, since below it there is
    /// no distribution; a bin without users is left out.
    fn bins(&self) -> Vec<(f64, f64)> {
        let edge = |bin: i32| 10_f64.powf(f64::from(bin) / BINS_PER_DECADE).ceil() as u64;
        let (Some(&(first, _)), Some(&(last, _))) = (self.counts.first(), self.counts.last())
        else {
            return Vec::new();
        };
        let users = self.users();
        let mut bins = Vec::new();
        for bin in 0.. {
            let (from, until) = (edge(bin).max(first), edge(bin + 1));
            if from > last {
                break;
            }
            let within = self.counts.iter().filter(|&&(degree, _)| (from..until).contains(&degree));
            let count: u64 = within.map(|&(_, users)| users).sum();
            if count > 0 {
                let middle = ((from * (until - 1)) as f64).sqrt();
                bins.push((middle, count as f64 / users / (until - from) as f64));
            }
        }
        bins
    }

    /// Two ends of the line of `law`, up to `last`: a continuous power law that holds the same
    /// share of the users as the tail does.
    fn line(&self, law: PowerLaw, last: f64) -> Vec<(f64, f64)> {
        let from = law.from.max(1) as f64;
        let tail: f64 = self.points().filter(|&(degree, _)| degree >= from).map(|(_, p)| p).sum();
        // Half a step before the first integer, so that the sum over integers comes out right
        // (Clauset, Shalizi and Newman, 2009, section 3.5).
        let start = from - 0.5;
        let share = |degree: f64| {
            tail * (law.exponent - 1.0) / start * (degree / start).powf(-law.exponent)
        };
        vec![(from, share(from)), (last, share(last))]
    }
}

impl Picture for Degrees<'_> {
    const DETAIL: u32 = 2;
    const OVERSAMPLING: u32 = 2;

    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn style(&self) -> String {
        self.look.style()
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PlotError> {
        let points: Vec<_> = self.points().collect();
        let (Some(&(first, _)), Some(&(last, _))) = (points.first(), points.last()) else {
            return Err(PlotError::Empty("no user has a friend"));
        };
        let bins = self.bins();
        let law = self.power_law.map(|law| (law, self.line(law, last)));
        let shares = points.iter().chain(&bins).map(|&(_, share)| share);
        let (least, most) =
            shares.fold((1.0_f64, 0.0_f64), |(least, most), p| (least.min(p), most.max(p)));
        let colours = self.look.colours();
        let scale = area.dim_in_pixel().0 / SIZE.0;
        let (degrees, shares) = (Axis::logarithmic(first, last), Axis::logarithmic(least, most));
        let chart = Chart { area, colours, scale, degrees, shares };
        area.fill(&colours.ground)?;
        chart.text(self.title, (LEFT, 40), 24, colours.ink, HPos::Left)?;
        chart.axes()?;
        let [single, line, _] = colours.lines;
        for &at in &points {
            chart.dot(chart.place(at), 3, single.mix(0.3).filled())?;
        }
        for &at in &bins {
            chart.dot(chart.place(at), 6, single.filled())?;
        }
        let mut legend = vec!["one degree".to_owned(), "mean over a bin".to_owned()];
        if let Some((law, ends)) = law {
            // Where the law leaves the frame, its line ends.
            let ends = chart.within(&ends).map(|at| chart.place(at));
            chart.path(&ends, line.stroke_width(2 * scale))?;
            legend.push(format!("power law, exponent {:.2}, from {}", law.exponent, law.from));
        }
        chart.legend(&legend)?;
        area.present()?;
        Ok(())
    }
}

/// What is drawn on, with what, and where values lie.
struct Chart<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    colours: Colours,
    /// Pixels of the area to one of the layout.
    scale: u32,
    degrees: Axis,
    shares: Axis,
}

impl<B: DrawingBackend> Chart<'_, B> {
    /// Lines to read values by, their texts, and what the axes are.
    fn axes(&self) -> Result<(), PlotError> {
        let Colours { grid, muted, axis: ink, .. } = self.colours;
        let (degrees, shares) = (&self.degrees, &self.shares);
        let thin = grid.mix(0.5).stroke_width(self.scale);
        let upright = |value: f64| [(value, 0.0), (value, 1.0)];
        let line = |at: f64, style: ShapeStyle| {
            let ends = upright(at).map(|(x, y)| (column(x), row(y)));
            self.path(&ends, style)
        };
        let level = |at: f64, style: ShapeStyle| {
            let ends = upright(at).map(|(y, x)| (column(x), row(y)));
            self.path(&ends, style)
        };
        for &value in &degrees.minor {
            line(degrees.place(value), thin)?;
        }
        for &value in &shares.minor {
            level(shares.place(value), thin)?;
        }
        for mark in &degrees.marks {
            let at = degrees.place(mark.value);
            line(at, grid.stroke_width(self.scale))?;
            let text = grouped(mark.value.round() as u64);
            self.text(&text, (column(at), BOTTOM + 22), TEXT_SIZE, muted, HPos::Center)?;
        }
        for mark in &shares.marks {
            let at = shares.place(mark.value);
            level(at, grid.stroke_width(self.scale))?;
            self.text(&share(mark.value), (LEFT - 10, row(at)), TEXT_SIZE, muted, HPos::Right)?;
        }
        let frame = [(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)];
        self.path(&frame, ink.stroke_width(self.scale))?;
        let middle = ((LEFT + RIGHT) / 2, BOTTOM + 54);
        self.text("degree (friends of a user)", middle, TEXT_SIZE + 2, muted, HPos::Center)?;
        self.text("share of users", (LEFT, TOP - 18), TEXT_SIZE + 2, muted, HPos::Left)
    }

    /// What the marks mean, in the corner that a distribution leaves free.
    fn legend(&self, names: &[String]) -> Result<(), PlotError> {
        let [single, line, _] = self.colours.lines;
        let left = RIGHT - LEGEND_WIDTH;
        for (at, name) in names.iter().enumerate() {
            let y = TOP + 24 + 30 * at as i32;
            match at {
                0 => self.dot((left + 14, y), 3, single.mix(0.3).filled())?,
                1 => self.dot((left + 14, y), 6, single.filled())?,
                _ => {
                    let ends = [(left, y), (left + 28, y)];
                    self.path(&ends, line.stroke_width(2 * self.scale))?;
                }
            }
            self.text(name, (left + 42, y), TEXT_SIZE, self.colours.ink, HPos::Left)?;
        }
        Ok(())
    }

    /// Where a degree and its share lie in the layout.
    fn place(&self, (degree, share): (f64, f64)) -> (i32, i32) {
        (column(self.degrees.place(degree)), row(self.shares.place(share)))
    }

    /// The part of a power law's line between two points that is inside of the frame.
    fn within(&self, ends: &[(f64, f64)]) -> [(f64, f64); 2] {
        let &[from, to] = ends else { return [(1.0, 1.0); 2] };
        let slope = (to.1 / from.1).ln() / (to.0 / from.0).ln();
        let at = |share: f64| from.0 * (share / from.1).powf(1.0 / slope);
        let (low, high) = (self.shares.low(), self.shares.high());
        let cut = |(degree, share): (f64, f64)| match share {
            share if share > high => (at(high), high),
            share if share < low => (at(low), low),
            share => (degree, share),
        };
        [cut(from), cut(to)]
    }

    fn dot(&self, at: (i32, i32), radius: u32, style: ShapeStyle) -> Result<(), PlotError> {
        self.area.draw(&Circle::new(self.pixel(at), radius * self.scale, style))?;
        Ok(())
    }

    fn path(&self, points: &[(i32, i32)], style: impl Into<ShapeStyle>) -> Result<(), PlotError> {
        let points: Vec<_> = points.iter().map(|&at| self.pixel(at)).collect();
        self.area.draw(&PathElement::new(points, style))?;
        Ok(())
    }

    fn pixel(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.scale as i32, y * self.scale as i32)
    }

    /// `text` beside the point `at`, on whose height its middle is.
    fn text(
        &self,
        text: &str,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
        side: HPos,
    ) -> Result<(), PlotError> {
        // Only one of the fonts has the superscripts.
        let family = if text.starts_with("10") && !text.is_ascii() { MONOSPACE_FONT } else { FONT };
        let font = (family, size * self.scale as i32);
        draw_text(self.area, text, self.pixel(at), font, colour, side)
    }
}

/// The column in which the share `place` of the axis of degrees lies.
fn column(place: f64) -> i32 {
    LEFT + (place * f64::from(RIGHT - LEFT)).round() as i32
}

/// The line in which the share `place` of the axis of shares lies.
fn row(place: f64) -> i32 {
    BOTTOM - (place * f64::from(BOTTOM - TOP)).round() as i32
}

/// `0.001` as `10⁻³`, and what is between the powers of ten as it is.
fn share(share: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent = share.log10().round();
    if (share.log10() - exponent).abs() > 1e-6 || exponent >= -1.0 {
        let decimals = (-share.log10().floor()).max(0.0) as usize;
        return format!("{share:.decimals$}");
    }
    let digits = (exponent as i32).unsigned_abs().to_string();
    let digits = digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]);
    format!("10⁻{}", digits.collect::<String>())
}

#[cfg(test)]
mod tests;
