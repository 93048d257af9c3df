//! A server that lets everybody in and then says nothing: a pooler without a server behind it, a
//! process that was stopped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use postgres::{PostgresConfig, PostgresError, PostgresStore};

use crate::support::{DEADLINE, run};

/// One message of the protocol, with its kind and its length.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = 4 + body.len() as u32;
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// The answer to `show transaction_read_only`: a row of one text.
fn off() -> Vec<u8> {
    let name = b"transaction_read_only\0";
    // Table, column, type, length, modifier, format.
    let column = [0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0];
    let columns = [&[0, 1][..], name, &column].concat();
    [message(b'T', &columns), message(b'D', b"\0\x01\0\0\0\x03off"), message(b'C', b"SHOW\0")]
        .concat()
}

/// What comes next: its kind, unless it is the first, and its body. `None` at the end.
fn read(stream: &mut TcpStream, has_kind: bool) -> Option<(u8, Vec<u8>)> {
    let (mut kind, mut length) = ([0], [0; 4]);
    if has_kind {
        stream.read_exact(&mut kind).ok()?;
    }
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((kind[0], body))
}

/// Answers all that a session begins with, and nothing behind that.
fn serve(mut stream: TcpStream) -> Option<()> {
    let ready = message(b'Z', b"I");
    read(&mut stream, false)?;
    stream.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat()).ok()?;
    loop {
        let (kind, body) = read(&mut stream, true)?;
        let sql = String::from_utf8_lossy(&body);
        let answer = match kind {
            b'Q' if sql.contains("transaction_read_only") => off(),
            b'Q' if sql.contains("set search_path") => message(b'C', b"SET\0"),
            _ => continue,
        };
        stream.write_all(&[answer, ready.clone()].concat()).ok()?;
    }
}

/// Its port, and word of each connection that has ended.
fn server() -> (u16, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ended, ends) = mpsc::sync_channel(16);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let ended = ended.clone();
            thread::spawn(move || {
                serve(stream);
                // Fails when the test has ended.
                let _ = ended.send(());
            });
        }
    });
    (port, ends)
}

/// Without a bound a node's only writer would wait for ever, and all changes behind it.
#[test]
fn server_that_says_nothing_behind_its_welcome_is_away_and_holds_no_connection() {
    run(async {
        let (port, ends) = server();
        let url = format!("postgresql://u@127.0.0.1:{port}/d?sslmode=disable");
        let mut config = PostgresConfig::from_url(&url).unwrap();
        config.statement_timeout = Duration::from_secs(1);
        let away = PostgresStore::connect(config).await.unwrap_err();
        assert!(matches!(&away, PostgresError::Away(why) if why.contains("no answer")), "{away}");
        let ended = tokio::task::spawn_blocking(move || ends.recv_timeout(DEADLINE)).await;
        ended.unwrap().expect("its connection is closed");
    });
}
