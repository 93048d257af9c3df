//! The API port: accepting connections, no more than so many, and ending them in order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::connection;
use super::permits::Permits;
use crate::log_interval::LogInterval;

/// How long to wait after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections are accepted in a row, and how long the others have the thread then: a
/// client that opens thousands at one time keeps its own waiting, and nobody else's requests. A
/// connection costs about 50 µs.
const ACCEPTS_IN_A_ROW: usize = 8;
const ACCEPT_REST: Duration = Duration::from_millis(1);

/// Accepts and serves until `stop` is cancelled, then waits until every connection has ended.
pub(crate) async fn run(
    listener: TcpListener,
    routes: Router,
    permits: Arc<Permits>,
    stop: CancellationToken,
) {
    let mut failures = LogInterval::default();
    let (mut in_a_row, mut last) = (0, Instant::now());
    loop {
        if in_a_row == ACCEPTS_IN_A_ROW {
            sleep(ACCEPT_REST).await;
        }
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async { (permits.take().await, listener.accept().await) } => accepted,
        };
        let now = Instant::now();
        in_a_row = if now - last < ACCEPT_REST { in_a_row + 1 } else { 1 };
        last = now;
        match accepted {
            (permit, Ok((stream, _))) => {
                let permit = permit.into_ordinary();
                let (routes, idle_limit, stop) =
                    (routes.clone(), permits.idle_limit(), stop.clone());
                tokio::spawn(async move {
                    connection::serve(stream, routes, &permit, idle_limit, stop).await;
                });
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
