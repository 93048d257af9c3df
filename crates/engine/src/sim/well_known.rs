//! One shard that shows texts by path, to whoever asks and as long as they are there.

use crate::limits::TEXTS_MAX;
use crate::mailbox::Order;
use crate::well_known::WellKnown;

use super::one::One;
use super::server::silent_config;
use super::tokens::guarded;

const PATH: &str = "/.well-known/acme-challenge/a_b-c";

impl One {
    /// Shows these texts as a worker does it.
    fn show(&mut self, texts: &[(&str, &str)]) -> bool {
        let owned = texts.iter().map(|(path, text)| (path.to_string(), text.to_string()));
        let is_shown = WellKnown::new(&self.server.mailboxes).show(owned.collect());
        for order in self.server.mailboxes[0].take_orders() {
            let Order::Texts(texts) = order else { panic!("nothing else is ordered") };
            self.server.shards[0].show(texts);
        }
        is_shown
    }

    /// What a client is told that says this.
    fn answer_to(&mut self, request: &str) -> String {
        let client = self.client(1 << 20, request);
        let answer = self.reads(client);
        assert!(self.wire(client).server_ended, "{answer}");
        self.wire(client).client_ends();
        self.turn_after(1);
        answer
    }
}

#[test]
fn text_is_shown_to_everybody_as_long_as_it_is_there() {
    for mut one in [One::start(silent_config()), guarded()] {
        let ask =
            |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nHost: x.test\r\n\r\n");
        assert!(one.answer_to(&ask("GET", PATH)).starts_with("HTTP/1.1 404 "));
        assert!(one.show(&[("/.well-known/other", "no"), (PATH, "a_b-c.thumb")]));
        let answer = one.answer_to(&ask("GET", PATH));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Length: 11\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\na_b-c.thumb"), "{answer}");
        let described = one.answer_to(&ask("HEAD", PATH));
        assert_eq!(described, answer.strip_suffix("a_b-c.thumb").unwrap());
        assert!(one.answer_to(&ask("POST", PATH)).starts_with("HTTP/1.1 405 "));
        for path in ["/.well-known/", "/.well-known/acme-challenge/a", &format!("{PATH}d")] {
            assert!(one.answer_to(&ask("GET", path)).starts_with("HTTP/1.1 404 "), "{path}");
        }
        let many: Vec<_> = (0..=TEXTS_MAX).map(|_| ("/.well-known/x", "x")).collect();
        assert!(!one.show(&many), "there is a bound");
        assert_eq!(one.answer_to(&ask("GET", PATH)), answer, "and what was there stays");
        assert!(one.show(&[]));
        assert!(one.answer_to(&ask("GET", PATH)).starts_with("HTTP/1.1 404 "));
        one.server.end();
        one.server.check_nothing_is_left();
    }
}
