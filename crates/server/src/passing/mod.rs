//! From the program that was to the one that goes on: requests that an upgrade found under way, or
//! that come on connections to the old one, are passed on to its
//! [`Successor`](dispatch::successor::Successor).
//!
//! The old program accepts no more connections once all is the successor's, and its clients need
//! not notice: a request that [waited at the barrier](Barrier), or comes later, goes to the
//! successor whole, by HTTP/1.1 over a Unix socket, body and answer streamed, and the successor
//! checks it as if it had come to its own port, from the client's address. The lines of a stream of
//! sends go on there from the one on which all was handed over
//! ([`Rest`](dispatch::successor::Rest)). With its next answer a connection ends: HTTP/1.1 says
//! `connection: close`, HTTP/2 GOAWAY. A connection on which nothing is asked is not closed for it,
//! since a client that just asks would find it gone; it ends when it has idled for long enough, as
//! always. When all have ended, so does the old program ([`until_last`]).
//!
//! Standard: RFC 9110, section 7.6, for what is passed on. Cost: a connection over the Unix socket
//! for each request, some 100 µs.

mod serving;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use dispatch::barrier::{Barrier, NoPermit};
use httpd::exchange::is_probe;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub(crate) use self::socket::PassingSocket;

/// How long the old program stays for its last connections: as long as a client may take between
/// two pieces of a stream.
pub(crate) const LAST_MAX: Duration = Duration::from_secs(300);

/// How often it is looked whether all are gone.
const LOOK: Duration = Duration::from_millis(20);

/// `routes` behind `barrier`.
pub(crate) fn guarded(routes: Router, barrier: &Arc<Barrier>) -> Router {
    routes.layer(from_fn_with_state(Arc::clone(barrier), guard))
}

/// The outermost layer of the API: a request waits here while the barrier is closed, and goes to
/// the successor once there is one. Those who watch the server are answered at once, as long as it
/// is this one that serves.
async fn guard(State(barrier): State<Arc<Barrier>>, request: Request, next: Next) -> Response {
    let through = if is_probe(request.uri().path()) {
        barrier.successor().map_or(Ok(()), |successor| Err(NoPermit::Moved(successor)))
    } else {
        barrier.through().await
    };
    let mut response = match through {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            let (head, body) = request.into_parts();
            refused.answer(head, body).await.into_response()
        }
    };
    // The first is cheaper, and says no to almost all.
    if barrier.is_closed() && barrier.successor().is_some() {
        // For HTTP/2, GOAWAY is made of it.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Waits until all of `serving` have ended: who serves the API's ports, and the socket on which the
/// program before this one passes requests on. At most for `most`; whether they have.
pub(crate) async fn until_last(serving: &[&JoinHandle<()>], most: Duration) -> bool {
    let end = Instant::now() + most;
    while !serving.iter().all(|task| task.is_finished()) {
        if Instant::now() >= end {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}

#[cfg(test)]
mod tests;
