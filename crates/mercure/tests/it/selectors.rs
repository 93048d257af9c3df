//! Selectors of the old dialect: the tables, and which texts are templates.

use mercure::{Dialect, MatchType, Selector, SelectorFault, SelectorKind, Topic, limits};

use crate::hub;

fn is_match(selector: &str, topic: &str) -> bool {
    Selector::old(selector).unwrap().matches(&Topic::new(topic))
}

const BOOKS: &str = "https://example.com/books/";

/// A selector, whether it matches, and topics.
const OLD: [(&str, bool, &[&str]); 40] = [
    ("*", true, &["", "a", "https://example.com/books/1", "*"]),
    ("a", true, &["a"]),
    ("a", false, &["", "aa", "A", "a ", "*"]),
    ("https://example.com/books/1", true, &["https://example.com/books/1"]),
    ("https://example.com/books/1", false, &["https://EXAMPLE.com/books/1"]),
    (
        "https://example.com/books/{id}",
        true,
        &[
            "https://example.com/books/1",
            "https://example.com/books/",
            "https://example.com/books/%C3%A9",
            "https://example.com/books/%c3%a9",
            "https://example.com/books/a,b",
            "https://example.com/books/a-._~Z9",
            "https://example.com/books/{id}",
        ],
    ),
    (
        "https://example.com/books/{id}",
        false,
        &[
            "https://example.com/books/a/b",
            "https://example.com/books/é",
            "https://example.com/books/1?x=1",
            "https://example.com/books/a:b",
            "https://example.com/books/a@b",
            "https://example.com/books/a=b",
            "https://example.com/books/a b",
            "https://example.com/books/%C3%A",
            "https://example.com/books/%",
            "https://example.com/books/%zz",
            "https://example.com/books",
            "http://example.com/books/1",
            "xhttps://example.com/books/1",
            "https://example.com/books/1\u{1}",
            "https://example.com/books/{di}",
        ],
    ),
    (
        "https://example.com/{+path}",
        true,
        &[
            "https://example.com/a/b",
            "https://example.com/",
            "https://example.com/a?b=c&d#e",
            "https://example.com/!#$&'()*+/:;=?@[],",
            "https://example.com/%2f",
        ],
    ),
    ("https://example.com/{+path}", false, &["https://example.com/é", "https://example.com/%2"]),
    (
        "https://example.com/u/foo/{?topic}",
        true,
        &[
            "https://example.com/u/foo/?topic=https%3A%2F%2Fexample.com%2Fbooks%2F1",
            "https://example.com/u/foo/",
            "https://example.com/u/foo/?other=1",
            "https://example.com/u/foo/?",
        ],
    ),
    (
        "https://example.com/u/foo/{?topic}",
        false,
        &[
            "https://example.com/u/foo/?topic=https://example.com/books/1",
            "https://example.com/u/foo/?a=1&b=2",
            "https://example.com/u/foo/&topic=1",
        ],
    ),
    ("/x{/a,b}", true, &["/x", "/x/1", "/x/1/2", "/x/", "/x//", "/x/1/"]),
    ("/x{/a,b}", false, &["/x/1/2/3", "/x///", "/x1", "x"]),
    (
        "/.well-known/mercure/subscriptions{/topic}{/subscriber}",
        true,
        &[
            "/.well-known/mercure/subscriptions",
            "/.well-known/mercure/subscriptions/a",
            "/.well-known/mercure/subscriptions/https%3A%2F%2Fexample.com%2F%7Bselector%7D/\
             urn%3Auuid%3Abb3de268-05b0-4c65-b44e-8f9acefc29d6",
        ],
    ),
    (
        "/.well-known/mercure/subscriptions{/topic}{/subscriber}",
        false,
        &["/.well-known/mercure/subscriptions/a/b/c", "/.well-known/mercure/subscription"],
    ),
    // Each operator: what comes first, what between, which bytes a value has.
    ("a{#b}", true, &["a", "a#", "a#x/y", "a#x,y"]),
    ("a{#b}", false, &["ax", "a#é", "b#"]),
    ("a{.b,c}", true, &["a", "a.", "a.x.y", "a.x.y.z"]),
    ("a{.b,c}", false, &["ax", "a.x/y", "a.x=y"]),
    ("a{;b,c}", true, &["a", "a;x=1", "a;x=1;y=2", "a;;"]),
    ("a{;b,c}", false, &["a;x;y;z", "ax=1", "a;x/1"]),
    ("a{?b,c}", true, &["a", "a?x=1&y=2", "a?&"]),
    ("a{?b,c}", false, &["a?x&y&z", "a&x", "a?x?y"]),
    ("a{&b,c}", true, &["a", "a&x=1&y=2"]),
    ("a{&b}", false, &["a&x&y", "a?x"]),
    // `*` allows any number of values, and `=` in them.
    ("{/a*}", true, &["", "/1", "/1/2/3/4/5", "/k=v"]),
    ("{/a}", false, &["/k=v", "/1/2"]),
    ("{a*}", true, &["k=v", "k=v,l=w", "a,b,c"]),
    ("{a}", false, &["k=v"]),
    // Without a star on the first variable its value has no `=`, those behind it have.
    ("{/a,b*}", true, &["/1/k=v/2/3"]),
    ("{/a,b*}", false, &["/k=v/1"]),
    ("{?a*}", true, &["?x=1&y=2&z=3"]),
    // A length is not looked at; a name is a name.
    ("{a:3}", true, &["abcdefgh", ""]),
    ("{a.b_9,%41}", true, &["x,y,z"]),
    // Several expressions.
    ("{a}-{b}", true, &["-", "1-2", "1-2-3", "--"]),
    ("{a}-{b}", false, &["12", "1/2-3"]),
    ("{a}0", true, &["0", "00", "%400"]),
    // An escape is taken as a whole or not at all.
    ("{a}0", false, &["%40", "1"]),
    ("{a}%41{b}", true, &["%41", "x%41y", "%41%41"]),
    ("{a}%{b}", false, &["a%41"]),
];

#[test]
fn old_selectors_match_as_the_tables_say() {
    for (selector, expected, topics) in OLD {
        for topic in topics {
            assert_eq!(is_match(selector, topic), expected, "{selector} and {topic:?}");
        }
    }
    assert!(!is_match("https://example.com/books/{id}", &format!("{BOOKS}{BOOKS}")));
}

#[test]
fn text_that_is_no_template_is_a_plain_string() {
    for text in [
        "{",
        "}",
        "{}",
        "a{",
        "a}",
        "{a",
        "a}b{c}",
        "{{a}}",
        "{a}}",
        "{a{b}}",
        "{=a}",
        "{,a}",
        "{!a}",
        "{@a}",
        "{|a}",
        "{+}",
        "{a,}",
        "{,}",
        "{a b}",
        "{é}",
        "{.}",
        "{..a}",
        "{a..b}",
        "{a.}",
        "{a:}",
        "{a:0}",
        "{a:03}",
        "{a:10000}",
        "{a:3*}",
        "{a*:3}",
        "{a**}",
        "{a:x}",
        "{%}",
        "{%4}",
        "{%zz}",
        "%{a}",
        "%4{a}",
        "{a} ",
        "{a}\"",
        "{a}<",
        "{a}\\",
        "{a}^",
        "{a}`",
        "{a}|",
        "{a}\u{fffd}",
        "{a}\u{fdd0}",
        "{a}\u{1fffe}",
        "{a}\u{e0001}",
    ] {
        let selector = Selector::old(text).unwrap();
        assert_eq!(selector.kind(), SelectorKind::Exact, "{text:?}");
        assert_eq!(selector.key(), text);
        assert!(selector.matches(&Topic::new(text)), "{text:?}");
        for other in ["", "a", "1"] {
            assert!(!selector.matches(&Topic::new(other)), "{text:?} and {other:?}");
        }
    }
}

#[test]
fn text_that_is_a_template_matches_itself_too() {
    for text in [
        "{a}",
        "{+a}",
        "{#a}",
        "{.a}",
        "{/a}",
        "{;a}",
        "{?a}",
        "{&a}",
        "{a,b}",
        "{a*}",
        "{a:1}",
        "{a:9999}",
        "{a_1.b%20c}",
        "é{a}",
        "'{a}'",
        "%20{a}",
        "{a}!~",
        "{a}\u{e000}",
        "{A}",
    ] {
        let selector = Selector::old(text).unwrap();
        assert_eq!(selector.kind(), SelectorKind::Pattern, "{text:?}");
        assert_eq!(selector.key(), format!("template {text}"));
        assert_eq!((selector.dialect(), selector.match_type()), (Dialect::Old, MatchType::Exact));
        assert!(selector.matches(&Topic::new(text)), "{text:?}");
    }
}

#[test]
fn selector_has_a_bound() {
    let long = |bytes: usize| format!("{}{{a}}", "x".repeat(bytes - 3));
    assert!(Selector::old(&long(limits::SELECTOR_BYTES_MAX)).is_ok());
    let fault = Selector::old(&long(limits::SELECTOR_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(fault, SelectorFault::TooLong);
    assert!(Selector::old(&"{a}".repeat(limits::EXPRESSIONS_MAX)).is_ok());
    let fault = Selector::old(&"{a}".repeat(limits::EXPRESSIONS_MAX + 1)).unwrap_err();
    assert_eq!(fault, SelectorFault::TooManyExpressions);
    for text in ["a\n", "{a}\u{7f}", "\u{85}{a}"] {
        assert_eq!(Selector::old(text).unwrap_err(), SelectorFault::Character, "{text:?}");
    }
    let fault = Selector::v1(MatchType::Exact, &long(5000), &hub()).unwrap_err();
    assert_eq!(fault, SelectorFault::TooLong);
}
