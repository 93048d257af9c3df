//! This is a conversation over a Unix stream socket: words one after the other, each with its
//! length before it (four bytes, little endian). Now and then descriptors come behind a word that
//! tells of them.
//!
//! A word is JSON; the parts of a history are bytes as they are. Both have the same bound. Nothing
//! is read past the word that is asked for, so a descriptor is never read as if it were bytes.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::SockRef;
use sys::passing::{self, Credentials};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The longest word: more than all that an upgrade says in one. What has no such bound by itself,
/// as a history, goes in parts.
const WORD_BYTES_MAX: usize = 64 << 20;

/// How long the other side may take to read what it is told.
const SAY_MAX: Duration = Duration::from_secs(15);

/// The byte that descriptors come with.
const MARK: u8 = b'@';

/// Why a conversation does not go on.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    /// The other side is gone.
    #[error("it has ended")]
    Ended,
    /// It said nothing for so long, or did not listen.
    #[error("it has not answered within {} s", .0.as_secs())]
    Silent(Duration),
    /// It does not speak as we do.
    #[error("it says what nobody understands: {0}")]
    Words(String),
    /// The socket.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                Broken::Ended
            }
            _ => Broken::Io(error),
        }
    }
}

/// One side of it.
#[derive(Debug)]
pub(crate) struct Conversation {
    stream: UnixStream,
}

impl Conversation {
    pub(crate) fn new(stream: UnixStream) -> Conversation {
        Conversation { stream }
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> io::Result<Credentials> {
        passing::peer_credentials(&self.stream)
    }

    /// Says a word.
    pub(crate) async fn say(&mut self, word: &impl Serialize) -> Result<(), Broken> {
        let frame = frame(word)?;
        self.write(&frame).await
    }

    /// Says a word now or never: when this fails the other side has not heard it, and never will.
    pub(crate) fn say_at_once(&mut self, word: &impl Serialize) -> Result<(), Broken> {
        let frame = frame(word)?;
        match self.stream.try_write(&frame)? {
            written if written == frame.len() => Ok(()),
            // A part of a word is none.
            _ => Err(Broken::Silent(Duration::ZERO)),
        }
    }

    /// Says bytes.
    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let length = length(bytes.len())?;
        self.write(&length).await?;
        self.write(bytes).await
    }

    /// Waits for a word, for as long as it takes.
    pub(crate) async fn hear<W: DeserializeOwned>(&mut self) -> Result<W, Broken> {
        let bytes = self.hear_bytes().await?;
        serde_json::from_slice(&bytes).map_err(|error| Broken::Words(error.to_string()))
    }

    /// Waits for a word, for so long at most.
    pub(crate) async fn hear_within<W: DeserializeOwned>(
        &mut self,
        most: Duration,
    ) -> Result<W, Broken> {
        timeout(most, self.hear()).await.unwrap_or(Err(Broken::Silent(most)))
    }

    /// Waits for a word that is known, for so long at most, whatever else is said meanwhile.
    pub(crate) async fn hear_known<W: DeserializeOwned>(
        &mut self,
        most: Duration,
        is_known: impl Fn(&W) -> bool,
    ) -> Result<W, Broken> {
        let known = async {
            loop {
                let word = self.hear().await?;
                if is_known(&word) {
                    return Ok(word);
                }
            }
        };
        timeout(most, known).await.unwrap_or(Err(Broken::Silent(most)))
    }

    /// Waits for bytes.
    pub(crate) async fn hear_bytes(&mut self) -> Result<Vec<u8>, Broken> {
        let length = self.stream.read_u32_le().await? as usize;
        if length > WORD_BYTES_MAX {
            return Err(Broken::Words(format!("{length} bytes in one word")));
        }
        // As they come: who only says that there are many takes no memory.
        let mut bytes = Vec::with_capacity(length.min(1 << 16));
        let read = (&mut self.stream).take(length as u64).read_to_end(&mut bytes).await?;
        if read < length { Err(Broken::Ended) } else { Ok(bytes) }
    }

    /// Whether the other side is known to be gone.
    pub(crate) fn has_ended(&self) -> bool {
        match SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Waits until there is something to be heard, if only the end.
    pub(crate) async fn is_heard(&self) -> io::Result<()> {
        let peek = || SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        self.stream.async_io(Interest::READABLE, peek).await.map(drop)
    }

    /// Passes copies of `descriptors` on, behind the word that told of them.
    pub(crate) async fn pass(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<(), Broken> {
        let send = || passing::send(&self.stream, &[IoSlice::new(&[MARK])], descriptors);
        let sent = self.stream.async_io(Interest::WRITABLE, send);
        match timeout(SAY_MAX, sent).await {
            Ok(sent) => Ok(sent.map(drop)?),
            Err(_) => Err(Broken::Silent(SAY_MAX)),
        }
    }

    /// Takes `count` descriptors, which the last word told of.
    pub(crate) async fn take(&mut self, count: usize) -> Result<Vec<OwnedFd>, Broken> {
        let (mut mark, mut taken) = ([0], Vec::new());
        let take = || passing::receive(&self.stream, &mut mark, &mut taken);
        let received = timeout(SAY_MAX, self.stream.async_io(Interest::READABLE, take)).await;
        match received.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))? {
            0 => Err(Broken::Ended),
            _ if taken.len() == count && mark == [MARK] => Ok(taken),
            _ => Err(Broken::Words(format!("{} descriptors, not {count}", taken.len()))),
        }
    }

    /// Ends it for both sides.
    pub(crate) async fn end(&mut self) {
        // It may be over already.
        let _ = self.stream.shutdown().await;
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        match timeout(SAY_MAX, self.stream.write_all(bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(Broken::Silent(SAY_MAX)),
        }
    }
}

fn frame(word: &impl Serialize) -> Result<Vec<u8>, Broken> {
    let json = serde_json::to_vec(word).map_err(|error| Broken::Words(error.to_string()))?;
    Ok([&length(json.len())?, json.as_slice()].concat())
}

fn length(bytes: usize) -> Result<[u8; 4], Broken> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= WORD_BYTES_MAX => Ok(length.to_le_bytes()),
        _ => Err(Broken::Words(format!("{bytes} bytes in one word"))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use serde_json::{Value, json};

    use super::*;

    fn pair() -> (Conversation, Conversation) {
        let (one, other) = UnixStream::pair().unwrap();
        (Conversation::new(one), Conversation::new(other))
    }

    #[tokio::test]
    async fn words_bytes_and_descriptors_come_in_the_order_in_which_they_were_said() {
        let (mut one, mut other) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        one.say(&json!({ "word": 1 })).await.unwrap();
        one.pass(&[listener.as_fd()]).await.unwrap();
        one.say_bytes(b"\0\x01").await.unwrap();
        one.say_at_once(&json!(2)).unwrap();
        assert_eq!(other.hear::<Value>().await.unwrap(), json!({ "word": 1 }));
        let taken = other.take(1).await.unwrap().remove(0);
        assert_eq!(other.hear_bytes().await.unwrap(), b"\0\x01");
        assert_eq!(other.hear::<u64>().await.unwrap(), 2);
        let address = listener.local_addr().unwrap();
        drop(listener);
        let _client = TcpStream::connect(address).unwrap();
        TcpListener::from(taken).accept().unwrap();
        drop(one);
        assert!(matches!(other.hear::<Value>().await, Err(Broken::Ended)));
    }

    #[tokio::test]
    async fn word_of_another_kind_or_length_breaks_it() {
        let (mut one, mut other) = pair();
        one.say(&"text").await.unwrap();
        assert!(matches!(other.hear::<u64>().await, Err(Broken::Words(_))));
        one.write(&u32::MAX.to_le_bytes()).await.unwrap();
        assert!(matches!(other.hear::<u64>().await, Err(Broken::Words(_))));
        one.write(&[9, 0, 0, 0, b'1']).await.unwrap();
        one.end().await;
        assert!(matches!(other.hear::<u64>().await, Err(Broken::Ended)));
        let (_one, mut other) = pair();
        let short = Duration::from_millis(1);
        assert!(matches!(other.hear_within::<u64>(short).await, Err(Broken::Silent(_))));
    }

    #[tokio::test]
    async fn silence_is_not_heard_and_the_end_is() {
        let (mut one, mut other) = pair();
        one.say(&1).await.unwrap();
        other.is_heard().await.unwrap();
        assert_eq!(other.hear::<u64>().await.unwrap(), 1);
        assert!(timeout(Duration::from_millis(10), other.is_heard()).await.is_err());
        drop(one);
        other.is_heard().await.unwrap();
    }

    #[tokio::test]
    async fn word_that_cannot_be_said_at_once_is_not_heard() {
        let (mut one, mut other) = pair();
        let long = "x".repeat(1 << 20);
        assert!(one.say_at_once(&long).is_err());
        drop(one);
        assert!(matches!(other.hear::<String>().await, Err(Broken::Ended)));
    }
}
