//! WebSockets by the thousand on one thread: what comes is handed on message by message.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sys::epoll::{Epoll, Events};

use crate::Outcome;
use crate::frames::{TEXT, message};
use crate::harness::frame;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Clients with a WebSocket each.
pub(crate) struct Crowd {
    address: SocketAddr,
    epoll: Epoll,
    events: Events,
    clients: Vec<Client>,
    buffer: Vec<u8>,
}

struct Client {
    socket: TcpStream,
    /// A message that is not whole yet.
    partial: Vec<u8>,
}

impl Crowd {
    /// Nobody as yet, at the server's `address`.
    pub(crate) fn new(address: SocketAddr) -> Outcome<Crowd> {
        let (epoll, events) = (Epoll::new()?, Events::with_capacity(1024));
        Ok(Crowd { address, epoll, events, clients: Vec::new(), buffer: vec![0; READ_BYTES] })
    }

    /// One more, with the path and query `target`; its number.
    pub(crate) fn join(&mut self, target: &str) -> Outcome<usize> {
        let (place, client) = (self.clients.len(), self.open(target)?);
        self.epoll.add_stream(&client.socket, place as u64)?;
        self.clients.push(client);
        Ok(place)
    }

    /// Another one in the place of `client`, which leaves.
    pub(crate) fn replace(&mut self, client: usize, target: &str) -> Outcome<()> {
        let other = self.open(target)?;
        self.epoll.add_stream(&other.socket, client as u64)?;
        self.clients[client] = other;
        Ok(())
    }

    /// Others in the places of all, who are gone.
    pub(crate) fn replace_all<'t>(
        &mut self,
        targets: impl Iterator<Item = &'t str>,
    ) -> Outcome<()> {
        self.clients.clear();
        targets.into_iter().try_for_each(|target| self.join(target).map(drop))
    }

    fn open(&self, target: &str) -> Outcome<Client> {
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        write!(
            socket,
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        if !head.starts_with(b"HTTP/1.1 101") {
            return Err(String::from_utf8_lossy(&head).into());
        }
        socket.set_nonblocking(true)?;
        Ok(Client { socket, partial: Vec::new() })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// One says a message. There is room for it: it was answered before.
    pub(crate) fn say(&mut self, client: usize, text: &str) -> Outcome<()> {
        Ok(self.clients[client].socket.write_all(&frame(TEXT, text.as_bytes()))?)
    }

    /// Waits for what comes, at most so long, and hands on each message and whose it is.
    pub(crate) fn hear(&mut self, wait_ns: u64, mut hear: impl FnMut(usize, &[u8])) -> Outcome<()> {
        self.epoll.wait_ns(&mut self.events, wait_ns)?;
        for event in self.events.iter() {
            let place = event.token as usize;
            let Client { socket, partial } = &mut self.clients[place];
            let read = match socket.read(&mut self.buffer) {
                Ok(0) => return Err(format!("client {place} was closed").into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            partial.extend_from_slice(&self.buffer[..read]);
            let mut rest = &partial[..];
            while let Some((message, behind)) = message(rest) {
                rest = behind;
                message.into_iter().for_each(|message| hear(place, message));
            }
            let left = rest.len();
            partial.drain(..partial.len() - left);
        }
        Ok(())
    }
}
