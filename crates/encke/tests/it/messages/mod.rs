//! Every message of the program, as its user sees it (`cases.jsonl`): a line that is typed, how it
//! ends, and which value and which cure the message names.
//!
//! The table is whole: [`sites`] finds the messages in the program's source. Each is said by a
//! case, or listed in `elsewhere.tsv` with the reason. That list only shrinks: an entry is a fault
//! if a case says its message, or if that is gone.

mod peers;
mod scene;
mod sites;

use std::fmt::Write;

use serde_json::Value;

use self::peers::Then;
use self::scene::Scene;
use self::sites::Site;
use crate::harness::Finished;

const CASES: &str = include_str!("cases.jsonl");

/// Messages that no case provokes: the file, how its text begins, and why.
const ELSEWHERE: &str = include_str!("elsewhere.tsv");

/// How a value looks that was written for the one who wrote the program.
const FOR_PROGRAMMERS: [&str; 10] = [
    "Some(",
    "Ok(",
    "Err(",
    "Os {",
    "Error {",
    "..=",
    "invalid digit",
    "target type",
    "invalid variant",
    "panicked",
];

/// Words that look like the name of a type, and are names for people.
const NAMES: [&str; 1] = ["WebSocket"];

/// One line that is typed.
struct Case {
    /// For a shell, with `{api}` and the like for what the scene has.
    typed: String,
    /// What a peer answers to everybody, and what then becomes of the connection.
    peer: Option<(String, Then)>,
    /// What who asks for an upgrade is told.
    upgrade: Option<String>,
    /// What a machine may lack.
    needs: Option<String>,
    /// It takes long, and is begun before all others.
    slow: bool,
    /// It is stopped in the middle.
    stop: bool,
    /// The program goes on: it is stopped when it has said this.
    until: Option<String>,
    /// What is typed elsewhere then, instead of stopping it.
    then: Option<String>,
    code: i64,
    /// What the message names, and what it says is to be done.
    value: String,
    cure: String,
    /// What it must not show.
    secret: Option<String>,
}

impl Case {
    fn read(line: &str) -> Case {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| case[name].as_str().map(str::to_owned);
        Case {
            typed: text("type").unwrap(),
            peer: text("peer").map(|answer| (answer, then(&case))),
            upgrade: text("upgrade"),
            needs: text("needs"),
            slow: case["slow"] == true,
            stop: case["stop"] == true,
            until: text("until"),
            then: text("then"),
            code: case["code"].as_i64().unwrap(),
            value: text("value").unwrap(),
            cure: text("cure").unwrap(),
            secret: text("secret"),
        }
    }

    /// What is wrong with how it ended and with what it said.
    fn faults(&self, scene: &Scene, finished: &Finished, peer: &str) -> Vec<String> {
        let said = &finished.stderr;
        let mut faults = Vec::new();
        let mut check = |good: bool, what: String| {
            if !good {
                faults.push(what)
            }
        };
        let code = finished.code().map(i64::from);
        check(code == Some(self.code), format!("it ends with {code:?}, not with {}", self.code));
        for wanted in [&self.value, &self.cure] {
            let wanted = scene.filled(wanted, peer);
            check(said.contains(&wanted), format!("it does not say {wanted:?}"));
        }
        let ends = self.code == 0;
        let is_told = |line: &str| line.starts_with("encke: ") || line.starts_with("error: ");
        let told = said.lines().filter(|line| is_told(line)).count();
        let help = said.starts_with("Encke: pushes events");
        check(ends || help || told > 0, "no line begins with `encke: `".to_owned());
        for word in FOR_PROGRAMMERS {
            check(!said.contains(word), format!("it says {word:?}, which is for programmers"));
        }
        for word in said.split(|c: char| !c.is_alphanumeric() && !"/.:_-".contains(c)) {
            check(!is_type(word), format!("it says {word:?}, which is a type of the program"));
        }
        check(!has_path(said), "it says a path of the program's types".to_owned());
        let secret = self.secret.as_ref().is_some_and(|secret| said.contains(secret));
        check(!secret, "it shows a secret".to_owned());
        faults
    }
}

fn then(case: &Value) -> Then {
    match case["peer_then"].as_str() {
        None => Then::Close,
        Some("hold") => Then::Hold,
        Some("reset") => Then::Reset,
        Some(other) => panic!("{other}?"),
    }
}

/// Whether a word looks like the name of a type: `ParseIntError`. A path does not, nor a unit.
fn is_type(word: &str) -> bool {
    let is_word = word.chars().all(char::is_alphabetic) && !NAMES.contains(&word);
    let humps = word.split(char::is_uppercase).skip(1).filter(|hump| hump.len() > 1);
    is_word && word.starts_with(char::is_uppercase) && humps.count() > 1
}

/// Whether a path of the program's own names stands in it: `io::Error`. An address is none.
fn has_path(said: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    said.match_indices("::").any(|(at, path)| {
        let behind = said[at + path.len()..].chars().next();
        is_letter(said[..at].chars().next_back()) && is_letter(behind)
    })
}

#[test]
fn every_message_says_what_happened_the_value_and_the_cure() {
    let scene = Scene::start();
    let (mut said, mut faults) = (Vec::new(), String::new());
    let cases: Vec<Case> = CASES.lines().map(Case::read).collect();
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        cases.iter().enumerate().partition(|(_, case)| scene.has(case));
    let (slow, quick): (Vec<_>, Vec<_>) = here.into_iter().partition(|(_, case)| case.slow);
    let begin = |(number, case)| (number, case, scene.begin(number, case));
    // What waits for its time waits beside the others.
    let slow: Vec<_> = slow.into_iter().map(begin).collect();
    for (number, case, begun) in quick.into_iter().map(begin).chain(slow) {
        let peer = begun.peer.clone();
        let finished = scene.end(case, begun);
        for fault in case.faults(&scene, &finished, &peer) {
            let shown: String = finished.stderr.chars().take(300).collect();
            writeln!(faults, "case {}: {}: {fault}: {shown}", number + 1, case.typed).unwrap();
        }
        said.push(finished.stderr);
    }
    assert!(faults.is_empty(), "{faults}");
    if !elsewhere.is_empty() {
        // What they say nobody has said here.
        return;
    }
    let left: Vec<Site> = sites::all().into_iter().filter(|site| !site.is_said(&said)).collect();
    let listed: Vec<[&str; 3]> = ELSEWHERE.lines().map(entry).collect();
    for site in &left {
        let is_listed = |[file, start, _]: &[&str; 3]| site.is_at(file, start);
        if !listed.iter().any(is_listed) {
            writeln!(faults, "{site}: add a case that says it").unwrap();
        }
    }
    for [file, start, _] in &listed {
        if !left.iter().any(|site| site.is_at(file, start)) {
            writeln!(faults, "{file}: {start:?} is said or gone: take it out of the list").unwrap();
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// One line of the list. Its reason is a sentence, or names the test that provokes the message.
fn entry(line: &'static str) -> [&'static str; 3] {
    let parts: Vec<&str> = line.split('\t').collect();
    let [file, start, why] = parts[..] else { panic!("{line:?} has no three parts") };
    match why.strip_prefix("test ") {
        Some(name) => assert!(sites::has_function(name), "there is no test {name}"),
        None => assert!(why.split(' ').count() >= 3, "{line:?} needs a reason"),
    }
    [file, start, why]
}

#[test]
fn names_of_types_are_known_from_words() {
    for word in ["ParseIntError", "TlsError", "TimedOut"] {
        assert!(is_type(word), "{word}");
    }
    for word in ["PostgreSQL", "KiB", "Encke", "JSON", "/tmp/.tmpAbCd/new", "WebSocket"] {
        assert!(!is_type(word), "{word}");
    }
    assert!(has_path("io::Error") && !has_path("fd00::7, [::1]:80"));
}
