//! Where options come from: the environment and files of settings, what is wrong there, and the
//! commands that tell.

use std::fs;

use serde_json::Value;

use crate::harness::{Finished, Program, Server, encke};

/// Runs `encke ARGS` with these variables, in a directory with `text` as `encke.toml`.
fn run(args: &[&str], variables: &[(&str, &str)], text: &str) -> Finished {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("encke.toml"), text).unwrap();
    let mut command = encke(args);
    command.envs(variables.iter().copied()).current_dir(directory.path());
    Program::run(&mut command)
}

/// It is wrong usage, and standard error says all of `words`.
#[track_caller]
fn refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code(), Some(2), "{finished:?}");
    for word in words {
        assert!(finished.stderr.contains(word), "{word}: {finished:?}");
    }
}

#[test]
fn bad_value_is_told_with_its_source() {
    let serve = ["serve", "--config=encke.toml"];
    let flag = [&serve[..], &["--max-backlog=x"]].concat();
    refused(&run(&flag, &[], ""), &["'x' for '--max-backlog"]);
    let variable = [("ENCKE_MAX_BACKLOG", "x")];
    let words = ["encke: ENCKE_MAX_BACKLOG in the environment: ", "'x' for '--max-backlog"];
    refused(&run(&serve, &variable, ""), &words);
    refused(&run(&serve[..1], &[("ENCKE_SERVE_MAX_BACKLOG", "x")], ""), &["ENCKE_SERVE_MAX"]);
    let file = "# all of it\n[serve]\nlisten = '127.0.0.1:0'\nmax-backlog = 'x'\n";
    refused(&run(&serve, &[], file), &["encke: encke.toml, line 4: ", "'x' for '--max-backlog"]);
    let file = "[serve]\nmax-backlgo = 'x'\n";
    refused(&run(&serve, &[], file), &["encke.toml, line 2: ", "is max-backlog meant?"]);
    // Each source is told as its own where more than one is wrong.
    refused(&run(&flag, &variable, "[serve]\nmax-backlog = 'x'"), &["error: invalid value"]);
    // What may be a password is not told.
    let finished = run(&serve[..1], &[("ENCKE_PUBLIC_URL", "ftp://me:hidden@example.org")], "");
    refused(&finished, &["ENCKE_PUBLIC_URL in the environment"]);
    assert!(!finished.stderr.contains("hidden"), "{finished:?}");
}

/// One command's variable is not another's, and the demo is not led to what is the server's.
#[test]
fn variables_are_of_one_command() {
    let generate = ["graph", "generate"];
    let users = |variable: &str| {
        let finished =
            run(&generate, &[(variable, "3"), ("ENCKE_GRAPH_GENERATE_EDGES_PER_USER", "1")], "");
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        (finished.stdout.lines().count(), finished.stderr)
    };
    let (own, said) = users("ENCKE_GRAPH_GENERATE_USERS");
    assert!(own <= 3 && !said.contains("ENCKE_"), "{own} {said}");
    assert!(users("ENCKE_FLOOD_USERS").0 > 3);
    let (many, said) = users("ENCKE_USERS");
    assert!(many > 3, "{many}");
    for word in ["WARN", "ENCKE_USERS in the environment", "ENCKE_GRAPH_GENERATE_USERS"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let printed = |words: &[&str]| {
        let args = [&["config", "print"], words].concat();
        run(&args, &[("ENCKE_DATA", "/var/lib/encke"), ("ENCKE_API", "http://10.0.0.1:1")], "")
            .stdout
    };
    assert!(printed(&["demo"]).matches("10.0.0.1").count() == 0);
    assert!(printed(&["serve"]).contains("data = \"/var/lib/encke\""));
    assert!(printed(&["send"]).contains("api = \"http://10.0.0.1:1\""));
}

#[test]
fn unknown_variables_are_warned_of() {
    let variables = [
        ("ENCKE_MAX_BACKLGO", "1"),
        ("ENCKE_SERVICE_HOST", "10.0.0.1"),
        ("ENCKE_PORT", "tcp://10.0.0.1:8000"),
    ];
    let said =
        run(&["graph", "generate", "--users=2", "--edges-per-user=1"], &variables, "").stderr;
    assert_eq!(said.matches("in the environment").count(), 1, "{said}");
    assert!(said.contains("ENCKE_MAX_BACKLGO") && said.contains("is ENCKE_MAX_BACKLOG meant?"));
}

/// An option that was renamed is taken by its old name, and the log says what it is called now.
#[test]
fn old_names_are_taken_with_one_warning() {
    // It ends at once, since nobody could send.
    let serve = ["serve", "--open", "--api=none", "--config=encke.toml"];
    let warned = |more: &[&str], variables: &[(&str, &str)], text: &str| {
        let finished = run(&[&serve, more].concat(), variables, text);
        assert_eq!(finished.code(), Some(2), "{finished:?}");
        let lines = finished.stderr.lines().filter(|line| line.contains("is an old name"));
        lines.map(|line| line.split_once("WARN ").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let end = "is an old name, which version 1.0 will not know; write";
    assert_eq!(warned(&["--inherit"], &[], ""), [format!("--inherit {end} --take-over")]);
    let variable = [("ENCKE_INHERIT", "1")];
    assert_eq!(warned(&[], &variable, ""), [format!("ENCKE_INHERIT {end} ENCKE_TAKE_OVER")]);
    let line = format!("encke.toml, line 2: inherit {end} take-over");
    assert_eq!(warned(&[], &[], "[serve]\ninherit = true\n"), [line]);
    assert_eq!(warned(&["--take-over"], &[], ""), [""; 0]);
}

#[test]
fn check_names_every_line_that_is_wrong() {
    let check = ["config", "check", "encke.toml"];
    let good = "log-level = 'warn'\n[serve]\nmax_backlog = '1MiB'\n[flood]\nusers = 5\n";
    let finished = run(&check, &[], good);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert_eq!(finished.stdout, "encke.toml is good: 3 keys\n");
    let bad =
        "listen = 'x'\n[serve]\ncolour = 1\nkeepalive = []\n[flood]\nusers = 0\n[server]\na = 1\n";
    let finished = run(&check, &[], bad);
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    for line in [
        "line 1: ",
        "line 3: unknown key `colour`",
        "line 4: ",
        "line 6: ",
        "line 7: unknown table",
    ] {
        assert!(finished.stderr.contains(&format!("encke.toml, {line}")), "{line}: {finished:?}");
    }
    let old = run(&check, &[], "inherit = true\n[flood]\nusers = 5\n[serve]\ninherit = true\n");
    assert_eq!(old.code(), Some(0), "{old:?}");
    let said = "inherit is an old name, which version 1.0 will not know; write take-over\n";
    let both = format!("encke.toml, line 1: {said}encke.toml, line 5: {said}");
    assert_eq!((&*old.stdout, &*old.stderr), ("encke.toml is good: 3 keys\n", &*both));
    let flood = ["config", "check", "encke.toml", "flood"];
    assert_eq!(run(&flood, &[], "users = 5").code(), Some(0));
    assert_eq!(run(&check, &[], "users = 5").code(), Some(1));
    refused(&run(&check, &[], "= 5"), &["encke.toml is not TOML, line 1: "]);
    let broken = run(&check, &[], "users = 5\nkey = encke_hidden");
    refused(&broken, &["encke.toml is not TOML, line 2: "]);
    assert!(!broken.stderr.contains("hidden"), "{broken:?}");
    assert_eq!(run(&["config", "check", "no.toml"], &[], "").code(), Some(1));
}

#[test]
fn print_tells_each_setting_with_its_source_and_no_secret() {
    let file = "keepalive = 20\n[serve]\nnats = ['nats://a:4222', 'nats://b:4222']\n";
    let variables = [("ENCKE_MAX_BACKLOG", "1MiB"), ("ENCKE_POSTGRES", "postgresql://u:hidden@db")];
    let words = ["config", "print", "--config=encke.toml", "serve", "--cluster=c", "--open"];
    let finished = run(&words, &variables, file);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let source = |start: &str| {
        let line = finished.stdout.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.split(" # ").nth(1)).unwrap_or_default().to_owned()
    };
    for (start, from) in [
        ("listen = \"127.0.0.1:8000\" ", "default"),
        ("keepalive = 20 ", "encke.toml, line 1"),
        ("nats = [\"nats://a:4222\", \"nats://b:4222\"] ", "encke.toml, line 3"),
        ("max-backlog = \"1MiB\" ", "ENCKE_MAX_BACKLOG"),
        ("cluster = \"c\" ", "command line"),
        ("open = true ", "command line"),
        ("# postgres =", "not shown, ENCKE_POSTGRES"),
        ("# tls-cert =", "not given"),
    ] {
        assert_eq!(source(start), from, "{start}: {}", finished.stdout);
    }
    assert!(!finished.stdout.contains("hidden"), "{finished:?}");
    let secrets = [("ENCKE_KEY", "encke_hidden"), ("ENCKE_TOKEN", "hidden")];
    for args in [&["config", "print", "send"][..], &["config", "print", "--json", "listen"]] {
        let finished = run(args, &secrets, "");
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        assert!(!finished.stdout.contains("hidden"), "{finished:?}");
        assert!(finished.stdout.contains("ENCKE_KEY") || finished.stdout.contains("ENCKE_TOKEN"));
    }
    let args = ["config", "print", "--json", "--config=encke.toml"];
    let json: Value = serde_json::from_str(&run(&args, &[], file).stdout).unwrap();
    let options = json["options"].as_array().unwrap();
    let keepalive = options.iter().find(|option| option["name"] == "keepalive").unwrap();
    assert_eq!((&keepalive["line"], &keepalive["value"][0]), (&1.into(), &"20".into()));
}

/// What it prints is a file of settings that says the same.
#[test]
fn what_is_printed_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let printed =
        run(&["config", "print", "serve", "--keepalive=7", "--listen=127.0.0.1:0"], &[], "");
    let (path, data) = (directory.path().join("encke.toml"), directory.path().join("data"));
    fs::write(&path, printed.stdout).unwrap();
    let check = Program::run(encke(["config", "check"]).arg(&path));
    assert_eq!(check.code(), Some(0), "{check:?}");
    let again = Program::run(encke(["config", "print", "--json", "--config"]).arg(&path));
    let json: Value = serde_json::from_str(&again.stdout).unwrap();
    let options = json["options"].as_array().unwrap();
    let keepalive = options.iter().find(|option| option["name"] == "keepalive").unwrap();
    assert_eq!((&keepalive["source"], &keepalive["value"][0]), (&"file".into(), &"7".into()));
    let mut serve = encke(["serve", "--json", "--api=127.0.0.1:0", "--config"]);
    let server = Server::of(Program::spawn(serve.arg(&path).arg("--data").arg(data)));
    assert_eq!(server.stop("TERM").code(), Some(0));
}
