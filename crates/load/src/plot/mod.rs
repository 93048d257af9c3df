//! Pictures: SVG or PNG, by the file's extension.
//!
//! They look the same on every machine: PNG text is drawn with a font that comes with the program
//! (Hack), and SVG text is measured with it and left to the viewer's fonts. Colours are from Okabe
//! and Ito's palette, which people with colour-blindness can tell apart.

mod degrees;

pub use degrees::{Degrees, PowerLaw};

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::DrawingBackend;
use plotters::style::{FontStyle, register_font};

/// Width and height in pixels.
const SIZE: (u32, u32) = (1_200, 800);
const FONT: &str = "sans-serif";

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

fn svg(picture: &impl Picture) -> Result<String, PlotError> {
    register_fonts()?;
    let mut text = String::new();
    picture.draw(&SVGBackend::with_string(&mut text, SIZE).into_drawing_area())?;
    Ok(text)
}

fn png(picture: &impl Picture) -> Result<Vec<u8>, PlotError> {
    register_fonts()?;
    let (width, height) = SIZE;
    let mut pixels = vec![0; (width * height * 3) as usize];
    picture.draw(&BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area())?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(BufWriter::new(&mut file), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let failed = |error: png::EncodingError| PlotError::Draw(error.to_string());
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

fn register_fonts() -> Result<(), PlotError> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        let font = epaint_default_fonts::HACK_REGULAR;
        [FontStyle::Normal, FontStyle::Bold]
            .into_iter()
            .all(|style| register_font(FONT, style, font).is_ok())
    });
    if *registered { Ok(()) } else { Err(PlotError::Draw("the font is broken".to_owned())) }
}
