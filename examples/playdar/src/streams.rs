//! Results over Encke's own streams.
//!
//! The daemon runs an Encke server. A query is an id, `query:<qid>`, and each result is an event
//! about it, posted over the public API as any program would: so SSE, WebSocket, NDJSON and long
//! poll, and what a client missed while it was away, come by themselves.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use engine::{EngineConfig, Origins};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proto::request::Hosts;
use serde::Serialize;
use server::{PresenceConfig, ServeConfig, Server, StreamAccess};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

use crate::pipeline::{Pipeline, Watch};
use crate::sending;

/// Streams open at once, which are pages of this machine.
const CONNECTIONS_MAX: usize = 1000;

/// How long the end of the streams may take.
const GRACE: Duration = Duration::from_secs(2);

/// The Encke server and what posts to it.
pub struct Streams {
    server: Server,
    stream_sender: StreamSender,
    posting: JoinHandle<()>,
}

impl Streams {
    /// Starts the server on `listen`, with its data in `dir`, for pages of `origins`, and posts all
    /// that `pipeline` finds from now on.
    pub async fn start(
        listen: SocketAddr,
        dir: &Path,
        origins: Vec<String>,
        pipeline: &Pipeline,
    ) -> Result<Streams> {
        let mut engine = EngineConfig::new(listen);
        engine.connections_max = CONNECTIONS_MAX;
        // No names: both ports are reached by address or as `localhost`, so no page can make a name
        // of its own lead here.
        engine.settings.origins = Origins::new(origins, Hosts::new(Vec::new()));
        let config = ServeConfig {
            engine,
            tls_listen: None,
            api: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            tls_api: None,
            certificates: Vec::new(),
            acme: None,
            api_hosts: Hosts::new(Vec::new()),
            access: StreamAccess::Unsaid,
            token_cookie: String::new(),
            public_url: None,
            data: dir.to_owned(),
            cluster: None,
            erlang: None,
            traces: None,
            // Nobody asks for it here.
            presence: PresenceConfig { grace: Duration::ZERO, webhooks: Vec::new() },
            streams: None,
            keep: None,
            pusher_apps: None,
            hub: None,
            demo: None,
            program: None,
        };
        let server = Server::start(config).await.context("cannot start the streams")?;
        let api = server.api().context("the streams' server has no API")?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let stream_sender = StreamSender { url: format!("http://{api}/send").into(), client };
        let posting = tokio::spawn(post_all(pipeline.clone(), stream_sender.clone()));
        Ok(Streams { server, stream_sender, posting })
    }

    /// The base address of the streams, as `http://127.0.0.1:8000`.
    pub fn base(&self) -> String {
        format!("http://{}", self.server.listen())
    }

    /// What posts to them.
    pub(crate) fn stream_sender(&self) -> StreamSender {
        self.stream_sender.clone()
    }

    /// Ends them.
    pub async fn stop(self) -> Result<()> {
        self.posting.abort();
        self.server.stop(GRACE).await
    }
}

/// Posts to the streams, over their API.
#[derive(Clone)]
pub(crate) struct StreamSender {
    url: Arc<str>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl StreamSender {
    /// Posts events about `about`, one for each of `data`.
    pub(crate) async fn post(
        &self,
        about: &str,
        data: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<()> {
        let sent = sending::send(&self.client, &self.url, None, about, data);
        sending::within(sending::ANSWER_TIMEOUT, sent).await
    }
}

/// A task for each query of this machine; there are no more of them than queries.
async fn post_all(pipeline: Pipeline, stream_sender: StreamSender) {
    let mut started = pipeline.started();
    loop {
        match started.recv().await {
            Ok(query) if query.is_local => {
                if let Some(watch) = pipeline.watch(&query.qid) {
                    tokio::spawn(post_query(watch, stream_sender.clone()));
                }
            }
            Ok(_) => {}
            Err(RecvError::Lagged(queries)) => {
                tracing::warn!(queries, "results of queries are not told by streams: too many");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

async fn post_query(mut watch: Watch, stream_sender: StreamSender) {
    while let Some(found) = watch.next().await {
        let about = format!("query:{}", watch.query().qid);
        // Who missed it can still ask `get_results`.
        let found = found.iter().map(|found| &**found);
        if let Err(error) = stream_sender.post(&about, found).await {
            tracing::warn!(%error, "a result is not told by streams");
        }
    }
}
