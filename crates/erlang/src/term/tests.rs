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
    for (bytes, why) in [
        (&pid[..], NoJson::Opaque),
        (&improper, NoJson::Improper),
        (&key, NoJson::Key),
        (&latin1, NoJson::NotUtf8),
    ] {
        assert_eq!(json_of(read(bytes)), Err(why), "{bytes:?}");
    }
    let deep = [[104, 1].repeat(DEPTH_MAX_OF_TEST), vec![106]].concat();
    assert_eq!(json_of(Term::read(&mut &deep[..]).unwrap()), Err(NoJson::Depth));
}

/// Deeper than terms may be that become JSON, far deeper than a stack would hold.
const DEPTH_MAX_OF_TEST: usize = 100_000;

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
