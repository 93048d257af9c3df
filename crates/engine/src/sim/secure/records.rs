//! What stands between a client's records, or is wrong with one: a whole rustls is the client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;

use tls::rustls::pki_types::ServerName;
use tls::rustls::{AlertDescription, ClientConnection, Error};

use super::{NAME, configs};
use crate::counters::Counters;
use crate::limits::work;
use crate::sim::net::gathered;
use crate::sockets::{Received, Sockets};
use crate::tls::{HandshakeLimits, Numbered, Tls};

/// The only socket.
const SOCKET: u32 = 0;

/// What is on its way between both ends.
#[derive(Default)]
struct Pipe {
    to_server: VecDeque<u8>,
    to_client: Vec<u8>,
}

impl Numbered for Pipe {
    fn number(socket: &u32) -> u32 {
        *socket
    }
}

impl Sockets for Pipe {
    type Socket = u32;

    fn receive(&mut self, _: &u32, buffer: &mut [u8]) -> io::Result<Received> {
        let len = self.to_server.len().min(buffer.len());
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        for (place, byte) in buffer.iter_mut().zip(self.to_server.drain(..len)) {
            *place = byte;
        }
        Ok(Received::of(len, buffer.len()))
    }

    fn send(&mut self, _: &u32, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = gathered(parts);
        self.to_client.extend_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn shutdown(&mut self, _: &u32) {}

    fn close(&mut self, _: u32, _abort: bool) {}
}

/// Both ends of a connection.
struct Both {
    server: Tls<Pipe>,
    client: ClientConnection,
    counters: Arc<Counters>,
}

fn server(counters: &Arc<Counters>) -> Tls<Pipe> {
    let limits = HandshakeLimits::new(1, 100, 1);
    Tls::new(Pipe::default(), Some(configs().server.clone()), limits, counters.clone())
}

impl Both {
    /// Their handshake is done.
    fn connected() -> Both {
        let counters = Arc::default();
        let name = ServerName::try_from(NAME).unwrap();
        let client = ClientConnection::new(configs().client.clone(), name).unwrap();
        let mut both = Both { server: server(&counters), client, counters };
        both.server.secure(&SOCKET, 0, &[]);
        loop {
            both.client_sends();
            let is_done = both.server.handshake(&SOCKET, false).unwrap();
            both.client_hears().unwrap();
            if is_done {
                both.server.take_work();
                return both;
            }
        }
    }

    fn client_says(&mut self, text: &[u8]) {
        self.client.writer().write_all(text).unwrap();
        self.client_sends();
    }

    fn client_sends(&mut self) {
        let mut out = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut out).unwrap();
        }
        self.server.below().to_server.extend(out);
    }

    fn client_hears(&mut self) -> Result<(), Error> {
        let bytes = std::mem::take(&mut self.server.below().to_client);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            self.client.process_new_packets()?;
        }
        Ok(())
    }

    /// What the server hears next, and whether it is told that there is no more.
    fn server_hears(&mut self) -> io::Result<(Vec<u8>, bool)> {
        let mut buffer = [0; 1024];
        let Received { len, emptied } = self.server.receive(&SOCKET, &mut buffer)?;
        Ok((buffer[..len].to_vec(), emptied))
    }
}

/// It is as long as its header says, and sealed by nobody.
fn forged() -> Vec<u8> {
    [&[23, 3, 3, 0, 40][..], &[1; 40]].concat()
}

/// All of it comes in one read of the kernel's.
#[test]
fn text_before_a_forged_record_is_heard_and_then_the_fault() {
    let mut both = Both::connected();
    both.client_says(b"one ");
    both.client_says(b"and two");
    both.server.below().to_server.extend(forged());
    assert_eq!(both.server_hears().unwrap(), (b"one and two".to_vec(), false));
    assert_eq!(both.client_hears(), Ok(()), "no alert yet: an answer may go before it");
    assert_eq!(both.server_hears().unwrap_err().kind(), ErrorKind::InvalidData);
    let alert = AlertDescription::BadRecordMac;
    assert_eq!(both.client_hears(), Err(Error::AlertReceived(alert)));
    assert_eq!(both.counters.tls.snapshot().faults().collect::<Vec<_>>(), [("bad_record_mac", 1)]);
    assert_eq!(both.server.kept_bytes(&SOCKET), 0);
    both.server.close(SOCKET, false);
    assert!(both.server.is_empty());
}

/// The process that goes on with the connection has something to read, and reads its end.
#[test]
fn fault_behind_text_ends_its_connection_in_another_process_too() {
    let mut both = Both::connected();
    both.client_says(b"text");
    both.server.below().to_server.extend(forged());
    assert_eq!(both.server_hears().unwrap(), (b"text".to_vec(), false));
    let secured = both.server.write_down(&SOCKET).unwrap().unwrap();
    let to_server = std::mem::take(&mut both.server.below().to_server);
    both.server = server(&both.counters);
    both.server.below().to_server = to_server;
    assert!(both.server.take_over(&SOCKET, 0, secured), "there is something to read");
    both.client_says(b"what counts for nothing");
    assert_eq!(both.server_hears().unwrap(), (Vec::new(), true));
    both.server.close(SOCKET, false);
    assert!(both.server.is_empty());
}

/// Otherwise a client costs a turn a multiple of what it is charged.
#[test]
fn key_update_is_charged_with_the_keys_that_it_takes() {
    const UPDATES: u32 = 100;
    let mut both = Both::connected();
    for _ in 0..UPDATES {
        both.client.refresh_traffic_keys().unwrap();
        both.client_says(b"x");
    }
    let mut heard = Vec::new();
    while let Ok((text, _)) = both.server_hears() {
        heard.extend(text);
    }
    assert_eq!(heard.len(), UPDATES as usize);
    let charged = both.server.take_work();
    assert!(charged >= UPDATES * (2 * work::RECORD + work::OPEN), "{charged}");
}
