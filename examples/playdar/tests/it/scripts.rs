//! The example scripts, asked as they would be, and scripts that break the rules.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use playdar::pipeline::Pipeline;
use playdar::scripts;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::one_song::{self, DEADLINE, OneSong};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// Skips the test where there is no such program.
fn can_run(interpreter: &str) -> bool {
    let mut command = Command::new(interpreter);
    let runs = command.arg("--version").stdout(Stdio::null()).status().is_ok();
    if !runs {
        testing::skip(&format!("there is no {interpreter}"));
    }
    runs
}

/// A script of a few lines in Python. `say` writes a frame; `hear` reads one; `note` tells the test
/// a line.
fn script(dir: &TempDir, name: &str, body: &str) -> PathBuf {
    let notes = dir.path().join("notes");
    let head = format!(
        "#!/usr/bin/env python3\nimport json, os, struct, sys\n\
         def say(message, length=None):\n    body = json.dumps(message).encode()\n    \
         sys.stdout.buffer.write(struct.pack('>I', length or len(body)) + body)\n    \
         sys.stdout.buffer.flush()\n\
         def hear():\n    (length,) = struct.unpack('>I', sys.stdin.buffer.read(4))\n    \
         return json.loads(sys.stdin.buffer.read(length))\n\
         def note(line):\n    with open({notes:?}, 'w') as notes:\n        \
         notes.write(line + '\\n')\n\
         settings = {{'_msgtype': 'settings', 'name': {name:?}, 'targettime': 50, 'weight': 50}}\n"
    );
    let path = dir.path().join(name);
    fs::write(&path, head + body).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What scripts `note`, by a pipe of the file system.
struct Notes(BufReader<pipe::Receiver>);

impl Notes {
    fn new(dir: &TempDir) -> Notes {
        let path = dir.path().join("notes");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Both ways, so that it does not end with a script.
        let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
        Notes(BufReader::new(pipe))
    }

    async fn next(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(DEADLINE, self.0.read_line(&mut line)).await;
        read.expect("it is noted in time").unwrap();
        line.trim_end().to_owned()
    }
}

/// Asks until a script has joined that answers.
async fn asked(pipeline: &Pipeline) -> Vec<std::sync::Arc<playdar::model::Found>> {
    let asking = async {
        // Each time it has twice as long, on a machine that is too busy for the last.
        for n in 0.. {
            let qid = playdar::model::new_id();
            pipeline.resolve(one_song::query(&qid)).unwrap();
            let mut watch = pipeline.watch(&qid).unwrap();
            let soon = std::time::Duration::from_millis(200 << n);
            if let Ok(Some(found)) = timeout(soon, watch.next()).await {
                return found;
            }
        }
        unreachable!("the deadline comes first")
    };
    timeout(DEADLINE, asking).await.expect("the script joins in time")
}

async fn example_answers_the_stock_query(name: &str, interpreter: &str) {
    if !can_run(interpreter) {
        return;
    }
    let (pipeline, library) = one_song::pipeline(None);
    let scripts = scripts::start(&[example(name)], &pipeline);
    let results = asked(&pipeline).await;
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].score, Some(0.987));
    assert_eq!(results[0].url.as_deref(), Some("http://www.playdar.org/hiding.mp3"));
    let profile = pipeline.profiles().into_iter().find(|it| it.name.starts_with("Example"));
    assert_eq!(profile.unwrap().target_time.as_millis(), 200);
    // It has nothing to say to another query, and goes on.
    pipeline.resolve(one_song::query_for("OTHER", "unknown")).unwrap();
    library.asked_for("unknown").await;
    assert_eq!(asked(&pipeline).await.len(), 1);
    scripts.stop().await;
    assert_eq!(pipeline.profiles().len(), 1, "it left with its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn example_in_python_answers_the_stock_query() {
    example_answers_the_stock_query("example.py", "python3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn example_in_javascript_answers_the_stock_query() {
    example_answers_the_stock_query("example.mjs", "node").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_break_a_rule_are_dropped_and_the_others_told() {
    if !can_run("python3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let song = json!({"artist": one_song::ARTIST, "track": one_song::TRACK});
    let with = |more: Value| {
        let mut song = song.clone();
        song.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        song
    };
    let results = json!([
        with(json!({"url": "file:///etc/passwd"})),
        with(json!({})),
        7,
        with(json!({"url": "http://a.test/long", "x": "y".repeat(600)})),
        with(json!({"url": "http://a.test/good", "score": 0.9})),
    ]);
    let body = format!(
        "say(settings)\nwhile True:\n    asked = hear()\n    \
         say({{'_msgtype': 'news'}})\n    \
         say({{'_msgtype': 'results', 'qid': 'no-such-query', 'results': []}})\n    \
         say({{'_msgtype': 'results', 'qid': asked['qid'], 'results': \
         json.loads({:?})}})\n",
        results.to_string()
    );
    let path = script(&dir, "rules", &body);
    let (pipeline, _) = one_song::pipeline(None);
    let scripts = scripts::start(&[path], &pipeline);
    let urls: Vec<String> =
        asked(&pipeline).await.iter().map(|found| found.url.clone().unwrap()).collect();
    assert_eq!(urls, ["http://a.test/long", "http://a.test/good"]);
    scripts.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn script_that_dies_comes_back_and_meanwhile_is_not_asked() {
    if !can_run("python3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut notes = Notes::new(&dir);
    // Its first run dies of the first query, with a frame that is too long; the second one lasts.
    let body = "first = not os.path.exists(sys.argv[0] + '.ran')\n\
        open(sys.argv[0] + '.ran', 'w').close()\nsay(settings)\nnote('joined')\n\
        while True:\n    asked = hear()\n    \
        if first: say({}, 4097)\n    \
        song = {'artist': asked['artist'], 'track': asked['track'], 'url': 'http://a.test/x'}\n    \
        say({'_msgtype': 'results', 'qid': asked['qid'], 'results': [song]})\n";
    let path = script(&dir, "mortal", body);
    let (pipeline, _) = one_song::pipeline(None);
    let scripts = scripts::start(&[path], &pipeline);
    assert_eq!(notes.next().await, "joined");
    let found = asked(&pipeline).await;
    assert_eq!(found[0].url.as_deref(), Some("http://a.test/x"));
    assert_eq!(notes.next().await, "joined");
    scripts.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_scripts_of_one_name_are_both_asked() {
    if !can_run("python3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut notes = Notes::new(&dir);
    let body = "say(settings)\nasked = hear()\nnote('asked ' + asked['track'])\nhear()\n";
    let path = script(&dir, "twin", body);
    let (pipeline, _) = one_song::pipeline(None);
    let scripts = scripts::start(&[path.clone(), path], &pipeline);
    let joined = async {
        while pipeline.profiles().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, joined).await.expect("both join");
    let mut names: Vec<String> = pipeline.profiles().into_iter().map(|it| it.name).collect();
    names.sort();
    assert_eq!(names, ["one song of weight 100", "twin", "twin (2)"]);
    pipeline.resolve(one_song::query_for("Q", "both")).unwrap();
    assert_eq!([notes.next().await, notes.next().await], ["asked both", "asked both"]);
    scripts.stop().await;
}

/// It reads nothing and ignores the end of its input: only force ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn script_that_will_not_end_is_killed_with_us() {
    if !can_run("python3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut notes = Notes::new(&dir);
    let body = "import signal\nsay(settings)\nprint('x' * 1000000, file=sys.stderr)\n\
        note(str(os.getpid()))\nsignal.pause()\n";
    let path = script(&dir, "stubborn", body);
    let (pipeline, _) = one_song::pipeline(None);
    let after = OneSong::new(10, None);
    pipeline.add(after.clone());
    let scripts = scripts::start(&[path], &pipeline);
    let pid = notes.next().await;
    assert!(Path::new("/proc").join(&pid).exists());
    for n in 0..500 {
        pipeline.resolve(one_song::query_for(&n.to_string(), "unread")).unwrap();
    }
    // Those of less weight are asked all the same.
    after.asked_for("unread").await;
    timeout(DEADLINE, scripts.stop()).await.expect("it ends in time");
    assert!(!Path::new("/proc").join(&pid).exists(), "process {pid} lives on");
}
