//! Nodes that connect to us: each plays its handshake in a task of its own, of which there are only
//! so many.
//!
//! Whoever reaches the port may begin a handshake, and most of what begins and does not go on knows
//! no cookie. So where there are enough, the one that has waited longest makes room for a new one.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::establish::Establisher;
use crate::limits::{ACCEPT_PAUSE, HANDSHAKES_MAX};
use crate::log_limit::LogLimit;

/// Lets nodes in for as long as the runtime lives.
pub(crate) async fn run(listener: TcpListener, establisher: Arc<Establisher>) {
    let mut handshakes = VecDeque::with_capacity(HANDSHAKES_MAX);
    let failures = LogLimit::default();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                if !has_room(&mut handshakes) {
                    establisher.connections.count_refused();
                }
                let establisher = Arc::clone(&establisher);
                let task = tokio::spawn(async move { establisher.accept(stream, from).await });
                handshakes.push_back(task.abort_handle());
            }
            Err(error) => {
                if failures.permits() {
                    tracing::warn!(%error, "cannot accept a connection of an Erlang node");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether one more may begin as it is. If not, there is room now that the oldest has given up.
fn has_room(handshakes: &mut VecDeque<AbortHandle>) -> bool {
    if handshakes.len() < HANDSHAKES_MAX {
        return true;
    }
    handshakes.retain(|task| !task.is_finished());
    if handshakes.len() < HANDSHAKES_MAX {
        return true;
    }
    if let Some(oldest) = handshakes.pop_front() {
        oldest.abort();
    }
    debug_assert!(handshakes.len() < HANDSHAKES_MAX);
    false
}
