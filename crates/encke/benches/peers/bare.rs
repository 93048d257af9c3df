//! The bare loop: the least code that takes an event over HTTP and puts it into a stream. A thread
//! per core, each with an epoll and a listener of its own. A table of all streams by number, since
//! any thread may write to any socket. It has no ids but numbers, no timers, no limits, no backlog
//! and no history. It does not provide for a request that comes in pieces, or for a client that
//! does not read or that leaves.

use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::thread;

use memchr::memmem;
use proto::{Carrier, Format, response, resume};
use sys::epoll::{Epoll, Events};
use sys::socket;

use crate::Outcome;

/// All streams, by the number in their path.
type Streams = Arc<[OnceLock<OwnedFd>]>;

const LISTENER: u64 = u64::MAX;

/// Serves in this process until its standard input ends; prints its port first.
pub(crate) fn serve(threads: usize, streams: usize) -> Outcome<()> {
    sys::limits::raise_descriptors()?;
    let address = socket::claim(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let table: Streams = (0..streams).map(|_| OnceLock::new()).collect();
    for _ in 0..threads {
        let (listener, table) = (socket::bind_in_group(address)?, Arc::clone(&table));
        socket::listen(&listener, 65_535)?;
        thread::spawn(move || {
            let error = work(&listener, &table).err();
            // Who waits for an answer would wait in vain.
            eprintln!("the bare loop ends: {error:?}");
            std::process::exit(1);
        });
    }
    println!("{}", address.port());
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn work(listener: &OwnedFd, streams: &Streams) -> Outcome<()> {
    let (epoll, mut events) = (Epoll::new()?, Events::with_capacity(1024));
    epoll.add_source(listener, LISTENER)?;
    let mut head = Vec::new();
    response::stream_head(Format::Sse, Carrier::Chunked, None, &mut head);
    resume::end_head(&mut head, None, None);
    let (mut buffer, mut answer) = ([0; 4096], Vec::new());
    // What this thread has accepted; a stream moves on into the table.
    let mut sockets: Vec<Option<OwnedFd>> = Vec::new();
    loop {
        epoll.wait(&mut events, None)?;
        for report in events.iter() {
            if report.token == LISTENER {
                match socket::accept(listener) {
                    Ok(socket) => {
                        epoll.add_stream(&socket, sockets.len() as u64)?;
                        sockets.push(Some(socket));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let place = &mut sockets[report.token as usize];
            let Some(socket) = place else { continue };
            let Ok(len @ 1..) = socket::receive(socket, &mut buffer) else { continue };
            let request = &buffer[..len];
            if let Some(path) = request.strip_prefix(b"GET /stream/") {
                // The client's socket is empty, so there is room.
                socket::send(socket, &head)?;
                let stream = streams.get(number(path)).zip(place.take());
                let (entry, socket) = stream.ok_or("a stream beyond the table")?;
                entry.set(socket).map_err(|_| "a second stream of one number")?;
            } else {
                let delivered = post(request, streams)?;
                let body = format!("{{\"delivered\":{delivered},\"id\":\"{NUMBER}\"}}");
                answer.clear();
                write!(answer, "{ANSWER}{}\r\n\r\n{body}", body.len())?;
                socket::send(socket, &answer)?;
            }
        }
    }
}

/// The id of each event: one that is counted costs nothing more.
const NUMBER: &str = "0000000000000000";

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";

/// Takes `POST /send` with `{"about":"<number>","data":…}` and sends the event; to how many.
fn post(request: &[u8], streams: &Streams) -> Outcome<u32> {
    let head_end = memmem::find(request, b"\r\n\r\n").ok_or("a head in pieces")? + 4;
    let (head, body) = request.split_at(head_end);
    let length = memmem::find(head, b"Content-Length: ").ok_or("no length")?;
    if number(&head[length + b"Content-Length: ".len()..]) != body.len() {
        return Err("a body in pieces".into());
    }
    let about = body.strip_prefix(b"{\"about\":\"").ok_or("no subject")?;
    let Some(stream) = streams.get(number(about)).and_then(OnceLock::get) else { return Ok(0) };
    // As Encke does: the event's own object is the sender's with an id before it.
    let rest = std::str::from_utf8(&body[1..])?;
    let event = proto::sse::event(NUMBER, &format!("{{\"id\":\"{NUMBER}\",{rest}"));
    send(stream, event.for_carrier(Carrier::Chunked));
    Ok(1)
}

/// The digits that `bytes` begin with.
fn number(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: usize, digit| {
        number.wrapping_mul(10).wrapping_add(usize::from(digit - b'0'))
    })
}

/// A reader that falls behind is waited for, as in the simplest of servers.
fn send(socket: &OwnedFd, event: &[u8]) {
    while socket::send(socket, event).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
        thread::yield_now();
    }
}
