//! One column of a run as lines: broken where nothing is known, and no finer than a picture shows.

use figures::run::Row;

/// A moment and its value.
pub(super) type Point = (f64, f64);

/// An interval this many times the usual one is a gap.
const GAP_INTERVALS: f64 = 4.0;

/// The stretches of `rows` without a gap, each with the values of one column.
pub(super) fn stretches(rows: &[Row], column: fn(&Row) -> Option<f64>) -> Vec<Vec<Point>> {
    let gap = GAP_INTERVALS * usual_interval(rows);
    let mut stretches: Vec<Vec<Point>> = Vec::new();
    let mut last = None;
    for row in rows {
        match column(row) {
            Some(value) if value.is_finite() => {
                let goes_on = last.is_some_and(|last| row.seconds - last <= gap);
                match stretches.last_mut() {
                    Some(stretch) if goes_on => stretch.push((row.seconds, value)),
                    _ => stretches.push(vec![(row.seconds, value)]),
                }
                last = Some(row.seconds);
            }
            _ => last = None,
        }
    }
    stretches
}

/// The median of the intervals; without one, any interval is usual.
fn usual_interval(rows: &[Row]) -> f64 {
    let mut intervals: Vec<f64> =
        rows.windows(2).map(|pair| pair[1].seconds - pair[0].seconds).collect();
    let middle = intervals.len() / 2;
    if intervals.is_empty() {
        return f64::INFINITY;
    }
    *intervals.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// A line with few points: of each of the equal parts that `slot` sorts moments into, the
/// lowest and the highest value in their order. So no peak is lost.
pub(super) fn thinned(points: &[Point], slot: impl Fn(f64) -> u32) -> Vec<Point> {
    let mut thinned = Vec::new();
    for part in points.chunk_by(|one, other| slot(one.0) == slot(other.0)) {
        let by_value = |one: &&Point, other: &&Point| one.1.total_cmp(&other.1);
        let least = part.iter().min_by(by_value).expect("a chunk has a point");
        let most = part.iter().max_by(by_value).expect("a chunk has a point");
        let (first, second) = if least.0 <= most.0 { (least, most) } else { (most, least) };
        thinned.push(*first);
        if first != second {
            thinned.push(*second);
        }
    }
    // The line ends where its values do.
    if let (Some(last), true) = (points.last(), points.len() > 1)
        && thinned.last() != Some(last)
    {
        thinned.push(*last);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(f64, Option<u64>)]) -> Vec<Row> {
        let row = |&(seconds, events)| Row { seconds, events, ..Row::default() };
        values.iter().map(row).collect()
    }

    fn events(row: &Row) -> Option<f64> {
        row.events.map(|events| events as f64)
    }

    #[test]
    fn lines_break_where_nothing_is_known() {
        let rows = run(&[
            (0.0, Some(1)),
            (1.0, Some(2)),
            (2.0, None),
            (3.0, Some(3)),
            (4.0, Some(4)),
            (5.0, Some(5)),
            (15.0, Some(6)),
        ]);
        let lengths: Vec<usize> = stretches(&rows, events).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 3, 1], "a field that is empty, and ten seconds without a row");
        assert_eq!(stretches(&rows[..1], events), [[(0.0, 1.0)]]);
        assert!(stretches(&[], events).is_empty());
    }

    #[test]
    fn thinned_line_keeps_its_peaks_and_its_ends() {
        let mut points: Vec<Point> =
            (0..100_000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
        points[31_234].1 = 1_000.0;
        points[66_666].1 = -5.0;
        let thinned = thinned(&points, |at| (at / 1_000.0) as u32);
        assert!(thinned.len() <= 201, "{}", thinned.len());
        assert!(thinned.contains(&(31_234.0, 1_000.0)) && thinned.contains(&(66_666.0, -5.0)));
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0), "in the order of time");
        assert_eq!((thinned[0].0, thinned.last().copied()), (0.0, points.last().copied()));
    }
}
