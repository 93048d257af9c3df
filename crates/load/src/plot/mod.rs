//! Pictures: SVG or PNG, by the file's extension.
//!
//! They look the same on every machine. PNG text is drawn with fonts that come with the program
//! (Ubuntu, Hack), and SVG text is measured with them and left to the viewer's fonts. Colours are
//! those of a [`Theme`].

mod axis;
mod degrees;
mod run;
mod theme;

pub use degrees::{Degrees, PowerLaw};
pub use run::{Panel, RunPlot};
pub use theme::{Look, Theme};

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, IntoFont, RGBColor, register_font};

const FONT: &str = "sans-serif";

/// It has the superscripts that the other lacks.
const MONOSPACE_FONT: &str = "monospace";

/// Red, green and blue.
const CHANNELS: usize = 3;

/// Why a picture could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The file's name does not say what kind of picture it is to be.
    #[error("`{0}` ends in neither .svg nor .png")]
    Extension(PathBuf),
    /// There is nothing to draw.
    #[error("there is nothing to plot: {0}")]
    Empty(&'static str),
    /// The file cannot be written.
    #[error("cannot write `{path}`: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The drawing itself failed.
    #[error("cannot draw: {0}")]
    Draw(String),
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> PlotError {
        PlotError::Draw(error.to_string())
    }
}

/// Something that can be drawn.
trait Picture {
    /// Pixels of the file for each one shown, so that it is sharp on paper and on dense screens.
    const DETAIL: u32;

    /// How much finer PNG is drawn, to be averaged then: lines have no smooth edges of their own.
    const OVERSAMPLING: u32;

    /// Width and height, as shown.
    fn size(&self) -> (u32, u32);

    /// Rules of style that an SVG has beside its colours; none for most.
    fn style(&self) -> String {
        String::new()
    }

    /// Draws on an area of that size, or of a multiple.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), PlotError>;
}

/// Draws `picture` into the file `path`.
fn save(picture: &impl Picture, path: &Path) -> Result<(), PlotError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let bytes = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => svg(picture)?.into_bytes(),
        Some("png") => png(picture)?,
        _ => return Err(PlotError::Extension(path.to_owned())),
    };
    fs::write(path, bytes).map_err(|error| PlotError::Write { path: path.to_owned(), error })
}

fn svg<P: Picture>(picture: &P) -> Result<String, PlotError> {
    register_fonts()?;
    let (width, height) = picture.size();
    let (fine_width, fine_height) = (width * P::DETAIL, height * P::DETAIL);
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, (fine_width, fine_height));
    picture.draw(&backend.into_drawing_area())?;
    // Coordinates are whole numbers; the viewBox makes them finer than the pixels of a screen.
    let drawn = format!("width=\"{fine_width}\" height=\"{fine_height}\"");
    let shown = format!("width=\"{width}\" height=\"{height}\"");
    let text = text.replacen(&drawn, &shown, 1);
    let style = picture.style();
    Ok(match text.find('>') {
        Some(end) if !style.is_empty() => {
            let (head, rest) = text.split_at(end + 1);
            format!("{head}\n<style>{style}</style>{rest}")
        }
        _ => text,
    })
}

fn png<P: Picture>(picture: &P) -> Result<Vec<u8>, PlotError> {
    register_fonts()?;
    let (width, height) = picture.size();
    let (width, height) = (width * P::DETAIL, height * P::DETAIL);
    let finer = (width * P::OVERSAMPLING, height * P::OVERSAMPLING);
    let mut pixels = vec![0; (finer.0 * finer.1) as usize * CHANNELS];
    picture.draw(&BitMapBackend::with_buffer(&mut pixels, finer).into_drawing_area())?;
    let pixels = averaged(&pixels, width as usize, P::OVERSAMPLING as usize);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(BufWriter::new(&mut file), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let failed = |error: png::EncodingError| PlotError::Draw(error.to_string());
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

/// The means of squares of `side` times `side` pixels, `width` of which make a line.
fn averaged(pixels: &[u8], width: usize, side: usize) -> Vec<u8> {
    if side == 1 {
        return pixels.to_vec();
    }
    let fine_line = width * side * CHANNELS;
    let mut means = Vec::with_capacity(pixels.len() / (side * side));
    for lines in pixels.chunks_exact(fine_line * side) {
        for column in 0..width {
            for channel in 0..CHANNELS {
                let first = column * side * CHANNELS + channel;
                let square = (0..side).flat_map(|line| {
                    (0..side).map(move |pixel| line * fine_line + first + pixel * CHANNELS)
                });
                let sum: usize = square.map(|at| usize::from(lines[at])).sum();
                means.push((sum / (side * side)) as u8);
            }
        }
    }
    means
}

/// Draws `text` beside the pixel `at`, on whose height its middle is; `font` is a family and a size
/// in pixels.
fn draw_text<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    text: &str,
    at: (i32, i32),
    font: (&str, i32),
    colour: RGBColor,
    side: HPos,
) -> Result<(), PlotError> {
    if text.is_empty() {
        return Ok(());
    }
    let style = font.into_font().color(&colour).pos(Pos::new(side, VPos::Center));
    area.draw_text(text, &style, at)?;
    Ok(())
}

fn register_fonts() -> Result<(), PlotError> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        let fonts = [
            (FONT, epaint_default_fonts::UBUNTU_LIGHT),
            (MONOSPACE_FONT, epaint_default_fonts::HACK_REGULAR),
        ];
        fonts
            .into_iter()
            .all(|(family, font)| register_font(family, FontStyle::Normal, font).is_ok())
    });
    if *registered { Ok(()) } else { Err(PlotError::Draw("a font is broken".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averaged_pixels_are_the_means_of_their_squares() {
        let white = [255; CHANNELS];
        let black = [0; CHANNELS];
        let lines = [[white, white, black, black], [white, black, black, black]];
        let pixels = lines.concat().concat();
        assert_eq!(averaged(&pixels, 2, 2), [[191; CHANNELS], black].concat());
        assert_eq!(averaged(&pixels, 4, 1), pixels);
    }
}
