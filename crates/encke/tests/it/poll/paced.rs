//! Events at a rate, heard by polls that come one after another.

use serde_json::{Value, json};

use super::{Poller, next, poller};
use crate::harness::{Program, Server, encke};

/// Events come one by one, some hundreds a second, so that an answer holds one or a few and others
/// fall between two polls.
#[test]
fn paced_events_are_heard_once_across_polls() {
    let server = Server::start(&["--history-events=10000"]);
    let listen = server.listen();
    // One polls on a connection that stays, one on a new connection each time.
    let clients = [true, false].map(|stays| {
        let mut poller = poller(&server);
        poller.ask("/poll/0?wait=0");
        let mut after = next(&poller.answer());
        std::thread::spawn(move || {
            let (mut heard, mut answers) = (Vec::new(), 0);
            while heard.last() != Some(&json!("end")) {
                if !stays {
                    poller = Poller::connect(listen);
                }
                poller.ask(&format!("/poll/0?after={after}"));
                let answer = poller.answer();
                assert_eq!(answer.head.field("encke-gap"), None);
                assert!(next(&answer) > after, "an answer with events leads on");
                after = next(&answer);
                let events = answer.ok();
                heard.extend(events.as_array().unwrap().iter().map(|event| event["data"].clone()));
                answers += 1;
            }
            (heard, answers)
        })
    });
    let args = ["spam", "--users=1", "--rate=400", "--seconds=3", "--json", "--api"];
    let spam = Program::run(encke(args).arg(server.api_url()));
    let sent = serde_json::from_str::<Value>(&spam.stdout).unwrap()["sent"].as_u64().unwrap();
    assert!(sent > 1_000, "{}", spam.stdout);
    server.api.send("0", "end");
    for client in clients {
        let (heard, answers) = client.join().unwrap();
        let stamps = load::stamp::StampFinder::default();
        let stamp = |data: &Value| stamps.find(data.as_str().unwrap().as_bytes());
        let numbers = heard.iter().filter_map(stamp).map(|stamp| u64::from(stamp.number));
        assert!(numbers.eq(1..=sent), "each once, in order");
        assert_eq!(heard.len() as u64, sent + 1);
        // Hundreds, unless the machine is so busy that more comes between two polls.
        assert!(answers > 3, "{answers} answers");
    }
}
