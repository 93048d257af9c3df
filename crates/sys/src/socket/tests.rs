//! Sockets over the loopback.

use super::*;
use crate::epoll::{Epoll, Events};

fn listener(address: SocketAddr) -> OwnedFd {
    let listener = bind_in_group(address).unwrap();
    listen(&listener, 16).unwrap();
    listener
}

fn pair() -> (OwnedFd, OwnedFd) {
    let address = claim("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener(address);
    let client = connect_from(Some("127.0.0.9".parse().unwrap()), address).unwrap();
    assert_eq!(local_address(&client).unwrap().ip().to_string(), "127.0.0.9");
    let epoll = Epoll::new().unwrap();
    epoll.add_source(&listener, 0).unwrap();
    epoll.wait(&mut Events::with_capacity(1), None).unwrap();
    let server = accept(&listener).unwrap();
    assert_eq!(accept(&listener).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    (client, server)
}

fn receive_all(socket: &OwnedFd, len: usize) -> Vec<u8> {
    let epoll = Epoll::new().unwrap();
    epoll.add_source(socket, 0).unwrap();
    let mut all = Vec::new();
    while all.len() < len {
        epoll.wait(&mut Events::with_capacity(1), None).unwrap();
        let mut buffer = [0; 64];
        let read = receive(socket, &mut buffer).unwrap();
        assert_ne!(read, 0, "the stream ended early");
        all.extend_from_slice(&buffer[..read]);
    }
    all
}

#[test]
fn parts_arrive_in_order() {
    let (client, server) = pair();
    assert!(connect_error(&client).unwrap().is_none());
    let parts = [IoSlice::new(b"one "), IoSlice::new(b"two "), IoSlice::new(b"three")];
    assert_eq!(send_parts(&server, &parts).unwrap(), 13);
    assert_eq!(receive_all(&client, 13), b"one two three");
}

#[test]
fn accepted_socket_inherits_nodelay() {
    let (_client, server) = pair();
    assert!(SockRef::from(&server).tcp_nodelay().unwrap());
}

#[test]
fn port_with_a_listener_cannot_be_claimed() {
    let address = claim("127.0.0.1:0".parse().unwrap()).unwrap();
    let _listener = listener(address);
    let _second = listener(address);
    assert_eq!(claim(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn reset_reaches_the_peer_as_an_error() {
    let (client, server) = pair();
    reset_on_close(&client).unwrap();
    drop(client);
    let epoll = Epoll::new().unwrap();
    epoll.add_stream(&server, 7).unwrap();
    let mut events = Events::with_capacity(1);
    epoll.wait(&mut events, None).unwrap();
    assert!(events.iter().all(|event| event.hung_up()));
    let error = receive(&server, &mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn disconnect_resets_although_another_descriptor_lives() {
    let (client, server) = pair();
    let copy = server.try_clone().unwrap();
    // What lies unsent in the kernel does not hold it up.
    while send(&server, &[0; 4096]).is_ok() {}
    disconnect(&server).unwrap();
    let epoll = Epoll::new().unwrap();
    epoll.add_stream(&client, 7).unwrap();
    let mut events = Events::with_capacity(1);
    epoll.wait(&mut events, None).unwrap();
    // A reset takes what was not read with it.
    let error = loop {
        match receive(&client, &mut [0; 4096]) {
            Ok(0) => panic!("the stream ended without a reset"),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                epoll.wait(&mut events, None).unwrap();
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    // It is one connection, which knows its end by both descriptors.
    assert_eq!(send(&copy, b"x").unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(send(&copy, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn shutdown_ends_the_stream_although_another_descriptor_lives() {
    let (client, server) = pair();
    let copy = server.try_clone().unwrap();
    send(&server, b"last").unwrap();
    shutdown_both(&server).unwrap();
    assert_eq!(receive_all(&client, 4), b"last");
    let epoll = Epoll::new().unwrap();
    epoll.add_source(&client, 7).unwrap();
    epoll.wait(&mut Events::with_capacity(1), None).unwrap();
    assert_eq!(receive(&client, &mut [0; 8]).unwrap(), 0);
    assert_eq!(send(&copy, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn clients_in_the_queue_are_counted() {
    let address = claim("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener(address);
    assert_eq!(clients_waiting(&listener).unwrap(), 0);
    let connect = |_| std::net::TcpStream::connect(address).unwrap();
    let clients: Vec<_> = (0..3).map(connect).collect();
    assert_eq!(clients_waiting(&listener).unwrap() as usize, clients.len());
    drop(accept(&listener).unwrap());
    assert_eq!(clients_waiting(&listener).unwrap() as usize, clients.len() - 1);
}
