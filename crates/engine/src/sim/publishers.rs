//! Clients of a WebSocket that send at random, cut at any byte, read slowly, and go at any moment,
//! and a control plane that answers what it has been asked in any order and late.
//!
//! The model knows what each client said: what the control plane is asked of one connection is a
//! beginning of that, in its order, without those that were answered at once; a client that stays
//! is answered each of its sends once; and when all have gone nothing is left.

use std::collections::BTreeMap;

use super::each_seed;
use super::one::One;
use super::random::Random;
use super::server::{Place, silent_config};
use super::talk::{client_frame, server_texts};
use super::tokens::websocket;
use crate::answers::Answers;
use crate::client_sends::{ClientSend, ClientSendLimits, SentBy};
use crate::said::{Answered, DirectMessage};

const CLIENTS: usize = 8;
const STEPS: usize = 400;

/// One that sends.
struct Sender {
    place: Place,
    said: u64,
    /// Bytes of frames that it has not sent on.
    unsent: Vec<u8>,
    heard: Vec<u8>,
    /// The last of its sends that the control plane was asked.
    asked: Option<u64>,
    has_gone: bool,
}

struct World {
    one: One,
    random: Random,
    senders: Vec<Sender>,
    /// What the control plane has not answered.
    waiting: Vec<ClientSend>,
    answered: u64,
}

fn reference(send: &ClientSend) -> u64 {
    let SentBy::Message { reference: Some(reference), .. } = send.by() else {
        panic!("it came by a message, with its number")
    };
    reference.parse().unwrap()
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut config = silent_config();
        let per_second = [0, 1, 50][random.below(3)];
        config.settings.client_sends =
            ClientSendLimits { without_tokens: true, per_second, payload_bytes_max: 100 };
        let mut one = One::start(config);
        let senders = (0..CLIENTS).map(|_| {
            let room = [200, 1 << 20][random.below(2)];
            let place = one.client(room, &websocket("/stream/1", ""));
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.extend(one.wire(place).client_reads(1));
                one.turn_after(0);
            }
            let (unsent, heard) = (Vec::new(), Vec::new());
            Sender { place, said: 0, unsent, heard, asked: None, has_gone: false }
        });
        let senders = senders.collect();
        World { one, random, senders, waiting: Vec::new(), answered: 0 }
    }

    fn step(&mut self) {
        let at = self.random.below(CLIENTS);
        let sender = &mut self.senders[at];
        match self.random.below(10) {
            _ if sender.has_gone => {}
            0..4 => {
                let text = format!("{{\"send\":[{at}],\"ref\":{}}}", sender.said);
                sender.said += 1;
                sender.unsent.extend(client_frame(0x81, text.as_bytes()));
            }
            4..8 => {
                let some = self.random.below(sender.unsent.len() + 1);
                let bytes: Vec<u8> = sender.unsent.drain(..some).collect();
                let place = sender.place;
                self.one.say(place, &bytes);
            }
            8 => {
                let most = 1 + self.random.below(300);
                sender.heard.extend(self.one.wire(sender.place).client_reads(most));
            }
            _ if self.random.one_in(40) => {
                sender.has_gone = true;
                self.one.wire(sender.place).client_ends();
            }
            _ => {}
        }
        if self.random.one_in(3) {
            self.ask();
        }
        if self.random.one_in(4) && !self.waiting.is_empty() {
            let which = self.random.below(self.waiting.len());
            self.answer(which);
        }
        // All steps together are shorter than a message may take to come whole.
        self.one.turn_after(self.random.below(20) as u64);
    }

    /// The control plane takes what has come.
    fn ask(&mut self) {
        while let Some(send) = self.one.server.client_sends.questions().take() {
            let number = reference(&send);
            let sender = str::from_utf8(send.event()).unwrap().trim_matches(['[', ']']);
            let sender = &mut self.senders[sender.parse::<usize>().unwrap()];
            assert!(sender.asked < Some(number), "in the order in which they were said, once");
            assert!(number < sender.said);
            sender.asked = Some(number);
            self.waiting.push(send);
        }
    }

    fn answer(&mut self, which: usize) {
        let send = self.waiting.swap_remove(which);
        let reference = Some(reference(&send).to_string().into());
        let answered = Box::new(Answered { outcome: Ok("{}".into()), reference });
        let answers = Answers::new(self.one.server.mailboxes.clone());
        answers.say(send.conn(), DirectMessage::Sent(answered)).unwrap();
        self.answered += 1;
    }

    /// All that is said is heard and answered; then all go.
    fn end(mut self) -> u64 {
        for at in 0..CLIENTS {
            let (place, unsent) = (self.senders[at].place, self.senders[at].unsent.split_off(0));
            if !self.senders[at].has_gone {
                self.one.say(place, &unsent);
            }
        }
        loop {
            self.ask();
            while !self.waiting.is_empty() {
                self.answer(0);
            }
            while self.one.turn_after(1) {}
            // Who had no room has some now.
            if !self.read_all() && !self.one.server.client_sends.questions().is_any_to_take() {
                break;
            }
        }
        for sender in self.senders.iter().filter(|sender| !sender.has_gone) {
            let mut answers: BTreeMap<u64, u32> = BTreeMap::new();
            for text in server_texts(&sender.heard) {
                let is_known = text.starts_with("{\"ok\":{}") || text.contains("\"status\":429");
                let (_, number) = text.rsplit_once("\"ref\":").unwrap();
                assert!(is_known, "{text}");
                *answers.entry(number.trim_end_matches('}').parse().unwrap()).or_default() += 1;
            }
            let expected: BTreeMap<u64, u32> = (0..sender.said).map(|said| (said, 1)).collect();
            assert_eq!(answers, expected, "each is answered once");
        }
        assert!(self.one.server.is_at_rest(0), "none is under way");
        let places: Vec<Place> = self.senders.iter().map(|sender| sender.place).collect();
        self.one.end(&places);
        self.answered
    }

    /// All read what there is. Whether there was something.
    fn read_all(&mut self) -> bool {
        let mut is_any = false;
        for sender in &mut self.senders {
            let read = self.one.wire(sender.place).client_reads(usize::MAX);
            is_any |= !read.is_empty();
            sender.heard.extend(read);
        }
        is_any
    }
}

#[test]
fn each_send_is_asked_in_order_and_answered_once() {
    let mut answered = 0;
    let all = each_seed("each_send_is_asked", 60, |seed| {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        answered += world.end();
    });
    assert!(!all || answered > 2_000, "{answered}");
}
