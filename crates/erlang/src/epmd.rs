//! The port mapper (epmd): tells other nodes at which port ours listens, and us where they do.
//!
//! It is a program of Erlang's that runs on each host. We do not start it. Without it our node is
//! at work all the same for nodes that know its port. It is registered as soon as there is one, and
//! says so. Standard: "Distribution Protocol", section "EPMD Protocol", in the documentation of
//! ERTS.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;

use backon::BackoffBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::config::NodeConfig;
use crate::limits;

/// The port at which it listens unless it is told another one.
pub const PORT: u16 = 4369;

/// Distribution protocol versions: those with the handshake of OTP 23.
const VERSION: [u8; 2] = [0, 6];

/// A node that is not published, as those of other languages are.
const HIDDEN: u8 = 72;

const ALIVE2_REQ: u8 = 120;
const ALIVE2_X_RESP: u8 = 118;
const ALIVE2_RESP: u8 = 121;
const PORT_PLEASE2_REQ: u8 = 122;
const PORT2_RESP: u8 = 119;

/// Registers the node `alive` (the part before the `@`) with this host's epmd. It stays so for as
/// long as the connection that is returned is kept.
async fn register(epmd: u16, alive: &str, port: u16) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, epmd)).await?;
    stream.write_all(&register_request(alive, port)).await?;
    let kind = stream.read_u8().await?;
    let refused = stream.read_u8().await? != 0;
    // The creation that it made up: ours is drawn by ourselves, so it stays when epmd comes late.
    match kind {
        ALIVE2_X_RESP => drop(stream.read_u32().await?),
        ALIVE2_RESP => drop(stream.read_u16().await?),
        _ => return Err(io::Error::new(ErrorKind::InvalidData, "it is no epmd")),
    }
    if refused {
        let taken = format!("another node is registered as {alive}");
        return Err(io::Error::new(ErrorKind::AddrInUse, taken));
    }
    Ok(stream)
}

/// Registers our node, and again whenever that ends, for as long as the runtime lives. `said` hears
/// whether it is registered.
pub(super) async fn keep_registered(config: &NodeConfig, port: u16, said: impl Fn(bool)) {
    let NodeConfig { epmd, name, .. } = config;
    let mut pauses = limits::RETRIES.build();
    loop {
        let registering = timeout(config.setup_timeout, register(*epmd, config.alive(), port));
        match registering.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(mut kept) => {
                pauses = limits::RETRIES.build();
                said(true);
                tracing::info!("the Erlang node {name} is registered at port {port}");
                // epmd says nothing more: this ends with its end.
                let _ = kept.read_u8().await;
                said(false);
                tracing::warn!("epmd is gone: other Erlang nodes cannot find {name} now");
            }
            Err(error) => {
                tracing::warn!(
                    "cannot register the Erlang node {name} with epmd at port {epmd}: {error}; \
                     other nodes cannot find it. Start epmd; this goes on trying"
                );
            }
        }
        sleep(pauses.next().expect("there is always another try")).await;
    }
}

/// The port at which the node `alive` of `host` listens.
pub(super) async fn port_of(host: &str, epmd: u16, alive: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect((host, epmd)).await?;
    stream.write_all(&request(PORT_PLEASE2_REQ, alive.as_bytes())).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    match answer {
        [PORT2_RESP, 0] => stream.read_u16().await,
        [PORT2_RESP, _] => {
            let unknown = format!("the epmd of {host} knows no node {alive}");
            Err(io::Error::new(ErrorKind::NotFound, unknown))
        }
        _ => Err(io::Error::new(ErrorKind::InvalidData, "it is no epmd")),
    }
}

fn register_request(alive: &str, port: u16) -> Vec<u8> {
    let mut body = port.to_be_bytes().to_vec();
    body.extend([HIDDEN, 0]);
    body.extend([VERSION, VERSION].concat());
    body.extend((alive.len() as u16).to_be_bytes());
    body.extend_from_slice(alive.as_bytes());
    body.extend([0, 0]);
    request(ALIVE2_REQ, &body)
}

fn request(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(1 + body.len()).expect("a node's name is short");
    [&len.to_be_bytes()[..], &[kind], body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_standard() {
        assert_eq!(
            register_request("encke", 0x1234),
            b"\0\x12\x78\x12\x34\x48\0\0\x06\0\x06\0\x05encke\0\0"
        );
        assert_eq!(request(PORT_PLEASE2_REQ, b"a"), b"\0\x02\x7aa");
    }
}
