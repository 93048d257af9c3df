//! The API port: accepting connections, no more than so many, and ending them in order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::accept_pace::AcceptPace;
use super::connection;
use super::exchange::Peer;
use super::permits::Permits;
use crate::log_interval::LogInterval;

/// How long to wait after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts and serves until `stop` is cancelled, then waits until every connection has ended.
pub(crate) async fn run(
    listener: TcpListener,
    routes: Router,
    permits: Arc<Permits>,
    stop: CancellationToken,
) {
    let mut failures = LogInterval::default();
    let mut pace = AcceptPace::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async { (permits.take().await, listener.accept().await) } => accepted,
        };
        match accepted {
            (permit, Ok((stream, peer))) => {
                let (permit, peer) = (permit.into_ordinary(), Peer(peer.ip()));
                let (routes, idle_limit, stop) =
                    (routes.clone(), permits.idle_limit(), stop.clone());
                tokio::spawn(async move {
                    connection::serve(stream, peer, routes, &permit, idle_limit, stop).await;
                });
                if let Some(rest) = pace.accepted(Instant::now()) {
                    sleep(rest).await;
                }
            }
            (_, Err(error)) => {
                if let Some(suppressed) = failures.due(Instant::now()) {
                    tracing::warn!(
                        %error, suppressed,
                        "cannot accept a connection to the API; raise the limit on descriptors \
                         (ulimit -n) if that is what it lacks"
                    );
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    permits.take_all().await;
}
