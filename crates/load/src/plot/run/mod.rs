//! A run over time: panels one above the other on one axis of time.
//!
//! A panel has its title, unit and legend in a line above its frame, so that nothing ever lies on
//! the data. All axes but those of latencies begin at zero: what looks flat is flat. A line breaks
//! where nothing is known. Long runs are thinned to what the picture can show, with every peak
//! kept. So a picture of a day is no larger than one of an hour: under 100 KB as SVG.

mod panel;
mod series;

pub use panel::Panel;

use std::path::Path;

use figures::run::Row;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor, ShapeStyle};

use self::panel::{Quantity, Series, Stroke};
use self::series::{Point, stretches, thinned};
use super::axis::Axis;
use super::theme::Colours;
use super::{FONT, Picture, PlotError, Theme, draw_text, save};

const WIDTH: i32 = 1_000;
const LEFT: i32 = 92;
const RIGHT: i32 = 24;
const TOP_WITH_TITLE: i32 = 76;
const TOP_WITHOUT: i32 = 10;
/// Below the last panel: the texts of the time axis and its name.
const BOTTOM: i32 = 56;
/// Above each panel: its title and legend.
const HEADER: i32 = 36;
const PANEL: i32 = 112;

const TITLE_SIZE: i32 = 22;
const PANEL_TITLE_SIZE: i32 = 15;
const TEXT_SIZE: i32 = 13;
/// Mean width of a letter by its size, of the widest fonts that viewers of an SVG have.
const LETTER: f64 = 0.57;
const SWATCH: i32 = 22;

/// Points of a line are sorted into so many parts of the time axis.
const SLOTS: f64 = 280.0;

/// A run to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct RunPlot<'a> {
    /// In the order of time.
    pub rows: &'a [Row],
    /// What stands above it; may be empty.
    pub title: &'a str,
    /// A smaller line below the title, such as the machine and the command; may be empty.
    pub subtitle: &'a str,
    /// From top to bottom. Those without a single value are left out.
    pub panels: &'a [Panel],
    /// How it looks.
    pub theme: Theme,
}

impl RunPlot<'_> {
    /// Draws into the file `path`, SVG or PNG by its extension.
    ///
    /// # Errors
    /// There is nothing to draw, or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), PlotError> {
        save(self, path)
    }

    /// The panels that have something to show.
    fn shown(&self) -> impl Iterator<Item = Panel> + '_ {
        let has_value =
            |series: &Series| self.rows.iter().any(|row| (series.column)(row).is_some());
        self.panels.iter().copied().filter(move |panel| panel.series().iter().any(has_value))
    }

    fn top(&self) -> i32 {
        if self.title.is_empty() && self.subtitle.is_empty() { TOP_WITHOUT } else { TOP_WITH_TITLE }
    }
}

impl Picture for RunPlot<'_> {
    const DETAIL: u32 = 2;
    const OVERSAMPLING: u32 = 2;

    fn size(&self) -> (u32, u32) {
        let panels = self.shown().count() as i32;
        let height = self.top() + panels * (HEADER + PANEL) + BOTTOM;
        (WIDTH as u32, height as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PlotError> {
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else {
            return Err(PlotError::Empty("the run has no row"));
        };
        if self.shown().next().is_none() {
            return Err(PlotError::Empty("no column of these panels has a value"));
        }
        let colours = self.theme.colours();
        let sheet = Sheet { area, colours, scale: area.dim_in_pixel().0 / WIDTH as u32 };
        area.fill(&colours.ground)?;
        sheet.text(self.title, (LEFT, 30), TITLE_SIZE, colours.ink, HPos::Left)?;
        sheet.text(self.subtitle, (LEFT, 58), TEXT_SIZE, colours.muted, HPos::Left)?;
        let (time, unit) = Axis::time(first.seconds, last.seconds);
        let mut top = self.top();
        for panel in self.shown() {
            let frame = Frame { top: top + HEADER, bottom: top + HEADER + PANEL };
            sheet.panel(panel, self.rows, &time, &frame)?;
            top = frame.bottom;
        }
        for mark in &time.marks {
            let at = (column(time.place(mark.value)).round() as i32, top + 14);
            sheet.text(&mark.text, at, TEXT_SIZE, colours.muted, HPos::Center)?;
        }
        let name = format!("time since the start ({unit})");
        let middle = (LEFT + WIDTH - RIGHT) / 2;
        sheet.text(&name, (middle, top + 38), TEXT_SIZE, colours.muted, HPos::Center)?;
        area.present()?;
        Ok(())
    }
}

/// The upper and the lower edge of a panel.
struct Frame {
    top: i32,
    bottom: i32,
}

impl Frame {
    /// The line in which the share `place` of the axis lies.
    fn line(&self, place: f64) -> f64 {
        f64::from(self.bottom) - place * f64::from(self.bottom - self.top)
    }
}

/// The column in which the share `place` of the time axis lies.
fn column(place: f64) -> f64 {
    f64::from(LEFT) + place * f64::from(WIDTH - RIGHT - LEFT)
}

/// What is drawn on, and with what.
struct Sheet<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    colours: Colours,
    /// Pixels of the area to one of the layout.
    scale: u32,
}

impl<B: DrawingBackend> Sheet<'_, B> {
    fn panel(
        &self,
        panel: Panel,
        rows: &[Row],
        time: &Axis,
        frame: &Frame,
    ) -> Result<(), PlotError> {
        let lines: Vec<(&Series, Vec<Vec<Point>>)> = panel
            .series()
            .iter()
            .map(|series| (series, stretches(rows, series.column)))
            .filter(|(_, stretches)| !stretches.is_empty())
            .collect();
        let values =
            lines.iter().flat_map(|(_, stretches)| stretches.iter().flatten().map(|point| point.1));
        let (axis, unit) = value_axis(panel.quantity(), values);
        self.grid(&axis, time, frame)?;
        for (series, stretches) in &lines {
            let colour = self.colour(series.stroke);
            for stretch in stretches {
                self.line(stretch, &axis, time, frame, colour)?;
            }
        }
        let title = match unit.as_str() {
            "" => panel.title().to_owned(),
            unit => format!("{} ({unit})", panel.title()),
        };
        let baseline = frame.top - HEADER / 2 + 5;
        self.text(&title, (LEFT, baseline), PANEL_TITLE_SIZE, self.colours.ink, HPos::Left)?;
        if lines.len() > 1 {
            self.legend(lines.iter().map(|(series, _)| *series), baseline)?;
        }
        Ok(())
    }

    /// The frame, the lines to read values by, and the texts at the left.
    fn grid(&self, axis: &Axis, time: &Axis, frame: &Frame) -> Result<(), PlotError> {
        let Colours { grid, muted, axis: ink, .. } = self.colours;
        let (left, right) = (f64::from(LEFT), f64::from(WIDTH - RIGHT));
        let (top, bottom) = (f64::from(frame.top), f64::from(frame.bottom));
        for &value in &axis.minor {
            let y = frame.line(axis.place(value));
            self.path(&[(left, y), (right, y)], grid.mix(0.45).stroke_width(self.scale))?;
        }
        for mark in &time.marks {
            let x = column(time.place(mark.value));
            self.path(&[(x, top), (x, bottom)], grid.stroke_width(self.scale))?;
        }
        for mark in &axis.marks {
            let y = frame.line(axis.place(mark.value));
            self.path(&[(left, y), (right, y)], grid.stroke_width(self.scale))?;
            let at = (LEFT - 8, y.round() as i32);
            self.text(&mark.text, at, TEXT_SIZE, muted, HPos::Right)?;
        }
        let frame = [(left, top), (left, bottom), (right, bottom)];
        self.path(&frame, ink.stroke_width(self.scale))
    }

    /// One stretch of a line; a single value is a dot.
    fn line(
        &self,
        stretch: &[Point],
        axis: &Axis,
        time: &Axis,
        frame: &Frame,
        colour: RGBColor,
    ) -> Result<(), PlotError> {
        let points = thinned(stretch, |seconds| (time.place(seconds) * SLOTS) as u32);
        let points: Vec<Point> = points
            .into_iter()
            .map(|(seconds, value)| (column(time.place(seconds)), frame.line(axis.place(value))))
            .collect();
        match points[..] {
            [at] => {
                self.area.draw(&Circle::new(self.pixel(at), 2 * self.scale, colour.filled()))?;
                Ok(())
            }
            _ => self.path(&points, colour.stroke_width(3 * self.scale / 2)),
        }
    }

    /// Swatches and names, the last one at the right edge.
    fn legend<'s>(
        &self,
        series: impl DoubleEndedIterator<Item = &'s Series>,
        baseline: i32,
    ) -> Result<(), PlotError> {
        let mut right = WIDTH - RIGHT;
        for series in series {
            let left = right - (series.name.len() as f64 * LETTER * f64::from(TEXT_SIZE)) as i32;
            self.text(series.name, (left, baseline), TEXT_SIZE, self.colours.muted, HPos::Left)?;
            let corner = |x: i32, y: i32| self.pixel((f64::from(x), f64::from(y)));
            let swatch = [corner(left - 7 - SWATCH, baseline - 1), corner(left - 7, baseline + 2)];
            let style = self.colour(series.stroke).filled();
            self.area.draw(&Rectangle::new(swatch, style))?;
            right = left - 7 - SWATCH - 20;
        }
        Ok(())
    }

    fn colour(&self, stroke: Stroke) -> RGBColor {
        match stroke {
            Stroke::First => self.colours.lines[0],
            Stroke::Second => self.colours.lines[1],
            Stroke::Third => self.colours.lines[2],
            Stroke::Faint => self.colours.faint,
        }
    }

    /// A point of the layout in pixels of the area.
    fn pixel(&self, (x, y): Point) -> (i32, i32) {
        let scale = f64::from(self.scale);
        ((x * scale).round() as i32, (y * scale).round() as i32)
    }

    fn path(&self, points: &[Point], style: impl Into<ShapeStyle>) -> Result<(), PlotError> {
        let points: Vec<(i32, i32)> =
            points.iter().copied().map(|point| self.pixel(point)).collect();
        self.area.draw(&PathElement::new(points, style))?;
        Ok(())
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
        let at = self.pixel((f64::from(at.0), f64::from(at.1)));
        draw_text(self.area, text, at, (FONT, size * self.scale as i32), colour, side)
    }
}

/// The axis that holds `values`, and the unit that it counts in.
fn value_axis(quantity: Quantity, values: impl Iterator<Item = f64> + Clone) -> (Axis, String) {
    let most = values.clone().fold(0.0, f64::max);
    match quantity {
        Quantity::Bytes => {
            let (unit, name) = match most {
                1e9.. => (1e9, "GB"),
                1e6.. => (1e6, "MB"),
                _ => (1e3, "kB"),
            };
            (Axis::from_zero(most, unit), name.to_owned())
        }
        Quantity::Number(name) => (Axis::from_zero(most, 1.0), name.to_owned()),
        Quantity::Milliseconds => {
            // What took no time that can be told has no place on a logarithmic axis.
            let over_zero = values.filter(|&ms| ms > 0.0);
            let least = over_zero.fold(f64::INFINITY, f64::min);
            let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 1.0) };
            (Axis::logarithmic(least, most), "ms".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
