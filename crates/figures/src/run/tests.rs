//! Runs as files: what is written comes back, and what is no run is told by its line.

use super::*;

fn written(rows: &[Row]) -> String {
    let mut file = Vec::new();
    let mut writer = RunWriter::new(&mut file).unwrap();
    rows.iter().for_each(|row| writer.write(row).unwrap());
    drop(writer);
    String::from_utf8(file).unwrap()
}

#[test]
fn rows_come_back_as_they_were_written() {
    let mut row = Row::unknown(1.23456, 0);
    assert!(row.is_unknown());
    assert_eq!(row.seconds, 1.235);
    row.resident_bytes = Some(u64::MAX);
    row.deliveries_per_second = Some(0.1);
    row.set_received(&Quantiles { count: 1, p50_ms: 1.5, ..Quantiles::default() });
    let rows = [row, Row::unknown(2.0, 0), Row::unknown(2.0, 0)];
    let text = written(&rows);
    assert_eq!(read(text.as_bytes()).unwrap(), rows);
    assert_eq!(text.matches("\r\n").count(), 4, "RFC 4180 ends its lines so");
}

#[test]
fn header_names_every_field_of_a_row() {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(Row::default()).unwrap();
    let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
    assert_eq!(text.lines().next().unwrap().split(',').collect::<Vec<_>>(), COLUMNS);
}

#[test]
fn columns_are_found_by_name_and_others_passed_over() {
    let rows =
        read(&b"weather,events,seconds\n\"rain, \"\"heavy\"\"\",7,1\nsun,,2.5\n"[..]).unwrap();
    assert_eq!((rows[0].events, rows[0].seconds), (Some(7), 1.0));
    assert_eq!((rows[1].events, rows[1].seconds), (None, 2.5));
    assert_eq!(read(&b""[..]).unwrap(), []);
    assert_eq!(read(&b"seconds,events\r\n"[..]).unwrap(), []);
}

#[test]
fn what_is_no_run_is_told_by_line_and_column() {
    for (text, expected) in [
        ("a,b\n1,2\n", "line 1 names no column `seconds`"),
        ("seconds,events\n1,2\n2\n", "line 3: it has 1 fields, and the header names 2"),
        ("seconds,events\n1,2\n2,many\n", "line 3: column `events`: "),
        ("seconds,events\nsoon,2\n", "line 2: column `seconds`: "),
        ("seconds\n2\n1\n", "line 3: `seconds` goes from 2 to 1"),
        ("seconds\ninf\n", "line 2: `seconds` goes from "),
    ] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let error = read(&b"seconds,utc\n1,\xff\n"[..]).unwrap_err().to_string();
    assert_eq!(error, "line 2: it is not UTF-8");
}
