//! Streams of lines that are under way when everything is handed over, between two whole servers.

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::*;
use crate::Server;
use crate::tests::config;

/// The program that was and the one that goes on, each with its data.
struct Two {
    old: Server,
    new: Server,
    data: [TempDir; 2],
}

impl Two {
    async fn start() -> Two {
        let data = [data(), data()];
        let old = Server::start(config(data[0].path())).await.unwrap();
        let new = Server::start(config(data[1].path())).await.unwrap();
        Two { old, new, data }
    }

    /// As an upgrade does it, when all is written down.
    async fn move_on(&mut self) {
        let data = self.data[0].path();
        self.new.serve_passed(PassingSocket::bind(data).unwrap());
        self.old.move_on().await;
    }
}

/// A request whose body is written line by line, and its answer.
struct Lines {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Lines {
    async fn begin(server: &Server, path: &str) -> Lines {
        let stream = TcpStream::connect(server.api().unwrap()).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        writer.write_all(head.as_bytes()).await.unwrap();
        Lines { reader: BufReader::new(reader), writer }
    }

    async fn write(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.writer.write_all(chunk.as_bytes()).await.unwrap();
    }

    async fn end(&mut self) {
        self.writer.write_all(b"0\r\n\r\n").await.unwrap();
    }

    /// The next line of the answer that is JSON, without head and chunks.
    async fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let read = timeout(DEADLINE, self.reader.read_line(&mut line)).await;
            assert_ne!(read.expect("it is answered").unwrap(), 0, "the answer has ended");
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    async fn says_nothing(&mut self) -> bool {
        timeout(Duration::from_millis(50), self.next()).await.is_err()
    }

    async fn rest(mut self) -> String {
        let mut rest = String::new();
        timeout(DEADLINE, self.reader.read_to_string(&mut rest)).await.unwrap().unwrap();
        rest
    }
}

/// A listener of the id 7, and the numbers that it has heard.
struct Listener(BufReader<TcpStream>);

impl Listener {
    async fn connect(server: &Server) -> Listener {
        let mut stream = TcpStream::connect(server.listen()).await.unwrap();
        stream.write_all(b"GET /stream/7 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        Listener(BufReader::new(stream))
    }

    async fn hears(&mut self) -> u64 {
        loop {
            let mut line = String::new();
            timeout(DEADLINE, self.0.read_line(&mut line)).await.expect("it hears").unwrap();
            if let Some((_, data)) = line.split_once("\"data\":") {
                return data.trim_end().trim_end_matches('}').parse().unwrap();
            }
        }
    }
}

fn event(number: u64) -> String {
    format!("{{\"about\":7,\"data\":{number}}}\n")
}

#[tokio::test]
async fn stream_of_sends_goes_on_at_the_successor_and_its_client_notices_nothing() {
    let mut two = Two::start().await;
    let mut listeners = [Listener::connect(&two.old).await, Listener::connect(&two.new).await];
    let mut sending = Lines::begin(&two.old, "/send").await;
    for number in 1..=3 {
        sending.write(&event(number)).await;
        assert_eq!(sending.next().await["delivered"], 1);
        assert_eq!(listeners[0].hears().await, number);
    }
    two.old.barrier().close();
    assert!(two.old.barrier().emptied(DEADLINE).await);
    sending.write(&event(4)).await;
    // Line 5 is blank, line 6 is none, line 7 is too long and line 8 is cut in two.
    sending.write("\n{\"about\":7,\"x\":1}\n").await;
    sending.write(&"x".repeat(httpd::lines::LINE_BYTES_MAX + 1)).await;
    sending.write(&format!("\n{}", &event(8)[..5])).await;
    assert!(sending.says_nothing().await, "it waits");
    two.move_on().await;
    assert_eq!(sending.next().await["delivered"], 1);
    let problem = sending.next().await;
    assert_eq!((&problem["line"], &problem["status"]), (&json!(6), &json!(400)));
    assert!(problem["detail"].as_str().unwrap().starts_with("Line 6 cannot"), "{problem}");
    let problem = sending.next().await;
    assert_eq!((&problem["line"], &problem["status"]), (&json!(7), &json!(413)));
    sending.write(&event(8)[5..]).await;
    assert_eq!(sending.next().await["delivered"], 1);
    // More than the window holds, and all at once.
    let many = 9..9 + 10_000_u64;
    let (mut reader, mut writer) = (sending.reader, sending.writer);
    let written = tokio::spawn({
        let many = many.clone();
        async move {
            for number in many {
                let line = event(number);
                let chunk = format!("{:x}\r\n{line}\r\n", line.len());
                writer.write_all(chunk.as_bytes()).await.unwrap();
            }
            writer.write_all(b"0\r\n\r\n").await.unwrap();
            writer
        }
    });
    // The connection stays for a while: its client has not been told that it ends.
    let mut rest = Vec::new();
    while !rest.ends_with(b"\r\n0\r\n\r\n") {
        let read = timeout(DEADLINE, reader.read_buf(&mut rest)).await;
        assert_ne!(read.expect("it is answered").unwrap(), 0);
    }
    let rest = String::from_utf8(rest).unwrap();
    drop(reader);
    drop(written.await.unwrap());
    let ids: Vec<&str> = rest.split("\"id\":\"").skip(1).map(|rest| &rest[..16]).collect();
    assert_eq!(ids.len() as u64, many.end - many.start);
    assert!(ids.is_sorted_by(|one, next| one < next), "they are posted in the order of lines");
    // It is let go later, since it has not read so much.
    for number in [4, 8].into_iter().chain(many).take(100) {
        assert_eq!(listeners[1].hears().await, number);
    }
    assert!(two.old.until_last(DEADLINE).await, "that was the last connection");
}

#[tokio::test]
async fn line_whose_successor_is_gone_is_told_what_became_of_it() {
    let (two, nowhere) = (Two::start().await, data());
    let mut sending = Lines::begin(&two.old, "/send").await;
    sending.write(&event(1)).await;
    sending.next().await;
    let mut other = Lines::begin(&two.old, "/send").await;
    other.write(&event(1)).await;
    other.next().await;
    two.old.barrier().close();
    let taken = UnixListener::bind(place::path(two.data[0].path())).unwrap();
    two.old.move_on().await;
    sending.write(&format!("{}{}", event(2), event(3))).await;
    let (mut stream, _) = taken.accept().await.unwrap();
    stream.read_exact(&mut [0; 8]).await.unwrap();
    drop((stream, taken));
    let problem = sending.next().await;
    assert_eq!(problem["line"], 2);
    assert!(problem["detail"].as_str().unwrap().contains("not known"), "{problem}");
    assert!(!sending.rest().await.contains('{'), "nothing more is said");
    two.old.barrier().move_on(Successor::in_any_process(nowhere.path()));
    other.write(&event(2)).await;
    let problem = other.next().await;
    assert_eq!(problem["line"], 2);
    assert!(problem["detail"].as_str().unwrap().contains("Nothing was sent of them"), "{problem}");
    assert!(!other.rest().await.contains('{'), "nothing more is said");
}

#[tokio::test]
async fn body_that_is_read_behind_the_closed_barrier_goes_to_the_successor_whole() {
    let mut two = Two::start().await;
    let stream = TcpStream::connect(two.old.api().unwrap()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let body = event(1);
    let head = format!("POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    writer.write_all(head.as_bytes()).await.unwrap();
    writer.write_all(&body.as_bytes()[..4]).await.unwrap();
    let mut adding = Lines::begin(&two.old, "/subscriptions/add").await;
    adding.write("{\"subscriber\":1,\"subscribee\":\"a\\\"b\"}\n").await;
    // Both have been let in by now, or wait; either way nothing of them is done here.
    sleep(Duration::from_millis(50)).await;
    two.old.barrier().close();
    assert!(two.old.barrier().emptied(DEADLINE).await, "who is waited for is not in");
    let mut listener = Listener::connect(&two.new).await;
    two.move_on().await;
    writer.write_all(&body.as_bytes()[4..]).await.unwrap();
    adding.write("{\"subscriber\":2,\"subscribee\":\"a\\\"b\"}\n").await;
    adding.end().await;
    assert_eq!(listener.hears().await, 1);
    let mut answer = String::new();
    timeout(DEADLINE, reader.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(last(&answer).1["delivered"], 1);
    assert_eq!(adding.next().await, json!({ "added": 2 }));
    assert_eq!(two.new.graph.stats(&mut |_, _| {}).unwrap().subscriptions, 2);
    assert_eq!(two.old.graph.stats(&mut |_, _| {}).unwrap().subscriptions, 0);
}
