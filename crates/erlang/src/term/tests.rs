//! Terms as OTP writes them, against the JSON and the text that they stand for; bytes that are
//! none.

use super::*;

/// What `term_to_binary/1` of OTP 25 makes of a term, and the JSON that it is to become.
const TERMS: [(&[u8], &str); 17] = [
    (&[131, 97, 7], "7"),
    (&[131, 98, 255, 255, 255, 251], "-5"),
    (&[131, 110, 5, 0, 0, 0, 0, 0, 1], "4294967296"),
    (&[131, 110, 5, 1, 0, 0, 0, 0, 1], "-4294967296"),
    (&[131, 110, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "18446744073709551616"),
    (&[131, 70, 63, 248, 0, 0, 0, 0, 0, 0], "1.5"),
    (&[131, 100, 0, 4, 110, 117, 108, 108], "null"),
    (&[131, 119, 4, 116, 114, 117, 101], "true"),
    (&[131, 100, 0, 1, 233], "\"é\""),
    (&[131, 118, 0, 2, 195, 169], "\"é\""),
    (&[131, 109, 0, 0, 0, 3, 97, 34, 10], "\"a\\\"\\n\""),
    (&[131, 107, 0, 2, 1, 255], "[1,255]"),
    (&[131, 106], "[]"),
    (&[131, 108, 0, 0, 0, 1, 100, 0, 1, 97, 106], "[\"a\"]"),
    (&[131, 104, 2, 97, 1, 104, 0], "[1,[]]"),
    (&[131, 116, 0, 0, 0, 1, 97, 1, 106], "{\"1\":[]}"),
    (
        &[131, 116, 0, 0, 0, 2, 100, 0, 1, 97, 97, 1, 109, 0, 0, 0, 1, 98, 97, 2],
        "{\"a\":1,\"b\":2}",
    ),
];

fn read(bytes: &[u8]) -> Term<'_> {
    let mut rest = &bytes[1..];
    let term = Term::read(&mut rest).unwrap();
    assert!(rest.is_empty() && bytes[0] == VERSION);
    term
}

fn json_of(term: Term<'_>) -> Result<String, NoJson> {
    let mut out = String::new();
    push_json(&mut out, term).map(|()| out)
}

fn text_of(bytes: &[u8]) -> Result<String, NoJson> {
    let mut out = String::new();
    push_text(&mut out, read(bytes)).map(|()| out)
}

#[test]
fn terms_of_otp_become_json() {
    for (bytes, json) in TERMS {
        assert_eq!(json_of(read(bytes)).as_deref(), Ok(json), "{bytes:?}");
    }
}

#[test]
fn terms_cut_short_or_with_unknown_tags_are_refused() {
    for (bytes, _) in TERMS {
        for len in 1..bytes.len() {
            let mut rest = &bytes[1..len];
            let before = rest;
            assert_eq!(Term::read(&mut rest), Err(Malformed::Short), "{bytes:?} to {len}");
            assert_eq!(rest, before);
        }
    }
    for tag in [0, 80, 82, 117, 121, 255] {
        assert_eq!(Term::read(&mut &[tag, 0, 0, 0, 0][..]), Err(Malformed::Tag(tag)));
    }
    let many = [105, 255, 255, 255, 255, 106];
    assert_eq!(Term::read(&mut &many[..]), Err(Malformed::Short));
    assert_eq!(Term::read(&mut &[119, 1, 255][..]), Err(Malformed::Content));
}

#[test]
fn what_has_no_json_says_why() {
    let pid = [131, 88, 119, 1, 97, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
    let improper = [131, 108, 0, 0, 0, 1, 97, 1, 97, 2];
    let key = [131, 116, 0, 0, 0, 1, 106, 106];
    let latin1 = [131, 109, 0, 0, 0, 1, 233];
    // #{1 => 1, <<"1">> => 2}, and the same as a value.
    let doubled = [131, 116, 0, 0, 0, 2, 97, 1, 97, 1, 109, 0, 0, 0, 1, 49, 97, 2];
    let within = [&[131, 116, 0, 0, 0, 1, 97, 1][..], &doubled[1..]].concat();
    for (bytes, why) in [
        (&pid[..], NoJson::Opaque),
        (&improper, NoJson::Improper),
        (&key, NoJson::Key),
        (&latin1, NoJson::NotUtf8),
        (&doubled, NoJson::DoubledKey),
        (&within, NoJson::DoubledKey),
    ] {
        assert_eq!(json_of(read(bytes)), Err(why), "{bytes:?}");
    }
}

/// What stands around what is within it, that, and what becomes of it: JSON and text.
type Deep = (&'static str, &'static [u8], &'static [u8], Outcome, Outcome);
type Outcome = Result<&'static str, NoJson>;

/// A longest frame's worth of terms within one another, and what becomes of it.
const DEEP: [Deep; 8] = [
    ("lists of nothing", b"l\0\0\0\0", b"j", Ok("[]"), Ok("")),
    (
        "lists of nothing about a pid",
        b"l\0\0\0\0",
        b"Xw\x01a\0\0\0\x01\0\0\0\0\0\0\0\x01",
        Err(NoJson::Opaque),
        Err(NoJson::NotText),
    ),
    ("lists", b"l\0\0\0\x01", b"j", Err(NoJson::Depth), Err(NoJson::Depth)),
    ("tails", b"l\0\0\0\x01jl\0\0\0\x01j", b"m\0\0\0\x01x", Err(NoJson::Improper), Ok("x")),
    ("tuples", b"h\x01", b"j", Err(NoJson::Depth), Err(NoJson::NotText)),
    ("values of maps", b"t\0\0\0\x01a\x01", b"j", Err(NoJson::Depth), Err(NoJson::NotText)),
    ("keys of maps", b"t\0\0\0\x01", b"j", Err(NoJson::Key), Err(NoJson::NotText)),
    ("exports", b"q", b"j", Err(NoJson::Opaque), Err(NoJson::NotText)),
];

/// A stack that a few hundred calls within one another fill.
const SMALL_STACK_BYTES: usize = 64 << 10;

#[test]
fn terms_of_any_depth_are_read_on_a_small_stack() {
    for (what, around, inside, json, text) in DEEP {
        let depth = (16 << 20) / around.len();
        let behind = inside.repeat(terms_behind(around) * depth);
        let deep = [&around.repeat(depth), inside, &behind].concat();
        let check = move || {
            let mut rest = &deep[..];
            let term = Term::read(&mut rest).unwrap();
            assert!(rest.is_empty() && term.bytes().len() == deep.len());
            term.view();
            assert_eq!(json_of(term).as_deref(), json.as_deref(), "{what}");
            let mut out = String::new();
            let read = push_text(&mut out, term).map(|()| &*out);
            assert_eq!(read, text, "{what}");
            assert_eq!(Term::read(&mut &deep[..deep.len() - 1]), Err(Malformed::Short));
        };
        let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES);
        thread.spawn(check).unwrap().join().unwrap();
    }
}

/// How many terms follow the one that stands within `around`.
fn terms_behind(around: &[u8]) -> usize {
    match around {
        b"l\0\0\0\x01" | b"t\0\0\0\x01" => 1,
        b"q" => 2,
        _ => 0,
    }
}

#[test]
fn json_of_any_depth_is_written_on_a_modest_stack() {
    let depth = 1 << 20;
    for json in ["[".repeat(depth) + &"]".repeat(depth), "{\"a\":".repeat(depth)] {
        let check = move || {
            let mut out = vec![VERSION];
            write_json(&mut out, &json);
            assert_eq!(read(&out).view(), View::Binary(json.as_bytes()));
        };
        let thread = std::thread::Builder::new().stack_size(4 * SMALL_STACK_BYTES);
        thread.spawn(check).unwrap().join().unwrap();
    }
}

#[test]
fn list_of_nothing_is_its_tail_as_otp_reads_it() {
    let one = read(&[131, 108, 0, 0, 0, 0, 108, 0, 0, 0, 0, 97, 1]);
    assert_eq!(one.view(), View::Integer(1));
    let elements = read(&[131, 108, 0, 0, 0, 1, 108, 0, 0, 0, 0, 97, 7, 108, 0, 0, 0, 0, 106]);
    assert_eq!(json_of(elements).as_deref(), Ok("[7]"));
    assert_eq!(elements.list().unwrap().map(Term::view).collect::<Vec<_>>(), [View::Integer(7)]);
    let tuple = read(&[131, 104, 2, 108, 0, 0, 0, 0, 97, 1, 97, 2]);
    assert_eq!(
        tuple.tuple().map(|[one, two]| (one.view(), two.view())),
        Some((View::Integer(1), View::Integer(2)))
    );
}

#[test]
fn atoms_and_references_have_the_lengths_that_otp_allows() {
    let latin1 = |len: u16| [&[100], &len.to_be_bytes()[..], &vec![233; len.into()]].concat();
    let utf8 =
        |text: &str| [&[118], &(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    for good in [latin1(255), utf8(&"x".repeat(255)), utf8(&"𝄞".repeat(255)), latin1(0)] {
        assert!(Term::read(&mut &good[..]).unwrap().atom().is_some());
    }
    for bad in [latin1(256), utf8(&"x".repeat(256)), utf8(&"𝄞".repeat(256)), latin1(65_535)] {
        assert_eq!(Term::read(&mut &bad[..]), Err(Malformed::Content));
    }
    // Overlong, half of a surrogate pair, past the last character, cut short.
    for bad in [&[192, 128][..], &[237, 160, 128], &[244, 144, 128, 128], &[195]] {
        let atom = [&[119, bad.len() as u8], bad].concat();
        assert_eq!(Term::read(&mut &atom[..]), Err(Malformed::Content), "{bad:?}");
    }
    let reference = |words: u8| {
        [&[90, 0, words, 119, 1, b'a', 0, 0, 0, 1], &vec![0; 4 * usize::from(words)][..]].concat()
    };
    assert!(Term::read(&mut &reference(5)[..]).is_ok());
    assert_eq!(Term::read(&mut &reference(6)[..]), Err(Malformed::Content));
}

#[test]
fn text_is_what_unicode_reads() {
    assert_eq!(text_of(&[131, 107, 0, 2, 72, 233]).as_deref(), Ok("Hé"));
    assert_eq!(text_of(&[131, 106]).as_deref(), Ok(""));
    // ["a", <<"b">>, 8364 | <<"c">>]
    let nested = [
        131, 108, 0, 0, 0, 3, 107, 0, 1, 97, 109, 0, 0, 0, 1, 98, 98, 0, 0, 32, 172, 109, 0, 0, 0,
        1, 99,
    ];
    assert_eq!(text_of(&nested).as_deref(), Ok("ab€c"));
    assert_eq!(text_of(&[131, 97, 1]), Err(NoJson::NotText));
    assert_eq!(text_of(&[131, 108, 0, 0, 0, 1, 98, 0, 0, 216, 0, 106]), Err(NoJson::NotText));
}

#[test]
fn lists_of_what_is_printed_are_text_and_others_are_not() {
    let nested = [131, 108, 0, 0, 0, 2, 107, 0, 1, 97, 109, 0, 0, 0, 1, 98, 106];
    let binary_tail = [131, 108, 0, 0, 0, 1, 97, 65, 109, 0, 0, 0, 1, 98];
    for text in [&[131, 107, 0, 2, 72, 10][..], &nested, &binary_tail] {
        assert!(is_text_list(read(text)), "{text:?}");
    }
    let atoms = [131, 108, 0, 0, 0, 1, 100, 0, 1, 97, 106];
    let surrogate = [131, 108, 0, 0, 0, 1, 98, 0, 0, 216, 0, 106];
    let binary = [131, 109, 0, 0, 0, 1, 98];
    // [[]] and [[], []]: rows without cells.
    let (row, rows) = ([131, 108, 0, 0, 0, 1, 106, 106], [131, 108, 0, 0, 0, 2, 106, 106, 106]);
    let unprinted = [131, 107, 0, 2, 72, 1];
    let nothing = [131, 106];
    let others: [&[u8]; 8] =
        [&unprinted, &nothing, &[131, 97, 65], &atoms, &surrogate, &binary, &row, &rows];
    for other in others {
        assert!(!is_text_list(read(other)), "{other:?}");
    }
}

#[test]
fn json_becomes_terms_that_become_the_same_json() {
    for json in [
        "null",
        "[true,false,[],{}]",
        "{\"a\":-1,\"b\":[1.5,\"x\\u0001\\\\\"]}",
        "18446744073709551615",
        "-9223372036854775808",
        "\"é€𝄞\"",
    ] {
        let mut out = vec![VERSION];
        write_json(&mut out, json);
        assert_eq!(json_of(read(&out)).as_deref(), Ok(json));
    }
    let mut out = vec![VERSION];
    write_json(&mut out, "1e999");
    assert_eq!(read(&out).view(), View::Binary(b"1e999"));
}

#[test]
fn floats_come_out_of_json_to_the_last_digit() {
    let mut random = fastrand::Rng::with_seed(7);
    let numbers = std::iter::repeat_with(|| f64::from_bits(random.u64(..)));
    for number in numbers.filter(|number| number.is_finite()).take(1_000) {
        let mut out = vec![VERSION];
        write_json(&mut out, &serde_json::to_string(&number).unwrap());
        assert_eq!(out[2..], number.to_be_bytes(), "{number:e}");
    }
}

#[test]
fn what_is_written_is_read() {
    let mut out = vec![VERSION];
    write::tuple(&mut out, 4);
    write::pid(&mut out, "a@b", [1, 2, 3]);
    write::reference(&mut out, "a@b", 9, [4, 5, 6]);
    write::integer(&mut out, i64::MIN);
    write::integer(&mut out, 255);
    let [pid, reference, least, byte] = read(&out).tuple().unwrap();
    let Pid { node, id, serial, creation } = pid.pid().unwrap();
    assert_eq!((&*node.text(), id, serial, creation), ("a@b", 1, 2, 3));
    let View::Reference(reference) = reference.view() else { panic!("{reference:?}") };
    assert_eq!((reference.creation, reference.words::<3>()), (9, Some([4, 5, 6])));
    assert_eq!(reference.words::<2>(), None);
    assert_eq!((least.view(), byte.view()), (View::Integer(i64::MIN), View::Integer(255)));
}
