//! Stores that programs of the past have written, one for each format. This program opens each,
//! finds all that is in it, and changes it.
//!
//! A new format brings a way from the one before, and leaves a store of its own here. It is made as
//! this one was: `encke graph load` of the pairs below, in two loads, `gzip -9n data.mdb`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::harness::{Program, Server, encke};

/// The format of a store that is its own record from which on each is read. The one before had no
/// checksums, and was never released.
const OLDEST: u32 = 2;

/// The store of a format; `None` where a replica has that number, which is made anew instead.
fn fixture(format: u32) -> Option<Vec<u8>> {
    const OF_REPLICAS: [u32; 1] = [3];
    let name = format!("tests/it/fixtures/store-format-{format}.mdb.gz");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    if OF_REPLICAS.contains(&format) {
        return None;
    }
    let compressed = fs::read(&path).unwrap_or_else(|_| panic!("there is no {}", path.display()));
    let mut store = Vec::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut store).unwrap();
    Some(store)
}

fn exported(data: &Path) -> Vec<String> {
    let export = Program::run(encke(["graph", "export", "--data"]).arg(data));
    assert_eq!(export.code(), Some(0), "{export:?}");
    let mut pairs: Vec<String> = export.stdout.lines().map(str::to_owned).collect();
    pairs.sort();
    pairs
}

#[test]
fn store_of_every_format_is_opened_and_changed() {
    let mut expected: Vec<String> = (1..=1500).map(|n| format!("{n} star")).collect();
    let names = ["bob rj", "rj bob", "7 photo:é", "eve rj", "3 1"];
    expected.extend(names.map(str::to_owned));
    expected.push("9223372036854775807 9223372036854775808".to_owned());
    expected.sort();
    for format in OLDEST..=graph::FORMAT {
        let Some(store) = fixture(format) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (data, restored) = (dir.path().join("data"), dir.path().join("restored"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("data.mdb"), &store).unwrap();
        assert_eq!(exported(&data), expected, "format {format}");

        // A backup is such a file too.
        let backup = dir.path().join("backup");
        fs::write(&backup, &store).unwrap();
        let mut restore = encke(["graph", "restore"]);
        let done = Program::run(restore.arg(&backup).arg("--data").arg(&restored));
        assert_eq!(done.code(), Some(0), "{done:?}");
        assert_eq!(exported(&restored), expected, "format {format}");

        let server = Server::start_in(&data, &[]);
        let bob = server.listener("bob");
        assert_eq!(server.api.send("rj", "hello"), 1);
        server.api.subscribe("new", "star");
        let gone = serde_json::json!([{ "subscriber": "eve", "subscribee": "rj" }]);
        assert_eq!(server.api.post("/subscriptions/remove", &gone).ok()["removed"], 1);
        drop(bob);
        assert_eq!(server.stop("TERM").code(), Some(0));
        let mut changed = expected.clone();
        changed.retain(|pair| pair != "eve rj");
        changed.push("new star".to_owned());
        changed.sort();
        assert_eq!(exported(&data), changed, "format {format}");
        let check = Program::run(encke(["graph", "check", "--data"]).arg(&data));
        assert_eq!(check.code(), Some(0), "{check:?}");
    }
}
