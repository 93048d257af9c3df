//! The whole graph, while the server serves: `GET /graph/backup`, its file as of one commit;
//! `GET /graph/export`, its pairs as text; `GET /graph/stats`, what it looks like.
//!
//! Each is a walk through a snapshot on a thread of its own. While one is open the store's file
//! grows by what is changed, so there is one at a time, which is cut off when it takes too long.
//! What is sent has its end only when all of it was read well: one that fails is cut short.

use std::fs::File;
use std::io::{self, BufWriter, PipeReader};
use std::os::fd::OwnedFd;
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
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use crate::api::state::Api;
use crate::http::problem::ApiProblem;

/// Bytes of a piece of an answer: what a pipe holds.
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
    let work = |graph: Graph, mut pipe: File| graph.backup_to(&mut pipe).map_err(io::Error::other);
    answer(&api, place, "application/octet-stream", Some("encke-graph.mdb"), work)
}

pub(crate) async fn export(State(api): State<Arc<Api>>) -> Result<Response, ApiProblem> {
    let place = place(&api)?;
    let work = |graph: Graph, pipe: File| {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, pipe);
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

/// An answer of what `work` writes into a pipe.
fn answer(
    api: &Api,
    place: OwnedSemaphorePermit,
    content_type: &'static str,
    name: Option<&str>,
    work: impl FnOnce(Graph, File) -> io::Result<()> + Send + 'static,
) -> Result<Response, ApiProblem> {
    let failed = |error| ApiProblem::unavailable(format!("No pipe for the answer: {error}."));
    let (reader, writer) = io::pipe().map_err(failed)?;
    let walk = Walk::begin(api, place, reader, move |graph| {
        work(graph, File::from(OwnedFd::from(writer)))
    });
    let body = stream::unfold(walk.map_err(failed)?, Walk::next);
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

/// A walk whose bytes are on their way to a client. Dropped, its pipe breaks, which ends it.
struct Walk {
    pipe: pipe::Receiver,
    work: Option<JoinHandle<io::Result<()>>>,
    ends_at: Instant,
}

impl Walk {
    fn begin(
        api: &Api,
        place: OwnedSemaphorePermit,
        reader: PipeReader,
        work: impl FnOnce(Graph) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Walk> {
        let pipe = pipe::Receiver::from_owned_fd(reader.into())?;
        let bytes = api.graph.disk_bytes().map_err(io::Error::other)?;
        let graph = api.graph.clone();
        let work = spawn_blocking(move || {
            let done = work(graph);
            drop(place);
            done
        });
        let time = TIME_MIN + Duration::from_secs(bytes / RATE_MIN);
        Ok(Walk { pipe, work: Some(work), ends_at: Instant::now() + time })
    }

    /// The next piece; an error cuts the answer short.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Walk)> {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let read = timeout_at(self.ends_at, self.pipe.read_buf(&mut piece)).await;
        let read = read.unwrap_or_else(|_| Err(io::Error::other("it took too long")));
        let failed = match read {
            Ok(1..) => return Some((Ok(piece.freeze()), self)),
            Ok(0) => self.outcome().await,
            Err(error) => Some(error),
        };
        let error = failed?;
        tracing::warn!("a backup or export of the graph was cut short: {error}");
        Some((Err(error), self))
    }

    /// What went wrong, at the end of the pipe.
    async fn outcome(&mut self) -> Option<io::Error> {
        match self.work.take()?.await {
            Ok(done) => done.err(),
            Err(_) => Some(io::Error::other("the server is stopping")),
        }
    }
}
