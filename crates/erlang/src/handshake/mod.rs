//! The handshake over a socket, from both sides.

mod messages;

use std::io;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub use self::messages::is_node_name;
pub(crate) use self::messages::{Introduction, Status, flag};
use self::messages::{MESSAGE_BYTES_MAX, MalformedMessage};

/// Why two nodes do not come together. The text says what to do.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The connection broke off.
    #[error("the connection broke off: {0}")]
    Broken(#[from] io::Error),
    /// What came is not the handshake of OTP 23 and later.
    #[error("it does not speak the handshake of OTP 23 and later")]
    Malformed,
    /// The other node has no name.
    #[error("it has no name and asks for one (-sname undefined): start it with a name")]
    Nameless,
    /// The other node lacks what OTP 25 and later have.
    #[error("it lacks capabilities ({0:#x}): OTP 25 or later is needed")]
    Incapable(u64),
    /// The other node does not know our cookie.
    #[error("its cookie is another one: give both nodes the same")]
    WrongCookie,
    /// The other node broke off where it checks our cookie.
    #[error("it refused us, most likely because its cookie is another one")]
    Refused,
    /// One of the two does not let the other in.
    #[error("one of the two does not allow the other: both have one name, or one has enough nodes")]
    NotAllowed,
    /// Another connection between the two is being made, and goes on instead.
    #[error("another connection between the two is being made")]
    Busy,
    /// Somebody else answered.
    #[error("a node of another name answered: {0}")]
    AnotherName(Box<str>),
    /// It did not come to an end in time.
    #[error("it did not answer in time")]
    TimedOut,
}

impl From<MalformedMessage> for ConnectError {
    fn from(_: MalformedMessage) -> ConnectError {
        ConnectError::Malformed
    }
}

/// Plays the part of the node that connects, to the one that is called `name`.
pub(crate) async fn connect(
    stream: &mut TcpStream,
    ours: &Introduction,
    cookie: &str,
    name: &str,
) -> Result<Introduction, ConnectError> {
    write(stream, &ours.to_bytes()).await?;
    match Status::read(&read(stream).await?)? {
        Status::Ok | Status::OkSimultaneous => {}
        // We know of none: it has not noticed yet that an earlier one is gone.
        Status::Alive => write(stream, &messages::alive_answer(true)).await?,
        Status::Nok => return Err(ConnectError::Busy),
        Status::NotAllowed => return Err(ConnectError::NotAllowed),
    }
    let (theirs, challenge) = Introduction::read_challenge(&read(stream).await?)?;
    check(&theirs)?;
    if *theirs.name != *name {
        return Err(ConnectError::AnotherName(theirs.name));
    }
    let own = random()?;
    let reply = messages::challenge_reply(own, messages::digest(cookie, challenge));
    write(stream, &reply).await?;
    let ack = read(stream).await.map_err(|_| ConnectError::Refused)?;
    let digest = messages::read_challenge_ack(&ack)?;
    if !messages::is_same(digest, messages::digest(cookie, own)) {
        return Err(ConnectError::WrongCookie);
    }
    Ok(theirs)
}

/// Reads how the node that has connected introduces itself.
pub(crate) async fn introduction(stream: &mut TcpStream) -> Result<Introduction, ConnectError> {
    let message = read(stream).await?;
    if messages::asks_for_name(&message) {
        return Err(ConnectError::Nameless);
    }
    let theirs = Introduction::read(&message)?;
    check(&theirs)?;
    Ok(theirs)
}

/// Plays the rest of the part of the node that was connected to, which answers `status`. When this
/// returns, the other node has proved that it may speak for the name that it gave.
pub(crate) async fn accept(
    stream: &mut TcpStream,
    ours: &Introduction,
    cookie: &str,
    status: Status,
) -> Result<(), ConnectError> {
    write(stream, &status.to_bytes()).await?;
    match status {
        Status::Ok | Status::OkSimultaneous => {}
        Status::Nok => return Err(ConnectError::Busy),
        Status::NotAllowed => return Err(ConnectError::NotAllowed),
        Status::Alive => {
            if !messages::read_alive_answer(&read(stream).await?)? {
                return Err(ConnectError::Busy);
            }
        }
    }
    let own = random()?;
    write(stream, &ours.to_challenge(own)).await?;
    let (challenge, digest) = messages::read_challenge_reply(&read(stream).await?)?;
    if !messages::is_same(digest, messages::digest(cookie, own)) {
        return Err(ConnectError::WrongCookie);
    }
    write(stream, &messages::challenge_ack(messages::digest(cookie, challenge))).await?;
    Ok(())
}

fn check(theirs: &Introduction) -> Result<(), ConnectError> {
    match flag::NEEDED & !theirs.flags {
        0 => Ok(()),
        missing => Err(ConnectError::Incapable(missing)),
    }
}

fn random() -> io::Result<u32> {
    getrandom::u32().map_err(io::Error::other)
}

async fn write(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let len = u16::try_from(message.len()).expect("a message of the handshake is short");
    stream.write_all(&[&len.to_be_bytes(), message].concat()).await
}

async fn read(stream: &mut TcpStream) -> Result<Vec<u8>, ConnectError> {
    let len = usize::from(stream.read_u16().await?);
    if len > MESSAGE_BYTES_MAX {
        return Err(ConnectError::Malformed);
    }
    let mut message = vec![0; len];
    stream.read_exact(&mut message).await?;
    Ok(message)
}
