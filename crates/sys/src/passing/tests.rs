//! Descriptors through socket pairs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

/// A file that says which one it is.
fn file(number: usize) -> File {
    let mut file = tempfile::tempfile().unwrap();
    write!(file, "{number}").unwrap();
    file
}

fn number_of(descriptor: OwnedFd) -> usize {
    let (mut file, mut text) = (File::from(descriptor), String::new());
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text.parse().unwrap()
}

fn is_closed_on_exec(descriptor: &OwnedFd) -> bool {
    // SAFETY: no pointers are passed.
    let flags = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFD) };
    crate::check(flags).unwrap() & libc::FD_CLOEXEC != 0
}

#[test]
fn as_many_as_fit_arrive_in_their_order_with_the_first_byte() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let files: Vec<File> = (0..DESCRIPTORS_MAX).map(file).collect();
    let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    let parts = [IoSlice::new(b"one "), IoSlice::new(b"two")];
    assert_eq!(send(&ours, &parts, &borrowed).unwrap(), 7);
    assert_eq!(send(&ours, &[IoSlice::new(b"!")], &borrowed[7..8]).unwrap(), 1);
    drop(files);

    let (mut buffer, mut received) = ([0; 16], vec![OwnedFd::from(file(1000))]);
    assert_eq!(receive(&theirs, &mut buffer[..1], &mut received).unwrap(), 1);
    assert_eq!(received.len(), 1 + DESCRIPTORS_MAX);
    assert!(received.iter().all(is_closed_on_exec));
    // The rest of the first send may come with the second one, whose descriptor comes with it.
    let mut len = 1;
    while len < 8 {
        len += receive(&theirs, &mut buffer[len..], &mut received).unwrap();
    }
    assert_eq!(&buffer[..8], b"one two!");
    let numbers: Vec<usize> = received.into_iter().map(number_of).collect();
    let expected: Vec<usize> = [1000].into_iter().chain(0..DESCRIPTORS_MAX).chain([7]).collect();
    assert_eq!(numbers, expected);
    drop(ours);
    assert_eq!(receive(&theirs, &mut buffer, &mut Vec::new()).unwrap(), 0);
}

#[test]
fn too_many_and_those_without_a_byte_are_refused_and_nothing_is_sent() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let file = file(0);
    let too_many = [file.as_fd(); DESCRIPTORS_MAX + 1];
    for (bytes, descriptors) in [(&b"x"[..], &too_many[..]), (b"", &too_many[..1])] {
        let error = send(&ours, &[IoSlice::new(bytes)], descriptors).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let error = receive(&theirs, &mut [0; 8], &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn send_that_finds_too_little_room_carries_its_descriptors_once() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let bytes: Vec<u8> = (0..4 << 20).map(|at| (at % 251) as u8).collect();
    let file = file(5);
    let mut sent = send(&ours, &[IoSlice::new(&bytes)], &[file.as_fd()]).unwrap();
    assert!(sent < bytes.len());
    let (mut buffer, mut all, mut received) = (vec![0; 1 << 16], Vec::new(), Vec::new());
    while all.len() < bytes.len() {
        let len = receive(&theirs, &mut buffer, &mut received).unwrap();
        all.extend_from_slice(&buffer[..len]);
        match send(&ours, &[IoSlice::new(&bytes[sent..])], &[]) {
            Ok(more) => sent += more,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(all == bytes);
    assert_eq!(received.into_iter().map(number_of).collect::<Vec<_>>(), [5]);
}

#[test]
fn receiver_without_descriptors_is_told_and_keeps_none() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let file = file(0);
    for _ in 0..3 {
        send(&ours, &[IoSlice::new(b"x")], &[file.as_fd(); 5]).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A table of its own, in which other tests open nothing.
            crate::table::make_private(&[&theirs]).unwrap();
            let first = File::open("/dev/null").unwrap();
            let mut taken: Vec<File> = std::iter::from_fn(|| first.try_clone().ok()).collect();
            for room in [0, 2] {
                taken.truncate(taken.len() - room);
                let mut received = Vec::new();
                let error = receive(&theirs, &mut [0; 8], &mut received).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidData);
                assert!(error.to_string().contains("descriptors are short"), "{error}");
                assert_eq!((received.len(), crate::table::free(10)), (0, room));
            }
            taken.truncate(taken.len() - 3);
            let mut received = Vec::new();
            assert_eq!(receive(&theirs, &mut [0; 8], &mut received).unwrap(), 1);
            assert_eq!(received.len(), 5);
        });
    });
}

#[test]
fn other_end_is_known_by_its_process_and_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    let (server, _) = listener.accept().unwrap();
    // SAFETY: no pointers are passed, and the call cannot fail.
    let uid = unsafe { libc::geteuid() };
    let us = Credentials { pid: std::process::id(), uid };
    assert_eq!(peer_credentials(&client).unwrap(), us);
    assert_eq!(peer_credentials(&server).unwrap(), us);
}

#[test]
fn private_socket_has_its_mode_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let socket = bind_private(&path).unwrap();
    let mode = || std::fs::symlink_metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode() & 0o777, 0o600);
    crate::socket::listen(&socket, 1).unwrap();
    let (client, listener) = (UnixStream::connect(&path).unwrap(), UnixListener::from(socket));
    assert!(listener.accept().is_ok());
    drop(client);
    assert!(bind_private(&path).is_err(), "the name is taken");
}
