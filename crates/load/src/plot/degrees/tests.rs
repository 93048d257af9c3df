//! The picture of a distribution.

use super::*;

/// A power law of exponent 3 from 15 on, over a million users.
fn counts() -> Vec<(u64, u64)> {
    let users = |degree: u64| (2.0 * 15_f64.powi(2) * 1e6 * (degree as f64).powi(-3)) as u64;
    (15..5_000).map(|degree| (degree, users(degree))).filter(|&(_, users)| users > 0).collect()
}

fn plot(counts: &[(u64, u64)]) -> Degrees<'_> {
    let power_law = Some(PowerLaw { exponent: 3.0, from: 15 });
    Degrees { title: "Degrees of 1,000,000 users", counts, power_law, look: Look::Page }
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

/// The texts of an SVG with the places of their anchors.
fn texts(svg: &str) -> Vec<(String, f64, f64)> {
    let number = |element: &str, name: &str| -> f64 {
        let value = element.split_once(&format!(" {name}=\"")).unwrap().1;
        value.split_once('"').unwrap().0.parse().unwrap()
    };
    let elements = svg.split("<text").skip(1);
    let read = |element: &str| {
        let text = element.split_once('>').unwrap().1.split_once('<').unwrap().0.trim();
        (text.to_owned(), number(element, "x"), number(element, "y"))
    };
    elements.map(read).collect()
}

#[test]
fn texts_of_the_axes_fit_beside_one_another_for_every_size() {
    for last in [20_u64, 90, 999, 10_000, 5_000_000] {
        let counts: Vec<_> = (0..60)
            .map(|step| (1 + (last - 1) * step * step / 3_481, 1 + (60 - step).pow(4)))
            .collect();
        let svg = crate::plot::svg(&plot(&counts)).unwrap();
        let texts = texts(&svg);
        // By the widest letters of viewers' fonts; the layout is drawn twice as fine.
        let width = |text: &str| text.chars().count() as f64 * 0.57 * f64::from(TEXT_SIZE * 2);
        let below: Vec<_> =
            texts.iter().filter(|(_, _, y)| *y == f64::from(2 * (BOTTOM + 22))).collect();
        assert!(below.len() >= 2, "{last}: {texts:?}");
        for pair in below.windows(2) {
            let [(one, x, _), (other, next, _)] = pair else { unreachable!() };
            let gap = next - x - (width(one) + width(other)) / 2.0;
            assert!(gap > 8.0, "{last}: {one} meets {other}");
        }
        let beside = texts.iter().filter(|(_, x, _)| *x == f64::from(2 * (LEFT - 10)));
        let beside: Vec<_> = beside.collect();
        assert!(beside.len() >= 2, "{last}");
        assert!(beside.iter().all(|(text, x, _)| width(text) < *x), "{last}: {beside:?}");
        for pair in beside.windows(2) {
            assert!((pair[0].2 - pair[1].2).abs() > f64::from(2 * TEXT_SIZE), "{last}: {beside:?}");
        }
    }
}

#[test]
fn svg_is_light_or_dark_as_its_page_is() {
    let counts = counts();
    let page = crate::plot::svg(&plot(&counts)).unwrap();
    assert!(page.contains("@media (prefers-color-scheme:dark)"));
    let dark = Degrees { look: Look::Fixed(crate::plot::Theme::Dark), ..plot(&counts) };
    let dark = crate::plot::svg(&dark).unwrap();
    assert!(!dark.contains("prefers-color-scheme") && dark.contains("#0D1117"));
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
fn shares_are_written_as_people_read_them() {
    let texts = [1.0, 0.5, 0.1, 0.02, 0.01, 1e-12].map(share);
    assert_eq!(texts, ["1", "0.5", "0.1", "0.02", "10⁻²", "10⁻¹²"]);
}
