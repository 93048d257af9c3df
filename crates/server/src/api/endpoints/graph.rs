//! The whole graph, while the server serves: `GET /graph/backup`, its file as of one commit;
//! `GET /graph/export`, its pairs as text; `GET /graph/stats`, what it looks like.
//!
//! Each is a walk through a snapshot on a thread of its own. While one is open the store's file
//! grows by what is changed, so there is one at a time. It is cut off when it takes too long, also
//! if its client takes nothing. An answer by HTTP/2 may wait for its window for ever. What is sent
//! has its end only when all of it was read well: one that fails is cut short.

use std::fs::File;
use std::future::pending;
use std::io::{self, BufWriter};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use graph::{Graph, Stats};
use httpd::problem::ApiProblem;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{AbortHandle, JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use crate::api::state::Api;

/// Bytes of a piece of an answer. About three of them wait in the socket between the two.
const PIECE_BYTES: usize = 64 * 1024;

/// How long an answer may take: so long, and what its bytes take at the least rate.
const TIME_MIN: Duration = Duration::from_secs(600);
const RATE_MIN: u64 = 1 << 20;

/// Seconds after which another walk may be tried.
const RETRY_AFTER_SECONDS: u32 = 10;

/// The degree from which on a power law is fitted, unless another is asked for.
const XMIN_DEFAULT: u64 = 50;

/// What is asked of the statistics.
#[derive(Debug, Deserialize)]
pub(crate) struct StatsQuery {
    xmin: Option<String>,
}

pub(crate) async fn backup(State(api): State<Arc<Api>>) -> Result<Response, ApiProblem> {
    let place = place(&api)?;
    // Told before an answer has begun.
    if !api.graph.is_own_record() {
        let detail = "The graph here is a node's copy of its cluster's. Back up the PostgreSQL \
                      that it is of: each node makes its copy from there.";
        return Err(ApiProblem::new(StatusCode::CONFLICT, detail));
    }
    let work = |graph: Graph, mut out: File| graph.backup_to(&mut out).map_err(io::Error::other);
    answer(&api, place, "application/octet-stream", Some("encke-graph.mdb"), work)
}

pub(crate) async fn export(State(api): State<Arc<Api>>) -> Result<Response, ApiProblem> {
    let place = place(&api)?;
    let work = |graph: Graph, out: File| {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, out);
        graph.export(&mut out, &mut |_, _| {}).map(drop).map_err(io::Error::other)
    };
    answer(&api, place, "text/plain; charset=utf-8", None, work)
}

pub(crate) async fn stats(
    State(api): State<Arc<Api>>,
    query: Result<Query<StatsQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiProblem> {
    let xmin = query?.0.xmin.map_or(Some(XMIN_DEFAULT), |text| text.parse().ok());
    let wrong = || ApiProblem::bad_request("xmin is a degree, a number from 1 on.");
    let xmin = xmin.filter(|&xmin| xmin > 0).ok_or_else(wrong)?;
    let (place, graph) = (place(&api)?, api.graph.clone());
    let walked = spawn_blocking(move || {
        let stats = graph.stats(&mut |_, _| {});
        drop(place);
        Ok(stats_json(&stats?, xmin))
    });
    walked.await.map_err(|_| ApiProblem::stopping())?.map(Json)
}

/// What `encke graph stats --json` prints.
pub fn stats_json(stats: &Stats, xmin: u64) -> Value {
    let degrees = &stats.degrees;
    let power_law = degrees.power_law(xmin).map(|law| {
        json!({ "exponent": law.exponent, "error": law.error, "xmin": xmin, "users": law.users })
    });
    json!({
        "users": stats.users,
        "subscriptions": stats.subscriptions,
        "mutual": stats.mutual,
        "store_bytes": stats.disk_bytes,
        "degree": {
            "min": degrees.min(),
            "median": degrees.quantile(0.5),
            "mean": degrees.mean(),
            "p90": degrees.quantile(0.9),
            "p99": degrees.quantile(0.99),
            "max": degrees.max(),
            "counts": degrees.counts,
        },
        "power_law": power_law,
    })
}

/// The place of the one walk.
fn place(api: &Api) -> Result<OwnedSemaphorePermit, ApiProblem> {
    Arc::clone(&api.graph_walks).try_acquire_owned().map_err(|_| {
        let detail = "Another backup, export or look at the whole graph is under way, and there is \
                      one at a time. Try again when it is done.";
        ApiProblem::unavailable(detail).retry_after(RETRY_AFTER_SECONDS)
    })
}

/// An answer of what `work` writes.
fn answer(
    api: &Api,
    place: OwnedSemaphorePermit,
    content_type: &'static str,
    name: Option<&str>,
    work: impl FnOnce(Graph, File) -> io::Result<()> + Send + 'static,
) -> Result<Response, ApiProblem> {
    let failed = |error| ApiProblem::unavailable(format!("The answer cannot begin: {error}."));
    let bytes = api.graph.disk_bytes().map_err(|error| failed(io::Error::other(error)))?;
    let ends_at = Instant::now() + TIME_MIN + Duration::from_secs(bytes / RATE_MIN);
    let graph = api.graph.clone();
    let walk = Walk::begin(place, ends_at, move |out| work(graph, out)).map_err(failed)?;
    let body = stream::unfold(walk, Walk::next);
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(name) = name {
        let value = format!("attachment; filename=\"{name}\"");
        let value = value.try_into().expect("the name has letters alone");
        fields.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok((fields, Body::from_stream(body)).into_response())
}

/// A walk whose bytes are on their way to a client, through a socket: unlike a pipe it can be ended
/// from outside, which ends the walk. So does dropping it.
struct Walk {
    socket: UnixStream,
    work: Option<JoinHandle<io::Result<()>>>,
    ends_at: Instant,
    /// Who ends it in time, whether or not the client asks for more.
    watch: AbortHandle,
}

impl Walk {
    fn begin(
        place: OwnedSemaphorePermit,
        ends_at: Instant,
        work: impl FnOnce(File) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Walk> {
        let (reader, writer) = net::UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        let same = reader.try_clone()?;
        let socket = UnixStream::from_std(reader)?;
        let work = spawn_blocking(move || {
            let done = work(File::from(OwnedFd::from(writer)));
            drop(place);
            done
        });
        let watch = tokio::spawn(async move {
            let _ = timeout_at(ends_at, pending::<()>()).await;
            // It fails only where the walk has ended.
            let _ = same.shutdown(Shutdown::Both);
        });
        Ok(Walk { socket, work: Some(work), ends_at, watch: watch.abort_handle() })
    }

    /// The next piece; an error cuts the answer short.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Walk)> {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let failed = match self.socket.read_buf(&mut piece).await {
            Ok(1..) => return Some((Ok(piece.freeze()), self)),
            Ok(0) => self.outcome().await,
            Err(error) => Some(error),
        };
        let error = failed?;
        tracing::warn!("a backup or export of the graph was cut short: {error}");
        Some((Err(error), self))
    }

    /// What went wrong, at the end of what was written.
    async fn outcome(&mut self) -> Option<io::Error> {
        match self.work.take()?.await {
            Ok(Err(_)) if Instant::now() >= self.ends_at => {
                Some(io::Error::other("it took too long"))
            }
            Ok(done) => done.err(),
            Err(_) => Some(io::Error::other("the server is stopping")),
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        // It has the other descriptor of the socket.
        self.watch.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use testing::DEADLINE;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    fn walk(places: &Arc<Semaphore>, time: Duration) -> Walk {
        let place = Arc::clone(places).try_acquire_owned().unwrap();
        let endless = |mut out: File| -> io::Result<()> {
            loop {
                out.write_all(&[7; PIECE_BYTES])?;
            }
        };
        Walk::begin(place, Instant::now() + time, endless).unwrap()
    }

    #[tokio::test]
    async fn walk_whose_client_takes_nothing_ends_in_time_and_is_cut_short() {
        let places = Arc::new(Semaphore::new(1));
        let mut walk = walk(&places, Duration::from_millis(50));
        drop(timeout(DEADLINE, places.acquire()).await.expect("its place comes back").unwrap());
        loop {
            let (piece, more) = walk.next().await.expect("it has an error at its end");
            walk = more;
            if let Err(error) = piece {
                break assert!(error.to_string().contains("too long"), "{error}");
            }
        }
        assert!(walk.next().await.is_none());
    }

    #[tokio::test]
    async fn walk_whose_client_is_gone_ends() {
        let places = Arc::new(Semaphore::new(1));
        let (piece, walk) = walk(&places, DEADLINE).next().await.unwrap();
        assert!(piece.unwrap().iter().all(|&byte| byte == 7));
        drop(walk);
        drop(timeout(DEADLINE, places.acquire()).await.expect("its place comes back").unwrap());
    }
}
