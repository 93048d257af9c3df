//! Files of the pages that the server carries, in the program itself, plain and compressed.
//!
//! They are made by `web/build.mjs` and committed as text; each is compressed once, when it is
//! first asked for. Nothing here reads a disk, so the pages are there wherever the program is, and
//! never of another version than it.

mod answer;

use std::io::Write;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;

pub(crate) use self::answer::answer;

/// A file of a page.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Its media type.
    pub(crate) content_type: &'static str,
    /// As it is.
    pub(crate) plain: &'static [u8],
    /// The file as gzip (RFC 1952).
    pub(crate) gzip: LazyLock<Vec<u8>>,
}

macro_rules! asset {
    ($name:literal, $content_type:literal) => {
        Asset {
            content_type: $content_type,
            plain: include_bytes!(concat!("../../../web/dist/", $name)),
            gzip: LazyLock::new(|| compress(include_bytes!(concat!("../../../web/dist/", $name)))),
        }
    };
}

pub(crate) static DASHBOARD_PAGE: Asset = asset!("dashboard.html", "text/html; charset=utf-8");
pub(crate) static DASHBOARD_SCRIPT: Asset =
    asset!("dashboard.js", "text/javascript; charset=utf-8");
pub(crate) static DASHBOARD_STYLE: Asset = asset!("dashboard.css", "text/css; charset=utf-8");
pub(crate) static ICON: Asset = asset!("icon.svg", "image/svg+xml");

impl Asset {
    /// What tells this version of the file from others, in both encodings.
    pub(crate) fn version(&self) -> String {
        version(&self.gzip)
    }
}

/// What tells what is compressed here from other versions of it: its check sum and length, which
/// are at a gzip's end (RFC 1952, section 2.3.1).
pub(crate) fn version(gzip: &[u8]) -> String {
    let trailer = gzip.last_chunk::<8>().expect("a gzip has a trailer");
    trailer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `bytes` as gzip, as small as it gets.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailer_of_the_compressed_file_tells_the_plain_one() {
        for asset in [&DASHBOARD_PAGE, &DASHBOARD_SCRIPT, &DASHBOARD_STYLE, &ICON] {
            let length = asset.gzip.last_chunk::<4>().unwrap();
            assert_eq!(u32::from_le_bytes(*length) as usize, asset.plain.len());
        }
        assert_ne!(DASHBOARD_PAGE.version(), DASHBOARD_SCRIPT.version());
    }
}
