//! The degree distribution of a graph: on logarithmic axes a power law is a straight line.
//!
//! Of a large degree few users have exactly that many friends, so single degrees scatter in the
//! tail. They are drawn faintly; the points to read are averages over bins that grow by a constant
//! factor (Newman, "Power laws, Pareto distributions and Zipf's law", 2005, section II).

use std::path::Path;

use figures::numbers::grouped;
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement};
use plotters::prelude::{DrawingBackend, IntoLogRange};
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color, IntoFont, ShapeStyle, WHITE};

use crate::plot::{FONT, MONOSPACE_FONT, Picture, PlotError, Theme, save};

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_200, 800);
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
    const DETAIL: u32 = 1;
    const OVERSAMPLING: u32 = 1;

    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PlotError> {
        let points: Vec<_> = self.points().collect();
        let (Some(&(first, _)), Some(&(last, _))) = (points.first(), points.last()) else {
            return Err(PlotError::Empty("no user has a friend"));
        };
        let bins = self.bins();
        let shares = points.iter().chain(&bins).map(|&(_, share)| share);
        let (least, most) =
            shares.fold((1.0_f64, 0.0_f64), |(least, most), p| (least.min(p), most.max(p)));
        let [single, law, _] = Theme::Light.colours().lines;
        area.fill(&WHITE)?;
        let title = (FONT, 26).into_font().color(&BLACK);
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, title)
            .margin(20)
            .x_label_area_size(60)
            .y_label_area_size(90)
            .build_cartesian_2d(
                (first * 0.8..last * 1.3).log_scale(),
                (least * 0.5..(most * 2.0).min(1.5)).log_scale(),
            )?;
        chart
            .configure_mesh()
            .x_desc("degree (friends of a user)")
            .y_desc("share of users")
            .x_label_formatter(&|degree| grouped(degree.round() as u64))
            .y_label_formatter(&|share| power_of_ten(*share))
            .axis_desc_style((FONT, 20))
            .x_label_style((FONT, 16))
            .y_label_style((MONOSPACE_FONT, 15))
            .bold_line_style(BLACK.mix(0.15))
            .light_line_style(BLACK.mix(0.05))
            .draw()?;
        let dot =
            |style: ShapeStyle, radius| move |&at: &(f64, f64)| Circle::new(at, radius, style);
        let faint: ShapeStyle = single.mix(0.25).filled();
        chart
            .draw_series(points.iter().map(dot(faint, 3)))?
            .label("one degree")
            .legend(move |(x, y)| Circle::new((x + 14, y), 3, faint));
        chart
            .draw_series(bins.iter().map(dot(single.filled(), 6)))?
            .label("mean over a bin")
            .legend(move |(x, y)| Circle::new((x + 14, y), 6, single.filled()));
        if let Some(power_law) = self.power_law {
            let style = law.stroke_width(2);
            chart
                .draw_series(LineSeries::new(self.line(power_law, last), style))?
                .label(format!(
                    "power law, exponent {:.2}, from {}",
                    power_law.exponent, power_law.from
                ))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 28, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .legend_area_size(40)
            .margin(16)
            .label_font((FONT, 18))
            .background_style(WHITE)
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// `0.001` as `10⁻³`, and as it is where it is no power of ten.
fn power_of_ten(share: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent = share.log10().round();
    if (share.log10() - exponent).abs() > 1e-6 {
        return format!("{share:.1e}");
    }
    match exponent as i32 {
        0 => "1".to_owned(),
        exponent => {
            let sign = if exponent < 0 { "⁻" } else { "" };
            let digits = exponent.unsigned_abs().to_string();
            let digits = digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]);
            format!("10{sign}{}", digits.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests;
