//! A client of HTTP/2, by an implementation that is not ours.

use std::net::SocketAddr;

use hyper::client::conn::http2::handshake;
use hyper::http::request::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::DEADLINE;

/// The status of the answer to `request`, which is sent without a body on a connection of its own.
pub(crate) fn http2_status(address: SocketAddr, request: Builder) -> u16 {
    let request = request.body(String::new()).unwrap();
    let answer = async {
        let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut client, connection) = handshake(TokioExecutor::new(), socket).await.unwrap();
        tokio::spawn(connection);
        client.send_request(request).await.unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, answer).await.unwrap().status().as_u16() })
}
