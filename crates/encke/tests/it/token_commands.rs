//! `encke token`: tokens that are made, and what is said of good and of bad ones.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Finished, Program, encke};

const SECRET: &str = "a secret of more than thirty-two bytes\n";

/// A P-256 key of this test alone, as `openssl genpkey` writes it, and its public half.
const PRIVATE: &str = include_str!("token_commands/private.pem");
const PUBLIC: &str = include_str!("token_commands/public.pem");

struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }
}

fn make(key: &Path, options: &[&str]) -> Finished {
    Program::run(encke(["token", "new", "--token-key"]).arg(key).args(options))
}

fn token(key: &Path, options: &[&str]) -> String {
    let made = make(key, options);
    assert_eq!(made.code(), Some(0), "{made:?}");
    let token = made.stdout.trim_end().to_owned();
    assert!(!made.stderr.contains(&token), "{made:?}");
    token
}

fn check(token: &str, key: &Path, options: &[&str]) -> Finished {
    let mut command = encke(["token", "check", "--token-key"]);
    let (program, mut input) = Program::spawn_with_input(command.arg(key).args(options));
    // Fails when the program ends without reading.
    let _ = writeln!(input, "{token}");
    drop(input);
    let finished = program.finish();
    let shown = !token.is_empty() && format!("{finished:?}").contains(token);
    assert!(!shown, "a token is never shown: {finished:?}");
    finished
}

#[test]
fn token_that_was_made_is_checked_and_granted() {
    let files = Files::new();
    let secret = files.file("secret", SECRET);
    let (private, public) = (files.file("private", PRIVATE), files.file("public", PUBLIC));
    for (signs, verifies) in [(&secret, &secret), (&private, &public)] {
        let options = ["--sub=bob", "--ids", "news", "room:*", "--max-ids=3", "--expires=2h"];
        let token = token(signs, &options);
        let checked = check(&token, verifies, &[]);
        assert_eq!(checked.code(), Some(0), "{checked:?}");
        for words in ["bob, news, room:*", "at most 3 ids", "jti ", "2 h more"] {
            assert!(checked.stdout.contains(words), "{checked:?}");
        }
        let checked = check(&token, verifies, &["--json"]);
        let grant: Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(grant["granted"], true);
        assert_eq!(grant["ids"], json!(["news", "room:*"]));
        let lasts = grant["expires"].as_u64().unwrap() - grant["issued"].as_u64().unwrap();
        assert_eq!(lasts, 7200 + 10);
    }
}

#[test]
fn token_that_is_refused_is_told_why() {
    let files = Files::new();
    let (secret, other) = (files.file("secret", SECRET), files.file("other", &SECRET.repeat(2)));
    let public = files.file("public", PUBLIC);
    let good = token(&secret, &["--sub=bob", "--token-audience=push", "--token-issuer=me"]);
    let ours = ["--token-audience=push", "--token-issuer=me"];
    assert_eq!(check(&good, &secret, &ours).code(), Some(0));
    for (key, options, reason) in [
        (&other, &ours[..], "signature"),
        (&public, &ours[..], "algorithm"),
        (&secret, &[][..], "audience"),
        (&secret, &["--token-audience=push", "--token-issuer=you"][..], "issuer"),
    ] {
        let refused = check(&good, key, options);
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains(&format!("({reason})")), "{refused:?}");
        let refused = check(&good, key, &[options, &["--json"]].concat());
        let line: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!((&line["granted"], &line["refused"]), (&false.into(), &reason.into()));
    }
    assert!(check("no token", &secret, &[]).stderr.contains("(malformed)"));
    assert!(check("", &secret, &[]).code() == Some(1));
}

#[test]
fn keys_that_will_not_do_are_told_and_not_shown() {
    let files = Files::new();
    let short = files.file("short", "hunter2");
    let (public, private) = (files.file("public", PUBLIC), files.file("private", PRIVATE));
    for (finished, words) in [
        (make(&short, &["--sub=bob"]), "7 bytes"),
        (make(&public, &["--sub=bob"]), "private key"),
        (make(&files.0.path().join("none"), &["--sub=bob"]), "check its path"),
        (check("x.y.z", &short, &[]), "7 bytes"),
        (check("x.y.z", &private, &[]), "-pubout"),
    ] {
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains(words), "{finished:?}");
        assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
    }
    for wrong in
        [&[][..], &["--sub=a b"], &["--sub=a", "--ids", "b c"], &["--ids=a", "--max-ids=0"]]
    {
        assert_eq!(make(&short, wrong).code(), Some(2), "{wrong:?}");
    }
    let none = Program::run(&mut encke(["token", "check"]));
    assert!(none.code() == Some(1) && none.stderr.contains("--token-key"), "{none:?}");
}

#[test]
fn secret_that_others_can_read_is_warned_of() {
    let files = Files::new();
    let secret = files.file("secret", SECRET);
    let token = token(&secret, &["--sub=bob"]);
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let checked = check(&token, &secret, &[]);
    assert_eq!(checked.code(), Some(0));
    assert!(checked.stderr.contains("chmod 600"), "{checked:?}");
}

#[test]
fn paths_of_durable_streams_are_granted_as_the_server_takes_them() {
    let files = Files::new();
    let secret = files.file("secret", SECRET);
    let token = token(&secret, &["--sub=bob", "--read", "/run/1", "run/*", "*", "--write=ü/1"]);
    assert_eq!(check(&token, &secret, &[]).code(), Some(0));
    for wrong in ["", "a\nb", "a\u{85}b*", &"p".repeat(1_025)] {
        let refused = make(&secret, &["--sub=bob", "--read", wrong]);
        assert_eq!(refused.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains("write the path of a durable stream"), "{refused:?}");
    }
}
