//! What clients send by request over TLS: a connection that is kept, and bodies of any length, in
//! records that end where no message does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;

use serde_json::{Value, json};

use crate::harness::{Authority, Server, Socket, TOKEN_SECRET, frame, get, tls_client};
use crate::publish::{request, token};

/// One connection by TLS, on which one request follows the other.
struct Kept<S: Read + Write>(BufReader<S>);

/// The head of an answer, in small letters, and its body.
struct Answered {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl<S: Read + Write> Kept<S> {
    fn send(&mut self, request: &str) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection has ended");
        line.to_ascii_lowercase()
    }

    fn head(&mut self) -> (u16, String) {
        let mut head = self.line();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        while !head.ends_with("\r\n\r\n") {
            head += &self.line();
        }
        (status, head)
    }

    fn answer(&mut self) -> Answered {
        let (status, head) = self.head();
        let length = |head: &str| {
            let (_, rest) = head.split_once("content-length: ")?;
            rest.lines().next()?.parse().ok()
        };
        let mut body = vec![0; length(&head).expect(&head)];
        self.0.read_exact(&mut body).unwrap();
        Answered { status, head, body }
    }

    fn ask(&mut self, request: &str) -> Answered {
        self.send(request);
        self.answer()
    }

    /// Nothing more comes.
    fn has_ended(&mut self) -> bool {
        // By a notice of TLS or without: what matters is that it is over.
        self.0.read_to_end(&mut Vec::new()).map_or(true, |read| read == 0)
    }
}

#[test]
fn request_by_tls_sends_over_a_kept_connection_within_the_bounds() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]).options();
    let key = format!("--token-key={TOKEN_SECRET}");
    let options = [
        "--tls-listen=127.0.0.1:0",
        &pair[0],
        &pair[1],
        &key,
        "--client-send-rate=0",
        "--client-payload=40KiB",
    ];
    let server = Server::start(&options);
    let kept =
        || Kept(BufReader::new(tls_client(server.tls_listen(), "localhost", &authority.ca())));
    let bearer = format!("Authorization: Bearer {}", token("bob", &["room:*"]));
    let post = |about: &str, len: usize| {
        let event = json!({ "about": about, "text": "x".repeat(len) }).to_string();
        request("/send", &[&bearer], &event)
    };
    let listen = format!("/stream/room:7?token={}", token("alice", &[]));
    let mut stream = server.stream(&listen, "application/x-ndjson");
    let mut client = kept();
    // Records have up to 16 KiB: some of these bodies end in one, some go on in the next.
    for len in [0, 1, 100, 16_000, 16_384, 40 * 1024] {
        let sent = client.ask(&post("room:7", len));
        assert_eq!((sent.status, &sent.json()["delivered"]), (200, &json!(1)), "{}", sent.head);
        let heard = stream.event();
        assert_eq!((&heard["from"], heard["data"].as_str().unwrap().len()), (&json!("bob"), len));
        // What is refused leaves the connection, too.
        assert_eq!(client.ask(&post("user:9", len)).status, 403);
    }
    assert_eq!(client.ask(&post("room:7", 40 * 1024 + 1)).status, 413);
    // In pieces, each a record of its own.
    let in_pieces = post("room:7", 50);
    for piece in in_pieces.as_bytes().chunks(7) {
        client.send(str::from_utf8(piece).unwrap());
    }
    assert_eq!(client.answer().json()["delivered"], 1);
    // Two at once are answered one after the other.
    client.send(&(post("room:7", 1) + &post("room:7", 2)));
    assert_eq!((client.answer().status, client.answer().status), (200, 200));
    assert_eq!((stream.data(), stream.data()), (json!("x".repeat(50)), json!("x")));
    assert_eq!(stream.data(), "xx");
    // A body that is announced, and waits to be asked for.
    let waits = post("room:7", 3).replacen("\r\n", "\r\nExpect: 100-continue\r\n", 1);
    let (head, body) = waits.split_at(waits.find("\r\n\r\n").unwrap() + 4);
    client.send(head);
    assert_eq!(client.head().0, 100);
    assert_eq!(client.ask(body).status, 200);
    assert_eq!(stream.data(), "xxx");
    // One that no message may be long is refused before it comes, and its connection ends.
    let mut other = kept();
    let long = post("room:7", 0).replacen("Content-Length: ", "Content-Length: 9000", 1);
    assert_eq!(other.ask(&long).status, 413);
    assert!(other.has_ended());
    assert_eq!(client.ask(&post("room:7", 4)).status, 200, "the first one goes on");
    assert_eq!(stream.data(), "xxxx");
}

/// A program that sends and quits: all that it has sent is heard, with a notice of TLS behind it or
/// without. What lay behind the end of one read was thrown away with the end of the connection.
#[test]
fn what_comes_by_tls_with_the_end_of_a_connection_is_sent() {
    const SENDS: usize = 60;
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]).options();
    let options =
        ["--tls-listen=127.0.0.1:0", &pair[0], &pair[1], "--client-send", "--client-send-rate=0"];
    let server = Server::start(&options);
    for says_so in [false, true] {
        let mut stream = server.stream("/stream/room", "application/x-ndjson");
        let mut client = tls_client(server.tls_listen(), "localhost", &authority.ca());
        client.write_all(get("/stream/me", &Socket::FIELDS).as_bytes()).unwrap();
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "));
        // Records of some 180 bytes, all in one write, of which a read takes a part.
        let text = "x".repeat(100);
        for number in 0..SENDS {
            let send = json!({ "send": { "about": "room", "text": text }, "ref": number });
            client.conn.writer().write_all(&frame(0x81, send.to_string().as_bytes())).unwrap();
        }
        if says_so {
            client.conn.send_close_notify();
        }
        let mut sealed = Vec::new();
        while client.conn.wants_write() {
            client.conn.write_tls(&mut sealed).unwrap();
        }
        client.sock.write_all(&sealed).unwrap();
        client.sock.shutdown(Shutdown::Write).unwrap();
        (0..SENDS).for_each(|_| assert_eq!(stream.event()["data"], *text));
    }
}
