//! A daemon at work: the order in which its parts start and end.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use proto::request::Hosts;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::auth::Auth;
use crate::friends::{self, Friends, FriendsConfig};
use crate::http::{self, Http, Parts};
use crate::lan::{self, LanConfig};
use crate::library::Library;
use crate::listens::Listens;
use crate::pipeline::Pipeline;
use crate::scanner::{self, Scanned, Scanner};
use crate::scripts::{self, Scripts};
use crate::streams::Streams;

/// What a daemon is told.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// Where its HTTP interface is.
    pub listen: SocketAddr,
    /// Where its streams are: on loopback.
    pub streams: SocketAddr,
    /// Where it keeps the library, the tokens and the streams' data.
    pub data: PathBuf,
    /// Folders of music.
    pub music: Vec<PathBuf>,
    /// What it is called as a host, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// What it calls itself.
    pub name: String,
    /// Programs that find songs.
    pub scripts: Vec<PathBuf>,
    /// How the LAN is asked, if it is; its port and its name are those above.
    pub lan: Option<LanConfig>,
    /// How friends are asked, if they are.
    pub friends: Option<FriendsConfig>,
    /// Songs that its page offers to try.
    pub examples: Value,
}

/// A daemon at work.
pub struct Daemon {
    http: Http,
    streams: Streams,
    scripts: Scripts,
    friends: Option<Friends>,
    scanned: watch::Receiver<Option<Scanned>>,
    _scanner: Scanner,
}

impl Daemon {
    /// Starts everything; whoever connects afterwards finds it at work.
    ///
    /// # Errors
    /// A sentence that says which part cannot start, and why.
    pub async fn start(config: DaemonConfig) -> Result<Daemon> {
        let (data, name) = (&config.data, &config.name);
        make_private(data)?;
        let listener = TcpListener::bind(config.listen).await.with_context(|| {
            let listen = config.listen;
            format!("cannot listen on {listen}: another Playdar may run; give another --listen")
        })?;
        let listen = listener.local_addr()?;
        let pipeline = Pipeline::new();
        tokio::spawn(pipeline.expiry());
        let origins = origins(listen, &config.hosts);
        let folder = data.join("streams");
        let streams = Streams::start(config.streams, &folder, origins, &pipeline).await?;
        let library = Arc::new(Library::open(data, name)?);
        pipeline.add(library.clone());
        let (told, scanned) = watch::channel(None);
        let tell = move |outcome| {
            // Nobody need be told.
            let _ = told.send(Some(outcome));
        };
        let scanner = scanner::start(config.music.clone(), data, tell)?;
        let lan = config.lan.clone().map(|lan| {
            let lan = LanConfig { name: name.clone(), http_port: listen.port(), ..lan };
            lan::start(lan, &pipeline)
        });
        let scripts = scripts::start(&config.scripts, &pipeline);
        let friends = config.friends.map(|friends| friends::start(friends, &pipeline));
        let friends = friends.transpose()?;
        let listens = Listens::new(streams.stream_sender(), friends.as_ref().map(Friends::listens));
        let parts = Parts {
            pipeline,
            library,
            auth: Auth::open(data)?,
            lan: Mutex::new(lan.transpose()?),
            listens,
            hosts: Hosts::new(config.hosts.clone()),
            name: name.clone(),
            streams: streams.base(),
            examples: config.examples.clone(),
        };
        let http = http::serve(listener, parts)?;
        Ok(Daemon { http, streams, scripts, friends, scanned, _scanner: scanner })
    }

    /// Where the HTTP interface is.
    pub fn listen(&self) -> SocketAddr {
        self.http.listen()
    }

    /// The base address of the streams.
    pub fn streams(&self) -> String {
        self.streams.base()
    }

    /// The pipeline, for further resolvers.
    pub fn pipeline(&self) -> &Pipeline {
        self.http.pipeline()
    }

    /// What each walk over the folders came to, the first one when it is done.
    pub fn scanned(&self) -> watch::Receiver<Option<Scanned>> {
        self.scanned.clone()
    }

    /// Ends everything in order.
    pub async fn stop(self) -> Result<()> {
        self.http.stop().await;
        if let Some(friends) = self.friends {
            friends.stop().await;
        }
        self.scripts.stop().await;
        self.streams.stop().await
    }
}

/// The daemon's own folder, which is nobody else's business.
fn make_private(dir: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("cannot make {}: give another --data", dir.display()))
}

/// The origins of the daemon's own page, which the streams let in.
fn origins(listen: SocketAddr, hosts: &[String]) -> Vec<String> {
    let own = [listen.ip().to_string(), "127.0.0.1".to_owned(), "localhost".to_owned()];
    let own = own.into_iter().chain(["[::1]".to_owned()]).chain(hosts.iter().cloned());
    own.map(|host| format!("http://{host}:{}", listen.port())).collect()
}
