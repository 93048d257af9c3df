//! The handshake over a socket, from both sides.

use std::io;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::handshake::{self, Garbled, Introduction, MESSAGE_BYTES_MAX, Status, flag};

/// Why two nodes do not come together. The text says what to do.
#[derive(Debug, Error)]
pub enum MeetError {
    /// The connection broke off.
    #[error("the connection broke off: {0}")]
    Broken(#[from] io::Error),
    /// What came is not the handshake of OTP 23 and later.
    #[error("it does not speak the handshake of OTP 23 and later")]
    Garbled,
    /// The other node lacks what OTP 25 and later have.
    #[error("it lacks capabilities ({0:#x}): OTP 25 or later is needed")]
    Incapable(u64),
    /// The other node does not know our cookie.
    #[error("its cookie is another one: give both nodes the same")]
    WrongCookie,
    /// The other node broke off where it checks our cookie.
    #[error("it refused us, most likely because its cookie is another one")]
    Refused,
    /// It says that it does not let us in.
    #[error("one of the two does not allow the other, or both have one name")]
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

impl From<Garbled> for MeetError {
    fn from(_: Garbled) -> MeetError {
        MeetError::Garbled
    }
}

/// What to answer to a node that connects, and what to do when it says that the connection there
/// is, is a dead one.
pub(super) trait Door {
    /// Whether the node may come in.
    fn knock(&mut self, name: &str) -> Status;
    /// The connection that [`Status::Alive`] spoke of is a dead one.
    fn replace(&mut self, name: &str);
}

/// Plays the part of the node that connects, to the one that is called `name`.
pub(super) async fn connect(
    stream: &mut TcpStream,
    ours: &Introduction,
    cookie: &str,
    name: &str,
) -> Result<Introduction, MeetError> {
    write(stream, &ours.to_bytes()).await?;
    match Status::read(&read(stream).await?)? {
        Status::Ok | Status::OkSimultaneous => {}
        // We know of none: it has not noticed yet that an earlier one is gone.
        Status::Alive => write(stream, &handshake::alive_answer(true)).await?,
        Status::Nok => return Err(MeetError::Busy),
        Status::NotAllowed => return Err(MeetError::NotAllowed),
    }
    let (theirs, challenge) = Introduction::read_challenge(&read(stream).await?)?;
    check(&theirs)?;
    if *theirs.name != *name {
        return Err(MeetError::AnotherName(theirs.name));
    }
    let own = random()?;
    let reply = handshake::challenge_reply(own, handshake::digest(cookie, challenge));
    write(stream, &reply).await?;
    let ack = read(stream).await.map_err(|_| MeetError::Refused)?;
    let digest = handshake::read_challenge_ack(&ack)?;
    if !handshake::is_same(digest, handshake::digest(cookie, own)) {
        return Err(MeetError::WrongCookie);
    }
    Ok(theirs)
}

/// Reads how the node that has connected introduces itself.
pub(super) async fn introduction(stream: &mut TcpStream) -> Result<Introduction, MeetError> {
    let theirs = Introduction::read(&read(stream).await?)?;
    check(&theirs)?;
    Ok(theirs)
}

/// Plays the rest of the part of the node that was connected to.
pub(super) async fn accept(
    stream: &mut TcpStream,
    ours: &Introduction,
    cookie: &str,
    theirs: &Introduction,
    door: &mut impl Door,
) -> Result<(), MeetError> {
    let status = door.knock(&theirs.name);
    write(stream, &status.to_bytes()).await?;
    match status {
        Status::Ok | Status::OkSimultaneous => {}
        Status::Nok => return Err(MeetError::Busy),
        Status::NotAllowed => return Err(MeetError::NotAllowed),
        Status::Alive => {
            if !handshake::read_alive_answer(&read(stream).await?)? {
                return Err(MeetError::Busy);
            }
        }
    }
    let own = random()?;
    write(stream, &ours.to_challenge(own)).await?;
    let (challenge, digest) = handshake::read_challenge_reply(&read(stream).await?)?;
    if !handshake::is_same(digest, handshake::digest(cookie, own)) {
        return Err(MeetError::WrongCookie);
    }
    if status == Status::Alive {
        // Not before it has proved that it may speak for the node.
        door.replace(&theirs.name);
    }
    write(stream, &handshake::challenge_ack(handshake::digest(cookie, challenge))).await?;
    Ok(())
}

fn check(theirs: &Introduction) -> Result<(), MeetError> {
    match flag::NEEDED & !theirs.flags {
        0 => Ok(()),
        missing => Err(MeetError::Incapable(missing)),
    }
}

fn random() -> io::Result<u32> {
    getrandom::u32().map_err(io::Error::other)
}

async fn write(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let len = u16::try_from(message.len()).expect("a message of the handshake is short");
    stream.write_all(&[&len.to_be_bytes(), message].concat()).await
}

async fn read(stream: &mut TcpStream) -> Result<Vec<u8>, MeetError> {
    let len = usize::from(stream.read_u16().await?);
    if len > MESSAGE_BYTES_MAX {
        return Err(MeetError::Garbled);
    }
    let mut message = vec![0; len];
    stream.read_exact(&mut message).await?;
    Ok(message)
}
