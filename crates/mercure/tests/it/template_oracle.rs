//! Templates beside the regular expressions that the reference hub's library makes of them, by
//! seed.

use std::fmt::Write;

use fastrand::Rng;
use mercure::{Selector, SelectorKind, Topic};
use regex::Regex;

/// How many templates are tried, each on some topics.
const TEMPLATES: u32 = 1_500;
const TOPICS: usize = 40;

/// A random expression as a template has it, and the same as a regular expression.
fn expression(rng: &mut Rng, template: &mut String, regex: &mut String) {
    const OPERATORS: [(&str, &str, &str, bool); 8] = [
        ("", "", ",", false),
        ("+", "", ",", false),
        ("#", "#", ",", false),
        (".", ".", ".", false),
        ("/", "/", "/", false),
        (";", ";", ";", true),
        ("?", "?", "&", true),
        ("&", "&", "&", true),
    ];
    let (operator, first, separator, named) = OPERATORS[rng.usize(..OPERATORS.len())];
    let variables = rng.usize(1..4);
    let explodes: Vec<bool> = (0..variables).map(|_| rng.u8(..5) == 0).collect();
    let names: Vec<&str> = explodes.iter().map(|&star| if star { "v*" } else { "v" }).collect();
    write!(template, "{{{operator}{}}}", names.join(",")).unwrap();
    let value = |has_equals: bool| {
        let class = match operator {
            "+" | "#" => r"A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=",
            _ if has_equals => r"A-Za-z0-9\-._~,=",
            _ => r"A-Za-z0-9\-._~,",
        };
        format!("(?:[{class}]|%[0-9A-Fa-f]{{2}})*")
    };
    let is_any = explodes.contains(&true);
    write!(regex, "(?:{}{}", regex::escape(first), value(named || explodes[0])).unwrap();
    if variables > 1 || is_any {
        let times = match is_any {
            true => "*".to_owned(),
            false => format!("{{0,{}}}", variables - 1),
        };
        let (separator, later) = (regex::escape(separator), value(named || is_any));
        write!(regex, "(?:{separator}{later}){times}").unwrap();
    }
    regex.push_str(")?");
}

/// A text of the bytes that matter.
fn text(rng: &mut Rng, len_max: usize) -> String {
    const LETTERS: [&str; 16] =
        ["a", "a", "0", "%40", "%4", "%", "/", "/", ".", ",", ";", "?", "&", "#", "=", "é"];
    (0..rng.usize(..=len_max)).map(|_| LETTERS[rng.usize(..LETTERS.len())]).collect()
}

/// Some topics are near to what a template may become: its own text with values put in.
fn topic(rng: &mut Rng, pieces: &[String]) -> String {
    if rng.bool() {
        return text(rng, 8);
    }
    pieces.iter().map(|piece| format!("{piece}{}", text(rng, 3))).collect()
}

#[test]
fn template_matches_what_the_references_regular_expression_does() {
    let (mut matches, mut others) = (0, 0);
    testing::seeded(TEMPLATES, |rng| {
        let (mut template, mut source) = (String::new(), "^".to_owned());
        let mut pieces = Vec::new();
        for _ in 0..rng.usize(1..5) {
            // Whole escapes only: with half of one it would be no template.
            let literal = text(rng, 3).replace("%40", "@").replace("%4", "").replace('%', "");
            let literal = if rng.u8(..6) == 0 { format!("{literal}%40") } else { literal };
            template.push_str(&literal);
            write!(source, "(?:{})", regex::escape(&literal)).unwrap();
            pieces.push(literal);
            expression(rng, &mut template, &mut source);
        }
        source.push('$');
        let regex = Regex::new(&source).unwrap();
        let selector = Selector::old(&template).unwrap();
        assert_eq!(selector.kind(), SelectorKind::Pattern, "{template}");
        for _ in 0..TOPICS {
            let topic = topic(rng, &pieces);
            let expected = regex.is_match(&topic);
            let found = selector.matches(&Topic::new(&topic));
            assert_eq!(found, expected || topic == template, "{template} and {topic}: {source}");
            *if found { &mut matches } else { &mut others } += 1;
        }
    });
    assert!(matches > 1_000 && others > 1_000, "{matches} matches, {others} others");
}
