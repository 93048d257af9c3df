//! `encke plot`: pictures of what `encke watch` wrote, and sentences about what is no run.

use std::fs;
use std::path::Path;

use crate::harness::{Finished, Program, Server, encke};

/// `encke plot RUN OPTIONS`.
fn plot(run: &Path, options: &[&str]) -> Finished {
    Program::run(encke(["plot"]).arg(run).args(options))
}

/// A run that `encke watch` wrote.
fn watched(file: &Path) {
    let server = Server::start(&[]);
    let _bob = server.listener("bob");
    (0..20).for_each(|n| assert_eq!(server.api.send("bob", n), 1));
    let args = ["watch", "--every=0.05", "--seconds=0.4", "--api", &server.api_url(), "-o"];
    let finished = Program::run(encke(args).arg(file));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

#[test]
fn run_becomes_pictures_of_both_kinds_and_looks() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.csv");
    watched(&file);
    let (svg, png) = (dir.path().join("run.svg"), dir.path().join("run.png"));
    let (to_svg, to_png) = (svg.to_str().unwrap(), png.to_str().unwrap());
    let options = ["-o", to_svg, "-o", to_png, "--title", "One listener", "--subtitle", "a test"];
    let finished = plot(&file, &options);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let light = fs::read_to_string(&svg).unwrap();
    for text in ["One listener", "a test", "Memory of the server (MB)", "Connections open"] {
        assert!(light.contains(text), "{text}");
    }
    let finished = plot(&file, &["-o", to_svg, "--theme=dark", "--panel=process,connections"]);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let dark = fs::read_to_string(&svg).unwrap();
    assert!(dark.contains("Connections open") && !dark.contains("Processor"), "as asked for");
    assert!(dark.contains("run.csv"), "what it is of is said unless told otherwise");
    assert!(!dark.contains("#FFFFFF"), "nothing white in the dark");
}

#[test]
fn what_cannot_be_drawn_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.csv");
    let told = |text: &str, picture: &str| {
        fs::write(&file, text).unwrap();
        let picture = dir.path().join(picture);
        let finished = plot(&file, &["-o", picture.to_str().unwrap()]);
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        assert!(!picture.exists(), "no picture of nothing");
        finished.stderr
    };
    assert!(told("", "a.svg").contains("the run has no row"));
    assert!(told("seconds,connections_open\r\n", "a.svg").contains("the run has no row"));
    assert!(told("seconds,utc\r\n1,x\r\n", "a.svg").contains("no column of these panels"));
    assert!(told("a,b\n1,2\n", "a.svg").contains("names no column `seconds`"));
    let bad = told("seconds,connections_open\n1,2\n2,many\n", "a.svg");
    assert!(bad.contains("run.csv`: line 3: column `connections_open`: "), "{bad}");
    let bad = told("seconds,connections_open\n1,2\n", "a.gif");
    assert!(bad.contains("ends in neither .svg nor .png"), "{bad}");
    let finished = plot(&dir.path().join("none.csv"), &["-o", "a.svg"]);
    assert!(finished.stderr.contains("cannot read"), "{finished:?}");
    assert_eq!(plot(&file, &[]).code(), Some(2), "a picture must have a name");
}

#[test]
fn run_of_one_row_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let (file, svg) = (dir.path().join("run.csv"), dir.path().join("run.svg"));
    fs::write(&file, "seconds,connections_open\n0,5\n").unwrap();
    let finished = plot(&file, &["-o", svg.to_str().unwrap()]);
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(fs::read_to_string(&svg).unwrap().contains("<circle"));
}
