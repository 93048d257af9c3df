//! Bodies cut anywhere.

use super::*;

fn cut(pieces: &[&[u8]]) -> Vec<(u64, Option<String>)> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for piece in pieces {
        lines.push(Bytes::copy_from_slice(piece));
        found.extend(std::iter::from_fn(|| lines.next_line()));
    }
    found.extend(lines.finish());
    let text = |text: Bytes| String::from_utf8(text.to_vec()).unwrap();
    found.into_iter().map(|line| (line.number, line.text.map(text))).collect()
}

#[test]
fn lines_are_the_same_wherever_the_body_is_split() {
    let body = b"one\n\ntwo\r\n  \nthree";
    let whole = cut(&[body]);
    let texts: Vec<_> = whole.iter().map(|(n, text)| (*n, text.as_deref().unwrap())).collect();
    assert_eq!(texts, [(1, "one"), (3, "two"), (5, "three")]);
    for split in 0..=body.len() {
        assert_eq!(cut(&[&body[..split], &body[split..]]), whole, "split at {split}");
    }
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(cut(&bytes), whole);
}

#[test]
fn line_end_at_the_end_makes_no_further_line() {
    assert_eq!(cut(&[b"a\n"]).len(), 1);
    assert_eq!(cut(&[b"\n\r\n"]), []);
    assert_eq!(cut(&[]), []);
}

#[test]
fn overlong_line_is_told_and_the_rest_goes_on() {
    let long = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
    let pieces: [&[u8]; 5] = [b"a\n", &long, &long, b"x\nb\n", b""];
    let found = cut(&pieces);
    assert_eq!(found[1], (2, None));
    assert_eq!((found[0].0, found[2].1.as_deref()), (1, Some("b")));
    let exact = vec![b'x'; LINE_BYTES_MAX];
    assert_eq!(cut(&[&exact])[0].1.as_ref().map(String::len), Some(LINE_BYTES_MAX));
    assert_eq!(cut(&[&exact, b"x"]), [(1, None)]);
}
