//! A scripted server for tests of the instruments: real sockets, no cleverness. Streams are SSE, or
//! what a test writes to them, as a WebSocket too. The API takes chunked NDJSON and single posts.
//! What happens to each event is the test's to say.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the server does with an event that the API took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Delivers it to its subject's listener.
    Deliver,
    /// Says that it was delivered, and drops it.
    Lose,
    /// Delivers it twice and says once.
    Double,
    /// Delivers it behind the next event about its subject.
    Overtake,
    /// Refuses it.
    Refuse,
    /// Delivers it and does not answer.
    Silent,
    /// Closes the connection to the API.
    End,
}

type Script = dyn Fn(u64) -> Fate + Send + Sync;

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    streams: Mutex<HashMap<String, TcpStream>>,
    /// Events held back, by subject.
    held: Mutex<HashMap<String, String>>,
    /// Events that the API has taken.
    taken: Mutex<u64>,
    script: Box<Script>,
}

impl Server {
    /// A server that treats the `n`th event (from 1) as `script` says.
    pub(crate) fn start(script: impl Fn(u64) -> Fate + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            streams: Mutex::default(),
            held: Mutex::default(),
            taken: Mutex::default(),
            script: Box::new(script),
        });
        let server = Server { address, shared: shared.clone() };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), shared.clone());
                // A client that leaves is no concern of the test.
                thread::spawn(move || serve(stream, &shared).unwrap_or_default());
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn stream_url(&self) -> String {
        format!("http://{}/stream/{{id}}", self.address)
    }

    /// Sends `body` as one chunk on the stream of `id`.
    pub(crate) fn send(&self, id: &str, body: &str) {
        self.shared.chunk(id, body);
    }

    /// Sends raw bytes on the stream of `id`.
    pub(crate) fn send_raw(&self, id: &str, bytes: &[u8]) {
        let mut streams = self.shared.streams.lock().unwrap();
        streams.get_mut(id).unwrap().write_all(bytes).unwrap();
    }

    /// The next `len` bytes that the listener of `id` sends.
    pub(crate) fn receive(&self, id: &str, len: usize) -> Vec<u8> {
        let mut stream = self.shared.streams.lock().unwrap()[id].try_clone().unwrap();
        let mut bytes = vec![0; len];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Closes the stream of `id`.
    pub(crate) fn close(&self, id: &str) {
        let stream = self.shared.streams.lock().unwrap().remove(id).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

impl Shared {
    fn chunk(&self, id: &str, body: &str) {
        let mut streams = self.streams.lock().unwrap();
        let chunk = format!("{:x}\r\n{body}\r\n", body.len());
        streams.get_mut(id).unwrap().write_all(chunk.as_bytes()).unwrap();
    }

    /// Treats one event and returns the answer to it, if there is to be one.
    fn take(&self, json: &str) -> std::io::Result<Option<String>> {
        let event: serde_json::Value = serde_json::from_str(json).unwrap();
        let about = event["about"].as_str().unwrap();
        let number = {
            let mut taken = self.taken.lock().unwrap();
            *taken += 1;
            *taken
        };
        let sse = format!("id: {number}\ndata: {{\"data\":{}}}\n\n", event["data"]);
        let before = self.held.lock().unwrap().remove(about);
        match (self.script)(number) {
            Fate::Refuse => return Ok(Some(r#"{"title":"Refused","status":400}"#.to_owned())),
            Fate::End => return Err(std::io::ErrorKind::BrokenPipe.into()),
            Fate::Silent => {
                self.chunk(about, &sse);
                return Ok(None);
            }
            Fate::Lose => {}
            Fate::Deliver => self.chunk(about, &sse),
            Fate::Double => self.chunk(about, &sse.repeat(2)),
            Fate::Overtake => {
                self.held.lock().unwrap().insert(about.to_owned(), sse);
            }
        }
        if let Some(before) = before {
            self.chunk(about, &before);
        }
        Ok(Some(format!("{{\"delivered\":1,\"id\":\"{number}\"}}")))
    }
}

/// The answer to the key of RFC 6455, section 1.3, which every listener sends.
const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        if let Some(rest) = head.strip_prefix("GET /stream/") {
            let id = rest.split(' ').next().unwrap();
            if id == "forbidden" || id == "13" {
                let body = "{\"title\":\"Unlucky\"}";
                let head = "HTTP/1.1 403 Forbidden\r\nContent-Length";
                return writer
                    .write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes());
            }
            let mut streams = shared.streams.lock().unwrap();
            writer.write_all(if head.contains("Upgrade: websocket") {
                UPGRADED
            } else {
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            })?;
            streams.insert(id.to_owned(), writer);
            return Ok(());
        }
        if head.contains("Transfer-Encoding: chunked") {
            writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let body = chunked_transfer::Decoder::new(&mut reader);
            for line in BufReader::new(body).lines() {
                let Some(answer) = shared.take(&line?)? else { continue };
                let answer = answer + "\n";
                writer.write_all(format!("{:x}\r\n{answer}\r\n", answer.len()).as_bytes())?;
            }
            writer.write_all(b"0\r\n\r\n")?;
        } else {
            let length = head.split("Content-Length: ").nth(1).unwrap();
            let mut body = vec![0; length.split("\r\n").next().unwrap().parse().unwrap()];
            reader.read_exact(&mut body)?;
            let answer = shared.take(std::str::from_utf8(&body).unwrap())?.unwrap_or_default();
            let head = "HTTP/1.1 200 OK\r\nContent-Length";
            writer.write_all(format!("{head}: {}\r\n\r\n{answer}", answer.len()).as_bytes())?;
        }
    }
}
