//! Loading files: into empty and into filled stores, good and bad ones.

use std::sync::mpsc;

use super::super::{LineError, LoadError, LoadOptions, LoadReport, Malformed, Phase};
use super::*;

fn load(graph: &Graph, text: &str, options: LoadOptions) -> Result<LoadReport, LoadError> {
    let bytes = text.len() as u64;
    graph.load("friends.txt", &mut text.as_bytes(), bytes, options, &mut |_| {})
}

const BOTH: LoadOptions = LoadOptions { both: true, skip_malformed: false };

#[test]
fn first_of_a_line_follows_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let report = load(&graph, "# a comment\n\nbob rj\n 1\trj\r\nbob rj\n", LoadOptions::default());
    let expected = LoadReport { pairs: 3, added: 2, malformed: Malformed::default() };
    assert_eq!(report.unwrap(), expected);
    let model = [("bob".into(), "rj".into()), ("1".into(), "rj".into())].into();
    agree(&graph, &model, &["bob".into(), "rj".into(), "1".into()], 10);
    // A loaded pair is a pair like any other.
    assert_eq!(graph.remove_blocking(vec![pair("bob", "rj"), pair("1", "rj")]), Ok(2));
    assert!(graph.names().is_empty());
}

#[test]
fn random_files_agree_with_a_naive_model_into_empty_and_filled_stores() {
    let mut random = fastrand::Rng::with_seed(seed());
    let people: Vec<String> =
        (0..700).map(|n| if n % 5 == 0 { format!("p{n}") } else { n.to_string() }).collect();
    let dir = tempfile::tempdir().unwrap();
    let (mut graph, mut model) = (open(dir.path()), Model::new());
    for round in 0..6 {
        let both = random.bool();
        let (mut text, mut added) = (String::new(), 0);
        for _ in 0..random.usize(1..2000) {
            // One in four lines is about a celebrity, whose list takes several blocks.
            let a = &people[random.usize(..people.len())];
            let some = if random.usize(..4) == 0 { 2 } else { people.len() };
            let b = &people[random.usize(..some)];
            text.push_str(&format!("{a} {b}\n"));
            added += u64::from(model.insert((a.clone(), b.clone())));
            added += u64::from(both && model.insert((b.clone(), a.clone())));
        }
        let report = load(&graph, &text, if both { BOTH } else { LoadOptions::default() });
        assert_eq!(report.unwrap().added, added);
        if round % 2 == 1 {
            drop(graph);
            graph = open(dir.path());
        }
        agree(&graph, &model, &people, 100);
        let some = || people[random.usize(..people.len())].clone();
        let pairs: Vec<_> = std::iter::repeat_with(some).take(600).collect();
        let pairs: Vec<_> = pairs.chunks(2).map(|ab| (ab[0].clone(), ab[1].clone())).collect();
        let new = pairs.iter().filter(|&pair| model.insert(pair.clone())).count();
        let request = pairs.iter().map(|(a, b)| pair(a, b)).collect();
        assert_eq!(graph.add_blocking(request), Ok(new as u64));
    }
    agree(&graph, &model, &people, 100);
}

#[test]
fn malformed_lines_are_named_and_nothing_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let text = "1 2\nalice\nbob carol dave\n3 4\n5 a/b\n";
    let error = load(&graph, text, LoadOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing was loaded, friends.txt has 3 malformed lines; correct them, or add \
         --skip-malformed:\n\
         friends.txt:2: expected two ids, found 1\n\
         friends.txt:3: expected two ids, found 3\n\
         friends.txt:5: an id must not contain '/': \
         no control characters, no white space, no '/', '?', '#'"
    );
    assert_eq!((graph.subscriptions(), graph.names().len()), (0, 0));
    let skip = LoadOptions { skip_malformed: true, ..LoadOptions::default() };
    let report = load(&graph, text, skip).unwrap();
    assert_eq!((report.pairs, report.added, report.malformed.count), (2, 2, 3));
    assert_eq!(report.malformed.first[0], (2, LineError::Fields(1)));
}

#[test]
fn every_malformed_line_is_counted_and_the_first_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let error = load(&graph, &"x\n".repeat(5000), LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("has 5000 malformed lines"));
    assert_eq!(error.lines().count(), 1 + 20 + 1);
    assert!(error.ends_with("and 4980 more"));
}

#[test]
fn failing_input_loads_nothing() {
    struct Broken(bool);
    impl std::io::Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(std::io::Error::other("the disk came off"));
            }
            buffer[..8].copy_from_slice(b"1 2\na b\n");
            Ok(8)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let options = LoadOptions::default();
    let error = graph.load("pipe", &mut Broken(false), 0, options, &mut |_| {}).unwrap_err();
    let expected = "nothing was loaded, pipe could not be read: the disk came off";
    assert_eq!(error.to_string(), expected);
    assert_eq!((graph.subscriptions(), graph.names().len()), (0, 0));
    assert_eq!(graph.add_blocking(vec![pair("1", "2")]), Ok(1), "the writer goes on");
}

#[test]
fn progress_passes_through_all_phases_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let mut seen = Vec::new();
    let mut progress = |progress: Progress| seen.push(progress.phase);
    graph.load("x", &mut &b"1 2\n2 3\n"[..], 8, LoadOptions::default(), &mut progress).unwrap();
    use Phase::{Reading, Sorting, Syncing, Writing};
    seen.dedup();
    assert_eq!(seen, [Reading, Sorting, Writing, Sorting, Writing, Syncing]);
}

/// A pipe that stays empty until another writer has been answered.
#[test]
fn load_that_waits_for_its_input_holds_nobody_up() {
    struct Pipe<'g>(&'g Graph, u32);
    impl std::io::Read for Pipe<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 += 1;
            let line = match self.1 {
                1 => "a b\n",
                2 => {
                    // The load has read a name; while it waits for more the name comes and goes.
                    let (graph, (answer, answered)) = (self.0.clone(), mpsc::sync_channel(1));
                    thread::spawn(move || {
                        let added = graph.add_blocking(vec![pair("a", "c"), pair("5", "6")]);
                        let _ = answer.send((added, graph.remove_blocking(vec![pair("a", "c")])));
                    });
                    let deadline = std::time::Duration::from_secs(30);
                    assert_eq!(answered.recv_timeout(deadline), Ok((Ok(2), Ok(1))));
                    "5 6\n"
                }
                _ => return Ok(0),
            };
            buffer[..4].copy_from_slice(line.as_bytes());
            Ok(4)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let options = LoadOptions::default();
    let report = graph.load("pipe", &mut Pipe(&graph, 0), 0, options, &mut |_| {}).unwrap();
    assert_eq!((report.pairs, report.added), (2, 1), "the other writer was first with 5 6");
    let model = [("a".into(), "b".into()), ("5".into(), "6".into())].into();
    agree(&graph, &model, &["a", "b", "c", "5", "6"].map(String::from), 10);
    drop(graph);
    agree(&open(dir.path()), &model, &["a", "b", "5", "6"].map(String::from), 10);
}
