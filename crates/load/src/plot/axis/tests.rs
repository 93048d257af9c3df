//! Marks of axes.

use super::*;

fn texts(axis: &Axis) -> Vec<&str> {
    axis.marks.iter().map(|mark| &*mark.text).collect()
}

#[test]
fn linear_axes_mark_round_values_from_zero() {
    for (most, unit, expected) in [
        (10_000.0, 1.0, &["0", "5,000", "10,000"][..]),
        (1e6, 1.0, &["0", "500,000", "1,000,000"]),
        (10.2e6, 1e6, &["0", "5", "10", "15"]),
        (0.31, 1.0, &["0.0", "0.1", "0.2", "0.3", "0.4"]),
        (0.0, 1.0, &["0.0", "0.5", "1.0"]),
        (47.0, 1.0, &["0", "20", "40", "60"]),
    ] {
        let axis = Axis::from_zero(most, unit);
        assert_eq!(texts(&axis), expected, "{most}");
        assert!(axis.place(most) <= 1.0 && axis.place(0.0) == 0.0);
    }
}

#[test]
fn logarithmic_axes_mark_decades() {
    let axis = Axis::logarithmic(0.21, 58.0);
    assert_eq!(texts(&axis), ["0.1", "1", "10", "100"]);
    assert!((axis.place(1.0) - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!((axis.place(0.0), axis.place(1e9)), (0.0, 1.0), "within the picture");
    assert!(axis.minor.is_empty(), "too many to be of use");
    assert_eq!(Axis::logarithmic(1.0, 90.0).minor.len(), 2 * 8);
    assert_eq!(texts(&Axis::logarithmic(2.0, 8.0)), ["1", "2", "5", "10"]);
    assert_eq!(texts(&Axis::logarithmic(1.0, 1.0)), ["0.1", "0.2", "0.5", "1"]);
    assert!(Axis::logarithmic(1e-300, 1.0).marks.len() <= 10);
}

#[test]
fn time_is_divided_as_clocks_do() {
    for (high, name, last) in [
        (0.9, "seconds", "0.9"),
        (60.0, "seconds", "60"),
        (600.0, "minutes", "10"),
        (4_260.0, "minutes", "70"),
        (86_400.0, "hours", "24"),
        (1e7, "days", "100"),
        (1e9, "days", "10,000"),
    ] {
        let (axis, unit) = Axis::time(0.0, high);
        assert_eq!((unit, texts(&axis).pop()), (name, Some(last)), "{high}");
        assert!((4..=11).contains(&axis.marks.len()), "{high}: {axis:?}");
    }
    for (low, high) in
        [(1.7e15, 1.7e15), (1e17, 1e17 + 100.0), (1e18, 1e18), (1e300, 1e300), (f64::MAX, f64::MAX)]
    {
        let (axis, _) = Axis::time(low, high);
        assert!(axis.marks.len() <= 21, "{low} to {high}: {} marks", axis.marks.len());
        assert!((0.0..=1.0).contains(&axis.place(low)), "{low} has a place");
    }
    assert!(Axis::time(7.0, 7.0).0.marks.iter().any(|mark| mark.value == 7.0));
}
