//! The API port: accepting connections, no more than so many, and ending them in order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::connection;
use crate::stop::Stop;

/// Connections to the API at one time; further ones wait to be accepted. With HTTP/2's windows a
/// hostile client can make each hold up to 1 MiB.
const CONNECTIONS_MAX: u32 = 4096;

/// How long to wait after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts and serves until `stop` says so, then waits until every connection has ended.
pub(crate) async fn run(listener: TcpListener, routes: Router, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let accepted = tokio::select! {
            () = stop.said() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let serve = connection::serve(stream, routes.clone(), stop.clone());
                tokio::spawn(async move {
                    serve.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the API");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let _all = places.acquire_many(CONNECTIONS_MAX).await;
}
