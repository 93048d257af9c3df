//! Pipes whose other end goes, or does not read: poll(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Waits until nobody can read what is written to `pipe` any more: the other end of a pipe or of a
/// socket is closed, or a terminal is gone. Of a file it waits for ever.
///
/// # Errors
/// As poll(2).
pub fn wait_unread(pipe: &impl AsFd) -> io::Result<()> {
    // Nothing is asked for: what is reported without that are errors and ends.
    poll(pipe, 0, -1).map(drop)
}

/// Whether there is room for so many bytes as a pipe takes in one piece (`PIPE_BUF`, 4,096), or
/// will be within `within_ms`: then a write of no more does not wait. It is true of a pipe whose
/// reader is gone, of which the write tells.
///
/// # Errors
/// As poll(2).
pub fn has_room(pipe: &impl AsFd, within_ms: i32) -> io::Result<bool> {
    poll(pipe, libc::POLLOUT, within_ms)
}

/// Whether something was reported within that time; -1 is for ever.
fn poll(pipe: &impl AsFd, events: i16, within_ms: i32) -> io::Result<bool> {
    let mut waits = libc::pollfd { fd: pipe.as_fd().as_raw_fd(), events, revents: 0 };
    loop {
        // SAFETY: `waits` is one structure, and outlives the call.
        match crate::check(unsafe { libc::poll(&raw mut waits, 1, within_ms) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|reported| reported > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn pipe_is_waited_for_until_its_reader_goes() {
        let (reader, writer) = io::pipe().unwrap();
        let waits = std::thread::spawn(move || wait_unread(&writer));
        drop(reader);
        waits.join().unwrap().unwrap();
    }

    #[test]
    fn pipe_that_nobody_reads_has_no_room_when_it_is_full() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert!(has_room(&writer, 0).unwrap());
        // As many as a pipe holds (pipe(7)).
        writer.write_all(&[0; 65_536]).unwrap();
        assert!(!has_room(&writer, 10).unwrap());
        reader.read_exact(&mut [0; 4_096]).unwrap();
        assert!(has_room(&writer, 0).unwrap());
        drop(reader);
        assert!(has_room(&writer, 0).unwrap(), "a write says what is wrong");
    }
}
