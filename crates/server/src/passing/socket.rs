//! The Unix socket on which the successor serves what the program before it passes on: the API as
//! on its ports, from the addresses that the other says.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use dispatch::barrier::Barrier;
use dispatch::successor::{Statement, place};
use httpd::connection::serve_passed;
use httpd::permits::ConnectionPermits;
use tokio::net::UnixListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::API_BACKLOG;

/// What is added to the socket's name until it takes the place of the one before.
const NEW: &str = "new";

/// How long to wait after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections are accepted once another has taken the place: those that were made just
/// before it did.
const LATE_TIME: Duration = Duration::from_secs(1);

/// The socket, beside the one that the program before us may have.
#[derive(Debug)]
pub(crate) struct PassingSocket {
    listener: UnixListener,
    /// Where it is until [`PassingSocket::serve`].
    beside: Option<PathBuf>,
    path: PathBuf,
}

impl PassingSocket {
    /// Begins to listen in `data`, where nobody looks yet. Only our user can connect.
    pub(crate) fn bind(data: &Path) -> io::Result<PassingSocket> {
        let path = place::path(data);
        let beside = path.with_extension(format!("sock.{NEW}"));
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = place::reach(&beside, sys::passing::bind_private)?;
        sys::socket::listen(&socket, API_BACKLOG as i32)?;
        let listener = std::os::unix::net::UnixListener::from(socket);
        let listener = UnixListener::from_std(listener)?;
        Ok(PassingSocket { listener, beside: Some(beside), path })
    }

    /// Takes the place of the program before us, at once, and serves `routes` until `stop`, or
    /// until `barrier` leads on to a third program; then waits until every connection has ended.
    /// `permits` are for these connections alone: who passes on has no more than its own allow.
    pub(crate) fn serve(
        mut self,
        routes: Router,
        permits: Arc<ConnectionPermits>,
        barrier: Arc<Barrier>,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        // Not only when the task runs: whoever is told that we serve looks there.
        if let Some(beside) = self.beside.take()
            && let Err(error) = fs::rename(beside, &self.path)
        {
            tracing::error!("requests to the version before cannot be passed on to this: {error}");
        }
        self.accept(routes.layer(from_fn(believe)), permits, barrier, stop)
    }

    async fn accept(
        self,
        routes: Router,
        permits: Arc<ConnectionPermits>,
        barrier: Arc<Barrier>,
        stop: CancellationToken,
    ) {
        let mut over = pin!(async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = barrier.moved() => sleep(LATE_TIME).await,
            }
        });
        loop {
            // The permit first, so that who waits for all of them waits for this connection too.
            let next = async { (permits.take().await, self.listener.accept().await) };
            let accepted = tokio::select! {
                () = &mut over => break,
                accepted = next => accepted,
            };
            let (permit, stream) = match accepted {
                (permit, Ok((stream, _))) => (permit, stream),
                (_, Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection of the version before");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if place::is_ours(&stream).is_ok_and(|is_ours| is_ours) {
                let limit = permits.idle_limit();
                tokio::spawn(serve_passed(stream, routes.clone(), permit, limit, stop.clone()));
            } else {
                tracing::warn!("another user has connected to the socket that passes requests on");
            }
        }
        drop(self);
        permits.take_all().await;
    }
}

/// A socket that never took the place is not left lying about.
impl Drop for PassingSocket {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}

/// Takes the other's word for whose request it is.
async fn believe(mut request: Request, next: Next) -> Response {
    let Statement { peer, first } = Statement::take_from(request.headers_mut());
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(first);
    next.run(request).await
}
