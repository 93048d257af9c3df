//! The picture of a distribution.

use super::*;

/// A power law of exponent 3 from 15 on, over a million users.
fn counts() -> Vec<(u64, u64)> {
    let users = |degree: u64| (2.0 * 15_f64.powi(2) * 1e6 * (degree as f64).powi(-3)) as u64;
    (15..5_000).map(|degree| (degree, users(degree))).filter(|&(_, users)| users > 0).collect()
}

fn plot(counts: &[(u64, u64)]) -> Degrees<'_> {
    let power_law = Some(PowerLaw { exponent: 3.0, from: 15 });
    Degrees { title: "Degrees of 1,000,000 users", counts, power_law }
}

#[test]
fn bins_lie_on_the_law() {
    let counts = counts();
    let plot = plot(&counts);
    let line = plot.line(PowerLaw { exponent: 3.0, from: 15 }, 5_000.0);
    for (degree, share) in plot.bins() {
        let law = line[0].1 * (degree / 15.0).powi(-3);
        // In the tail the counts above were cut to integers.
        assert!(degree > 200.0 || (share / law - 1.0).abs() < 0.1, "{degree} {share} {law}");
    }
}

#[test]
fn bins_hold_every_user_once() {
    let counts: Vec<_> = (1..2_000).map(|degree| (degree, 1 + degree % 7)).collect();
    let plot = plot(&counts);
    let width = |middle: f64| {
        let edge = |bin: f64| 10_f64.powf(bin / BINS_PER_DECADE).ceil();
        let bin = (middle.log10() * BINS_PER_DECADE + 1e-9).floor();
        edge(bin + 1.0) - edge(bin)
    };
    let sum: f64 = plot.bins().iter().map(|&(middle, share)| share * width(middle)).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
}

#[test]
fn svg_is_xml_with_its_texts() {
    let counts = counts();
    let svg = crate::plot::svg(&plot(&counts)).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in ["Degrees of 1,000,000 users", "share of users", "exponent 3.00", "10⁻³"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn png_has_letters_in_it() {
    let counts = counts();
    let png = crate::plot::png(&plot(&counts)).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let mut plain = plot(&counts);
    plain.title = "";
    assert_ne!(png, crate::plot::png(&plain).unwrap(), "the title is drawn");
}

#[test]
fn file_gets_the_kind_that_its_name_asks_for() {
    let counts = counts();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("degrees.PNG");
    plot(&counts).save(&path).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"\x89PNG"));
    let error = plot(&counts).save(&dir.path().join("degrees.gif")).unwrap_err();
    assert!(matches!(error, PlotError::Extension(_)));
    let error = plot(&[]).save(&dir.path().join("degrees.svg")).unwrap_err();
    assert!(matches!(error, PlotError::Empty(_)));
    let error = plot(&counts).save(&dir.path().join("no/degrees.svg")).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
}

#[test]
fn powers_of_ten_are_written_as_such() {
    assert_eq!(power_of_ten(1.0), "1");
    assert_eq!(power_of_ten(0.1), "10⁻¹");
    assert_eq!(power_of_ten(1e-12), "10⁻¹²");
    assert_eq!(power_of_ten(0.02), "2.0e-2");
}
