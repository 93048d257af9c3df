//! The API port: accepting connections, no more than so many, and ending them in order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::connection;
use super::places::Places;
use super::seldom::Seldom;
use crate::stop::Stop;

/// How long to wait after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts and serves until `stop` says so, then waits until every connection has ended.
pub(crate) async fn run(
    listener: TcpListener,
    routes: Router,
    places: Arc<Places>,
    mut stop: Stop,
) {
    let mut failures = Seldom::default();
    loop {
        let accepted = tokio::select! {
            () = stop.said() => break,
            accepted = async { (places.take().await, listener.accept().await) } => accepted,
        };
        match accepted {
            (place, Ok((stream, _))) => {
                let place = place.into_ordinary();
                let (routes, crowd, stop) = (routes.clone(), places.crowd(), stop.clone());
                tokio::spawn(async move {
                    connection::serve(stream, routes, &place, crowd, stop).await;
                });
            }
            (_, Err(error)) => {
                if let Some(unsaid) = failures.say(Instant::now()) {
                    tracing::warn!(
                        %error, unsaid,
                        "cannot accept a connection to the API; raise the limit on descriptors \
                         (ulimit -n) if that is what it lacks"
                    );
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    places.take_all().await;
}
