//! Who answers the program: a server that answers what a case says, and the socket of one that is
//! asked for an upgrade.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tungstenite::handshake::derive_accept_key;

/// What a peer takes of a request.
const REQUEST_BYTES: usize = 1 << 16;

/// More than an event of a stream may have.
const MUCH_BYTES: usize = (1 << 20) + 1;

/// What becomes of a connection behind an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Close,
    Reset,
    /// It stays, and each further request has the same answer.
    Hold,
}

/// A peer that answers `answer`, a byte for each character, to everybody. In it `{accept}` is the
/// proof of a WebSocket's server, and `{much}` more than an event may have.
pub(super) fn answering(answer: &str, then: Then) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, answer) = (listener.local_addr().unwrap(), answer.to_owned());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            // A client that is gone has nothing to be told.
            thread::spawn(move || while talk(&stream, &answer, then).unwrap_or(false) {});
        }
    });
    address
}

/// Answers a request; whether there may be another.
fn talk(mut stream: &TcpStream, answer: &str, then: Then) -> io::Result<bool> {
    let mut request = vec![0; REQUEST_BYTES];
    let len = stream.read(&mut request)?;
    let request = String::from_utf8_lossy(&request[..len]);
    let key = request.split_once("sec-websocket-key: ").and_then(|(_, key)| key.lines().next());
    let accept = key.map(|key| derive_accept_key(key.as_bytes())).unwrap_or_default();
    let answer = answer.replace("{accept}", &accept).replace("{much}", &"x".repeat(MUCH_BYTES));
    let answer: Vec<u8> = answer.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    stream.write_all(&answer)?;
    match then {
        // Until the other has seen that: what it asks meanwhile would be answered by a reset.
        Then::Close => {
            stream.shutdown(Shutdown::Write)?;
            io::copy(&mut stream, &mut io::sink())?;
        }
        Then::Reset => socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))?,
        Then::Hold => {}
    }
    Ok(then == Then::Hold && len > 0)
}

/// A server's socket in `dir`, where who asks for an upgrade is told `word`.
pub(super) fn upgrading(dir: &Path, word: &str) {
    let listener = UnixListener::bind(dir.join("upgrade.sock")).unwrap();
    let len = u32::try_from(word.len()).unwrap().to_le_bytes();
    let word = [&len[..], word.as_bytes()].concat();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&word).unwrap();
        // Until it has heard.
        let _ = stream.read_to_end(&mut Vec::new());
    });
}
