//! `/v1/stream/{path}`: Durable Streams, for who may call the API, and on the
//! [public](super::public) port.
//!
//! The protocol is Durable Streams, draft 1.0; its rules and its files are those of the crate
//! [`streams`]. Here is its HTTP. What waits for a disk runs on threads of its own, with a write
//! permit, so that the files are one process' at any moment: at an upgrade live readers end and
//! come back to the new version, and what is asked meanwhile is passed on to it.

mod answers;
mod fields;
mod live;
mod memory;
mod read;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use dispatch::barrier::{Barrier, NoPermit};
use engine::LetIn;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;
use streams::{Limits, Refusal, Store};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::answers::refused;
use self::memory::{Holder, Holders, StreamsMemory};
use super::state::Api;

/// Where streams are.
pub(super) const PATH: &str = "/v1/stream/{*path}";

/// Threads that wait for a disk at one time.
const DISK_THREADS_MAX: usize = 64;

/// Time between two looks for streams whose life is over, each into one of 256 directories.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The methods that a stream has.
const METHODS: &str = "GET, HEAD, PUT, POST, DELETE";

/// What streams are kept by.
#[derive(Clone, Copy, Debug)]
pub struct StreamsConfig {
    /// Bytes of all streams together.
    pub bytes_max: u64,
}

/// The streams of a server.
#[derive(Debug)]
pub(crate) struct Streams {
    dir: PathBuf,
    config: StreamsConfig,
    /// Opened when it is first needed: by a successor not before everything is its own.
    store: OnceCell<Arc<Store>>,
    places: Semaphore,
    /// What requests to the API hold, and those to the public port: these take no room of the
    /// others, however slowly they read and send.
    api_memory: StreamsMemory,
    public_memory: StreamsMemory,
    barrier: Arc<Barrier>,
    stop: CancellationToken,
}

/// Why something was not done.
enum Undone {
    /// The stream does not let it be done.
    Refused(Refusal),
    /// Streams cannot be opened.
    Unusable(String),
    /// Not by this process.
    NoPermit(NoPermit),
}

impl Streams {
    /// Streams that are kept below `data`.
    pub(crate) fn new(
        data: &std::path::Path,
        config: StreamsConfig,
        barrier: &Arc<Barrier>,
        stop: &CancellationToken,
    ) -> Arc<Streams> {
        Arc::new(Streams {
            dir: data.join("streams"),
            config,
            store: OnceCell::new(),
            places: Semaphore::new(DISK_THREADS_MAX),
            api_memory: StreamsMemory::default(),
            public_memory: StreamsMemory::default(),
            barrier: Arc::clone(barrier),
            stop: stop.clone(),
        })
    }

    /// Opens them, so that what is wrong with them is told at the start.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        let opened = self.store().await.map(drop);
        opened
            .map_err(|why| anyhow::anyhow!("cannot open streams in {}: {why}", self.dir.display()))
    }

    async fn store(&self) -> Result<Arc<Store>, String> {
        let open = async || {
            let (dir, limits) = (self.dir.clone(), Limits { bytes_max: self.config.bytes_max });
            let open = move || Store::open(&dir, limits, sys::clock::unix_ms);
            match spawn_blocking(open).await {
                Ok(Ok(store)) => Ok(Arc::new(store)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        self.store.get_or_try_init(open).await.map(Arc::clone)
    }

    /// Does `work`, which waits for a disk. Once begun it is done, whoever goes away, and an
    /// upgrade waits for it.
    async fn work<T: Send + 'static>(
        self: &Arc<Streams>,
        work: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Undone> {
        let streams = Arc::clone(self);
        let done = tokio::spawn(async move {
            let _place = streams.places.acquire().await;
            let permit = streams.barrier.enter().await.map_err(Undone::NoPermit)?;
            let store = streams.store().await.map_err(Undone::Unusable)?;
            let worked = spawn_blocking(move || work(&store)).await;
            drop(permit);
            match worked {
                Ok(done) => done.map_err(Undone::Refused),
                Err(error) => Err(Undone::Unusable(error.to_string())),
            }
        });
        match done.await {
            Ok(done) => done,
            Err(error) => Err(Undone::Unusable(error.to_string())),
        }
    }

    /// Removes streams whose life is over, as long as this process has them.
    pub(crate) async fn sweep(self: Arc<Streams>) {
        for number in 0.. {
            let ended = async {
                tokio::select! {
                    () = self.stop.cancelled() => {}
                    () = self.barrier.moved() => {}
                }
            };
            if timeout(SWEEP_EVERY, ended).await.is_ok() {
                return;
            }
            let swept = self.work(move |store| Ok(store.sweep(number)?)).await;
            if let Err(Undone::Refused(error)) = swept {
                tracing::warn!("streams whose life is over cannot be looked for: {error}");
            }
        }
    }
}

/// A request about a stream.
struct Call {
    streams: Arc<Streams>,
    /// Whether only who has a key may read, or a token.
    is_private: bool,
    /// Whether it came to the public port.
    is_public: bool,
    /// The longest body, and how long its client may be silent.
    body_bytes_max: usize,
    idle_limit: IdleLimit,
    /// Whose share of the memory it takes.
    holders: Holders,
    path: Arc<str>,
    head: Parts,
}

impl Call {
    /// What it may hold.
    fn memory(&self) -> &StreamsMemory {
        if self.is_public { &self.streams.public_memory } else { &self.streams.api_memory }
    }

    /// The answer to what was not done; to who came too late, with `body`, what the successor says.
    async fn undone(self, undone: Undone, body: Bytes) -> Result<Response, ApiProblem> {
        match undone {
            Undone::Refused(refusal) => Ok(refused(&refusal)),
            Undone::Unusable(why) => {
                let detail = format!("The streams of this server cannot be used: {why}.");
                Err(ApiProblem::unavailable(detail))
            }
            // The successor's API does not know who was let in here.
            Undone::NoPermit(_) if self.is_public => Err(ApiProblem::starting_or_stopping()),
            Undone::NoPermit(no_permit) => no_permit.answer(self.head, Body::from(body)).await,
        }
    }
}

/// Every request about a stream.
pub(super) async fn serve(State(api): State<Arc<Api>>, request: Request) -> Response {
    let mut response = match answer(api, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    dress(response.headers_mut());
    response
}

/// Serves a request of the public port that was let in there.
pub(super) async fn serve_let_in(
    api: &Api,
    let_in: &LetIn,
    idle_limit: &IdleLimit,
    request: Request,
) -> Result<Response, ApiProblem> {
    let Some(streams) = api.streams().cloned() else { return Err(ApiProblem::not_found()) };
    let path = fields::path(request.uri().path())?;
    let (head, body) = request.into_parts();
    let call = Call {
        idle_limit: idle_limit.clone(),
        streams,
        holders: Holder::all_of(let_in),
        is_private: let_in.holder.is_some(),
        is_public: true,
        body_bytes_max: let_in.limits.payload_bytes_max,
        path: path.into(),
        head,
    };
    match call.head.method {
        Method::GET => read::get(call).await,
        Method::HEAD => read::head(call).await,
        Method::POST => write::append(call, body).await,
        _ => Err(ApiProblem::method_not_allowed()),
    }
}

/// What each answer says.
pub(super) fn dress(fields: &mut HeaderMap) {
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    fields.insert(policy, HeaderValue::from_static("cross-origin"));
    // Whoever writes streams chooses their type. A page among them is none of the API's: it runs no
    // script, and has nothing of the dashboard's session.
    fields.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

async fn answer(api: Arc<Api>, request: Request) -> Result<Response, ApiProblem> {
    use super::access::Permission;
    let is_method = METHODS.split(", ").any(|method| method == request.method().as_str());
    if !is_method && request.method() != Method::OPTIONS {
        let mut response = ApiProblem::method_not_allowed().into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
        return Ok(response);
    }
    let Some(streams) = api.streams().cloned() else { return Err(ApiProblem::not_found()) };
    if request.method() == Method::OPTIONS {
        let fields = [
            (header::ALLOW, METHODS),
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, If-None-Match, Last-Event-ID"),
        ];
        return Ok((StatusCode::NO_CONTENT, fields).into_response());
    }
    let permission = Permission::of(request.extensions())?;
    let is_private = matches!(permission, Permission::Key(_));
    let path = fields::path(request.uri().path())?;
    if !request.method().is_safe() {
        api.access.check_about(&permission, [path.as_str()].into_iter())?;
    }
    let (head, body) = request.into_parts();
    let call = Call {
        idle_limit: api.idle_limit.clone(),
        streams,
        // Whoever calls the API is trusted with its memory.
        holders: [].into(),
        is_private,
        is_public: false,
        body_bytes_max: write::BODY_BYTES_MAX,
        path: path.into(),
        head,
    };
    match call.head.method {
        Method::GET => read::get(call).await,
        Method::HEAD => read::head(call).await,
        Method::PUT => write::create(call, body).await,
        Method::POST => write::append(call, body).await,
        Method::DELETE => write::delete(call).await,
        _ => Err(ApiProblem::method_not_allowed()),
    }
}
