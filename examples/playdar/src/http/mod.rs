//! The old daemon's HTTP interface: who may ask what, and where.
//!
//! [`guard`] is what every request passes: the peer, the name that it calls us by, and the page
//! that it comes from. [`api`] answers `/api/`, [`comet`] pushes, [`sid`] plays, [`access`] grants
//! tokens, [`listens`] takes what a scrobbler says, [`pages`] shows. [`listener`] has the
//! connections and their bounds.

mod access;
mod api;
mod comet;
mod guard;
mod html;
mod listener;
mod listens;
mod pages;
mod reply;
mod sid;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use parking_lot::Mutex;
use proto::request::Hosts;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::comet::Sessions;
use self::sid::Fetcher;
use crate::auth::Auth;
use crate::lan::Lan;
use crate::library::Library;
use crate::listens::Listens;
use crate::pipeline::Pipeline;

/// Parameters of a query or of a form.
type Parameters = HashMap<String, String>;

/// Bytes of a form.
const FORM_BYTES_MAX: usize = 16 << 10;

/// What the interface is about.
pub struct Parts {
    /// Who finds.
    pub pipeline: Pipeline,
    /// Which files may be played.
    pub library: Arc<Library>,
    /// Who may ask from pages.
    pub auth: Auth,
    /// The LAN, if it is asked, until the end.
    pub lan: Mutex<Option<Lan>>,
    /// Who is told what the person at this machine listens to.
    pub listens: Listens,
    /// What the daemon is called as a host, beside its addresses and `localhost`.
    pub hosts: Hosts,
    /// What it calls itself.
    pub name: String,
    /// The base address of the streams.
    pub streams: String,
    /// Songs that are there to be found, for the page of the demo.
    pub examples: Value,
}

/// What all handlers share.
pub(crate) struct App {
    parts: Parts,
    sessions: Arc<Sessions>,
    fetcher: Fetcher,
}

type Shared = axum::extract::State<Arc<App>>;

/// The interface at work.
pub struct Http {
    listen: SocketAddr,
    app: Arc<App>,
    stop: CancellationToken,
}

/// Serves on `listener` until it is stopped.
pub fn serve(listener: TcpListener, parts: Parts) -> Result<Http> {
    let listen = listener.local_addr()?;
    let app = Arc::new(App { parts, sessions: Arc::default(), fetcher: Fetcher::new() });
    let stop = CancellationToken::new();
    tokio::spawn(listener::run(listener, routes(app.clone()), stop.clone()));
    Ok(Http { listen, app, stop })
}

impl Http {
    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// The pipeline that it asks.
    pub fn pipeline(&self) -> &Pipeline {
        &self.app.parts.pipeline
    }

    /// Takes no more connections, ends those that there are, and leaves the LAN.
    pub async fn stop(self) {
        self.stop.cancel();
        let lan = self.app.parts.lan.lock().take();
        if let Some(lan) = lan {
            lan.stop().await;
        }
    }
}

fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/api", get(api::answer))
        .route("/api/", get(api::answer))
        .route("/comet", get(comet::answer_old))
        .route("/sid/{sid}", get(sid::play))
        .route("/auth_1", get(access::ask))
        .route("/auth_1/", get(access::ask))
        .route("/auth_2", post(access::grant))
        .route("/auth_2/", post(access::grant))
        .route("/authcodes", get(access::list).post(access::revoke_form))
        .route("/settings/auth", get(access::list).post(access::revoke_form))
        .route("/settings/auth/", get(access::list).post(access::revoke_form))
        .route("/queries", get(pages::queries))
        .route("/queries/", get(pages::queries))
        .route("/queries/{qid}", get(pages::query).post(pages::cancel))
        .route("/quickplay/{artist}/{album}/{track}", get(pages::quickplay))
        .route("/lan/roster", get(pages::roster))
        .route("/1/submit-listens", post(listens::submit))
        .route("/1/validate-token", get(listens::validate))
        .fallback(any(pages::file))
        .method_not_allowed_fallback(pages::wrong_method)
        .layer(axum::extract::DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(from_fn_with_state(app.clone(), guard::pass))
        .with_state(app)
}
