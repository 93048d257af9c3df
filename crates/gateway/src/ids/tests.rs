//! Random terms through ids and back; what is refused; what foreign nodes write.

use std::collections::HashMap;

use erlang::term::write;

use super::*;

fn id_of(bytes: &[u8]) -> Result<String, Refusal> {
    let (mut text, mut bytes) = (String::from("before"), bytes);
    let term = Term::read(&mut bytes).unwrap();
    read_id(&mut text, term)?;
    Ok(text)
}

fn term_of(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_id(&mut out, text);
    out
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::binary(&mut out, bytes);
    out
}

#[test]
fn one_id_in_all_its_forms() {
    for term in [&b"\x61\x7b"[..], b"\x6b\0\x03123", b"\x6d\0\0\0\x03123", b"\x77\x03123"] {
        assert_eq!(id_of(term).as_deref(), Ok("123"), "{term:?}");
    }
    assert_eq!(id_of(b"\x62\xff\xff\xff\xff").as_deref(), Ok("-1"));
    assert_eq!(id_of("\x6d\0\0\0\x02é".as_bytes()).as_deref(), Ok("é"));
}

#[test]
fn terms_have_one_text_and_come_back_equal() {
    for (term, text) in [
        (&b"\x68\x02\x77\x05photo\x62\0\0\x03\x15"[..], "{photo,789}"),
        (b"\x68\x02\x6d\0\0\0\x05photo\x62\0\0\x03\x15", "{<<\"photo\">>,789}"),
        (b"\x68\x02\x77\x01A\x77\x00", "{'A',''}"),
        (b"\x68\x01\x68\0", "{{}}"),
        (b"\x68\0", "{}"),
        (b"\x68\x02\x61\x01\x6a", "{1,[]}"),
        (b"\x68\x01\x6d\0\0\0\x03a/\"", "{<<\"a\\x{2F}\\x{22}\">>}"),
        (b"\x68\x01\x6d\0\0\0\x02\xff\0", "{<<255,0>>}"),
        (b"\x68\x01\x6d\0\0\0\0", "{<<\"\">>}"),
        (b"\x68\x01\x6c\0\0\0\x02\x61\x61\x61\x62\x6a", "{\"ab\"}"),
        (b"\x6c\0\0\0\x02\x61\x01\x77\x01a\x6a", "[1,a]"),
        (b"\x46\x3f\xf8\0\0\0\0\0\0", "+1.5"),
        (b"\x46\xbf\xf8\0\0\0\0\0\0", "-1.5"),
        // Half way between two that are as short.
        (b"\x46\x43\x0c\x48\x29\x79\x9d\xa8\x42", "+9.950802898915922e14"),
        (b"\x46\x3e\x7a\xd7\xf2\x9a\xbc\xaf\x48", "+1.0e-7"),
        (b"\x46\x40\x5f\x40\x00\x00\x00\x00\x00", "+1.25e2"),
        (b"\x46\x80\0\0\0\0\0\0\0", "-0.0"),
        (b"\x6e\x09\x01\0\0\0\0\0\0\0\0\x01", "-18446744073709551616"),
    ] {
        assert_eq!(id_of(term).as_deref(), Ok(text));
        assert_eq!(term_of(text), term, "{text}");
    }
}

#[test]
fn texts_stay_texts_unless_they_are_exactly_what_we_write() {
    for text in [
        "bob",
        "photo:789",
        "007",
        "-0",
        "+5",
        "1.5",
        "+1.50",
        "+1.0e0",
        "+inf",
        "-",
        "1e3",
        "{",
        "{a",
        "{a,}",
        "{A}",
        "{'a'}",
        "{007}",
        "{\"\"}",
        "[]",
        "[97]",
        "\"ab\"",
        "<<1>>",
        "'A'",
        "{<<97>>}",
        "{<<>>}",
        "{\"a\\x{62}\"}",
        "{\"\\x{2f}\"}",
        "{<<256>>}",
        "{a}b",
        "[a|b]",
        "#{}",
        "{1.5}",
        "{[97]}",
    ] {
        assert_eq!(term_of(text), binary(text.as_bytes()), "{text}");
    }
    assert_eq!(term_of("123"), b"\x61\x7b");
    assert_eq!(term_of("{a,1}"), b"\x68\x02\x77\x01a\x61\x01");
    // One that is told as a text is the same id.
    assert_eq!(id_of(&binary(b"{a,1}")).as_deref(), Ok("{a,1}"));
}

#[test]
fn what_is_no_id_is_refused() {
    for term in [
        &b"\x6a"[..],
        b"\x6b\0\0",
        b"\x6d\0\0\0\0",
        b"\x77\0",
        b"\x6d\0\0\0\x03a b",
        b"\x6d\0\0\0\x01\xff",
        b"\x74\0\0\0\0",
        b"\x68\x01\x74\0\0\0\0",
        b"\x6c\0\0\0\x01\x61\x01\x61\x02",
    ] {
        assert_eq!(id_of(term), Err(Refusal::BadId), "{term:?}");
    }
    let list = |elements: Vec<u8>, len: u32| {
        [&b"\x6c"[..], &len.to_be_bytes(), &elements, b"\x6a"].concat()
    };
    assert_eq!(id_of(&list(b"\x6d\0\0\0\0".repeat(999), 999)), Err(Refusal::IdTooLong));
    assert_eq!(id_of(&list(b"\x62\0\0\0\x61".repeat(255), 255)), Ok("a".repeat(255)));
    assert_eq!(id_of(&list(b"\x62\0\0\0\x61".repeat(256), 256)), Err(Refusal::IdTooLong));
    // As deep as a term of 4 KiB can be, and an integer of as many bytes.
    let deep = [&b"\x68\x01".repeat(2_047)[..], b"\x6a"].concat();
    assert_eq!(id_of(&deep), Err(Refusal::IdTooLong));
    let big = [&b"\x6f\0\0\x0f\0\0"[..], &[1; 0xf00]].concat();
    assert_eq!(id_of(&big), Err(Refusal::IdTooLong));
    // Texts that begin terms within terms, and never end.
    for text in ["{".repeat(255), "[".repeat(255), "{[".repeat(127), "{<<\"".repeat(63)] {
        assert_eq!(term_of(&text), binary(text.as_bytes()));
    }
}

/// A random term of a few bytes, in the one form in which we write it.
fn random_term(out: &mut Vec<u8>, random: &mut fastrand::Rng, depth: u32) {
    const TEXTS: [&str; 10] =
        ["", "a", "bob", "A b", "7", "{a}", "/?#", "\\x{41}\"'", "é\u{85}\u{3000}", "_a@"];
    match random.u32(..if depth > 3 { 6 } else { 8 }) {
        0 => write::integer(out, random.i64(..) >> random.u32(..64)),
        1 => {
            let mut magnitude: Vec<u8> = (0..random.usize(8..30)).map(|_| random.u8(..)).collect();
            magnitude.push(random.u8(1..));
            write::big(out, random.bool(), &magnitude);
        }
        2 => {
            let any = f64::from_bits(random.u64(..));
            let some = f64::from(random.i16(..)) / 8.0;
            write::float(out, if random.bool() && any.is_finite() { any } else { some });
        }
        3 => write::atom(out, random.choice(TEXTS).unwrap()),
        4 => match random.bool() {
            true => write::binary(out, random.choice(TEXTS).unwrap().as_bytes()),
            false => write::binary(out, &[random.u8(..), random.u8(..)]),
        },
        5 => {
            let len = random.usize(1..4);
            write::list(out, len);
            (0..len).for_each(|_| write::integer(out, random.i64(-1..300)));
            write::nil(out);
        }
        6 => {
            let len = random.u8(..4);
            write::tuple(out, len);
            (0..len).for_each(|_| random_term(out, random, depth + 1));
        }
        _ => {
            let len = random.usize(..4);
            if len > 0 {
                write::list(out, len);
            }
            (0..len).for_each(|_| random_term(out, random, depth + 1));
            write::nil(out);
        }
    }
}

#[test]
fn random_terms_come_back_equal_and_two_never_have_one_text() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let mut terms: HashMap<String, Vec<u8>> = HashMap::new();
    let mut accepted = 0;
    for _ in 0..50_000 {
        let mut term = Vec::new();
        random_term(&mut term, &mut random, 0);
        let Ok(text) = id_of(&term) else { continue };
        accepted += 1;
        let back = term_of(&text);
        assert_eq!(id_of(&back).as_deref(), Ok(&*text), "{term:?}");
        if is_text(&term) {
            continue;
        }
        assert_eq!(back, term, "{text}");
        let other = terms.insert(text, term.clone());
        assert!(other.is_none_or(|other| other == term));
    }
    assert!(accepted > 20_000, "{accepted}");
}

/// Whether a term is one of those that have a text as it stands.
fn is_text(mut bytes: &[u8]) -> bool {
    let term = Term::read(&mut bytes).unwrap();
    matches!(term.view(), View::Atom(_) | View::Binary(_)) || written::characters(term).is_some()
}

#[test]
fn random_texts_are_one_term_each() {
    let mut random = fastrand::Rng::with_seed(3);
    let pieces = [
        "{", "}", "[", "]", ",", "<<", ">>", "\"", "'", "a", "1", "-", "+", ".5", "e2", "\\x{20}",
        "é",
    ];
    for _ in 0..100_000 {
        let text: String =
            (0..random.usize(1..9)).map(|_| *random.choice(&pieces).unwrap()).collect();
        assert_eq!(id_of(&term_of(&text)).as_deref(), Ok(&*text));
    }
}
