//! This is the side of the server that takes over. It makes itself ready beside the one that
//! serves, takes what that hands over, and serves once it is told that all is its own.
//!
//! Until then it does nothing that is seen from outside, so it may end at any moment. From when it
//! has said that it has everything it does not give up by itself, since it cannot know whether it
//! was told. It waits for the word, or for the end of the conversation.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use auth::live_access::LiveAccess;
use dispatch::idempotency::IdempotencyKeys;
use engine::{Engine, Takeover, Total};
use graph::{Beside, Graph, GraphOptions};
use hub::{Epoch, Tag};
use sys::clock;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::api::Figures;
use crate::epoch::EpochFile;
use crate::keep::ClaimsBeside;
use crate::passing::PassingSocket;
use crate::ports::ApiListeners;
use crate::start::{ControlPlane, ServerSetup};
use crate::upgrade::check::check;
use crate::upgrade::conversation::{Broken, Conversation};
use crate::upgrade::messages::{
    EpochFacts, Facts, FirstMessage, Have, Hello, Listeners, Live, Ready, Rest, ServingMessage,
    SuccessorMessage, UpgradeRefusal, VERSIONS,
};
use crate::upgrade::socket::{Socket, SocketDir};
use crate::upgrade::{history, hub_state, socket};
use crate::{ServeConfig, Server, epoch};

/// How long the other server may say nothing: it says how far it is every second.
const WORD_MAX: Duration = Duration::from_secs(60);

/// How long workers may take for what is left when all has been said.
const WORKERS_MAX: Duration = Duration::from_secs(15);

/// How often it is looked whether they have it.
const LOOK: Duration = Duration::from_millis(1);

/// How long clients wait until it is on disk that all is ours. It takes two small files, so only a
/// disk that hangs takes longer: then it is written beside all else.
const CLAIM_MAX: Duration = Duration::from_secs(1);

/// How long the other may take to leave ports beside those of streams and of the API.
const LEFT_MAX: Duration = Duration::from_secs(10);

/// How long its port may take to be free then.
const PORT_PATIENCE: Duration = Duration::from_secs(5);

/// Where workers wait, in the data directory.
const WORKERS_DIR: &str = "upgrade.workers";

/// Before anything is handed over.
struct Prepared {
    setup: ServerSetup,
    beside: Beside,
    engine: Engine,
    takeover: Takeover,
    dir: WorkersDir,
    /// None before the first of them have come.
    idempotency: Option<Arc<IdempotencyKeys>>,
}

/// When all is here.
struct Complete {
    control: ControlPlane,
    /// Says whether the directory is still ours.
    graph: Graph,
    epoch_file: EpochFile,
    claims: Option<ClaimsBeside>,
    listeners: ApiListeners,
    passing: PassingSocket,
    takeover: Takeover,
    rest: Rest,
}

/// The directory in which workers wait, while it is there.
struct WorkersDir {
    path: PathBuf,
    reach: SocketDir,
}

impl WorkersDir {
    /// Makes it; one that was left behind is nobody's.
    fn make(data: &Path) -> Result<WorkersDir> {
        let dir = data.join(WORKERS_DIR);
        // There is none, as a rule.
        let _ = fs::remove_dir_all(&dir);
        // Nobody else may send workers what they take for connections.
        let made = fs::DirBuilder::new().mode(0o700).create(&dir);
        made.with_context(|| format!("cannot make {}", dir.display()))?;
        let reach = SocketDir::open(&dir)?;
        Ok(WorkersDir { path: dir, reach })
    }
}

impl Drop for WorkersDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Server {
    /// Takes over from the server that runs with the same data; `None` when there is none. When
    /// this returns, that one has left everything to this.
    pub async fn take_over(config: &ServeConfig) -> Result<Option<Server>> {
        let stream = socket::connect(&config.data).await;
        let stream = stream.context("the server that runs here cannot be asked for an upgrade")?;
        let Some(stream) = stream else { return Ok(None) };
        let mut serving = Conversation::new(stream);
        if !serving.peer().and_then(socket::may_ask).context("nobody knows who serves here")? {
            bail!("another user's server runs with these data");
        }
        let hello = Hello {
            versions: VERSIONS.to_vec(),
            pid: std::process::id(),
            encke: env!("CARGO_PKG_VERSION").to_owned(),
        };
        serving.say(&FirstMessage::Hello(hello)).await?;
        let facts = match word(&mut serving).await? {
            ServingMessage::Facts(facts) => facts,
            other => bail!("the server that runs says what nobody has asked for: {other:?}"),
        };
        let took = take_all(&mut serving, &facts, config.clone()).await;
        let complete = match took {
            Ok(complete) => complete,
            Err(error) => {
                let why = format!("{error:#}");
                // Whoever said why it cannot be knows it.
                let _ = serving.say(&SuccessorMessage::Refuse(UpgradeRefusal { why })).await;
                serving.end().await;
                return Err(error);
            }
        };
        let connections = complete.rest.connections;
        serving.say(&SuccessorMessage::Have(Have { connections })).await?;
        loop {
            match serving.hear::<ServingMessage>().await {
                Ok(ServingMessage::Yours) => break,
                Ok(ServingMessage::Refuse(refusal)) => bail!(refusal.why),
                Ok(_) => {}
                Err(Broken::Ended) => bail!("the server that runs has ended the upgrade"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(complete.serve(&mut serving, &facts).await))
    }
}

/// Makes everything ready, and takes it.
async fn take_all(
    serving: &mut Conversation,
    facts: &Facts,
    config: ServeConfig,
) -> Result<Complete> {
    let prepared = prepare(facts, config).await?;
    let workers = prepared.engine.workers();
    let ready = Ready { dir: WORKERS_DIR.to_owned(), workers };
    serving.say(&SuccessorMessage::Ready(ready)).await?;
    let (mut prepared, mut listening) = (prepared, None);
    loop {
        match word(serving).await? {
            ServingMessage::Copying(_) => prepared.check()?,
            ServingMessage::History(_) => {
                let bytes = serving.hear_bytes().await?;
                history::take(prepared.engine.router(), &bytes)?;
            }
            ServingMessage::Hub(part) => hub_state::take(prepared.engine.router(), part)?,
            ServingMessage::Keys(part) => {
                let keys = match prepared.idempotency.take() {
                    Some(keys) => keys,
                    None => IdempotencyKeys::successor(&part)?,
                };
                keys.take_over(&part)?;
                prepared.idempotency = Some(keys);
            }
            ServingMessage::Listeners(Listeners { api, tls_api }) => {
                let descriptors = serving.take(usize::from(api) + usize::from(tls_api)).await?;
                listening = Some(listeners(descriptors, api)?);
                prepared = prepared.look_again().await?;
            }
            ServingMessage::Rest(rest) => {
                let listeners =
                    listening.ok_or_else(|| anyhow!("the API's ports have not come"))?;
                return prepared.complete(*rest, listeners).await;
            }
            other => bail!("the server that runs says what nobody has asked for: {other:?}"),
        }
    }
}

/// Reads what there is to be read, looks whether all can be taken, and has workers wait.
async fn prepare(facts: &Facts, mut config: ServeConfig) -> Result<Prepared> {
    let descriptors = sys::limits::descriptors().context("cannot read the descriptor limit")?;
    let apis = check(facts, &config, descriptors.soft)?;
    (config.engine.listen, config.tls_listen) = (facts.listen, facts.tls_listen);
    (config.api, config.tls_api) = (apis.plain, apis.tls);
    let live = LiveAccess { id: facts.live.id.clone(), token: facts.live.token.clone() };
    let mut setup = ServerSetup::load(config, live).await?;
    let data = setup.config.data.clone();
    let opened = spawn_blocking(move || Graph::open_beside(&data, &GraphOptions::default())).await;
    let beside = opened.context("the store was not opened")??;
    setup.set_apis(apis);
    let predecessor = facts.predecessor();
    let (epoch, names) = (epoch_of(&facts.epoch)?, Arc::clone(beside.names()));
    let config = setup.config.engine.clone();
    let mut engine = Engine::prepare_successor(config, epoch, names, &predecessor)?;
    let dir = WorkersDir::make(&setup.config.data)?;
    // Signals are for the threads of the control plane.
    let takeover = sys::signals::blocked(|| engine.take_over(dir.reach.path(), &predecessor))??;
    let idempotency = None;
    Ok(Prepared { setup, beside, engine, takeover, dir, idempotency })
}

impl Prepared {
    /// Whether workers have come to a point from which they do not go on.
    fn check(&self) -> Result<()> {
        match self.takeover.received() {
            Some(Err(why)) => bail!(why),
            _ => Ok(()),
        }
    }

    /// Looks what has changed in the store, so that little is left to be looked at later.
    async fn look_again(mut self) -> Result<Prepared> {
        let looked = spawn_blocking(move || {
            self.beside.catch_up()?;
            Ok(self)
        });
        looked.await.context("the store was not looked at")?
    }

    /// Takes the store, and waits until workers have everything.
    async fn complete(self, mut rest: Rest, listeners: ApiListeners) -> Result<Complete> {
        let Prepared { setup, beside, engine, takeover, .. } = self;
        let data = setup.config.data.clone();
        let taken = spawn_blocking(move || beside.take()).await;
        let graph = taken.context("the store was not taken")??;
        let until = Instant::now() + WORKERS_MAX;
        let connections = loop {
            match takeover.received() {
                Some(received) => break received.map_err(|why| anyhow!(why))?,
                None if Instant::now() >= until => bail!("workers wait for connections in vain"),
                None => sleep(LOOK).await,
            }
        };
        drop(self.dir);
        let ids = engine.router().event_ids();
        ids.reserve(rest.epoch.until);
        ids.take_over(rest.last);
        history::forget(engine.router(), std::mem::take(&mut rest.evicted_range));
        let epoch = epoch_of(&rest.epoch)?;
        let keeps = setup.keeping.is_some();
        if let Some(keeping) = &setup.keeping {
            keeping.open().await?;
        }
        let passing = PassingSocket::bind(&data);
        let passing = passing.context("no socket can be made in the data directory")?;
        // Its own is made when all is ours, and cannot be refused then.
        Socket::try_to_bind(&data).context("no socket can be made in the data directory")?;
        let begun = epoch::take_over(&data, epoch, rest.last, keeps);
        let claims = match &setup.keeping {
            Some(keeping) => keeping.begin_beside(&begun)?,
            None => None,
        };
        let (epoch_file, lost) = (begun.file, begun.lost);
        engine.router().event_ids().set_lost(lost);
        let idempotency = self.idempotency.context("no idempotency keys have come")?;
        // A node of a cluster is not taken over.
        let control = ControlPlane::new(setup, engine, graph.clone(), None, idempotency)?;
        control.take_over(std::mem::take(&mut rest.api), std::mem::take(&mut rest.revoked));
        rest.connections = connections;
        Ok(Complete { control, graph, epoch_file, claims, listeners, passing, takeover, rest })
    }
}

impl Complete {
    /// Serves what is ours. There is no way back, so nothing that goes wrong here ends anything.
    async fn serve(self, serving: &mut Conversation, facts: &Facts) -> Server {
        let Complete { mut control, graph, epoch_file, claims, listeners, passing, .. } = self;
        let (takeover, mut rest) = (self.takeover, self.rest);
        // What is let go of again before that is another's to claim.
        let mut claiming = spawn_blocking(move || graph.while_ours(|| claim(epoch_file, claims)));
        let in_time = timeout(CLAIM_MAX, &mut claiming).await;
        control.state().take_over_hub(rest.hub.take(), rest.last).await;
        let totals = rest.totals.into_iter().map(|(name, value)| Total { name, value });
        takeover.serve(totals.collect());
        let pause_ms = clock::monotonic_ms().saturating_sub(rest.paused_ms);
        let figures = Figures {
            milliseconds: clock::monotonic_ms().saturating_sub(facts.begun_ms),
            pause_milliseconds: pause_ms,
            connections: rest.connections,
        };
        control.state().set_upgraded(figures);
        control.begin(async move {
            let claimed = match in_time {
                Ok(claimed) => claimed,
                Err(_) => claiming.await,
            };
            claimed.ok().flatten()
        });
        let erlang = control.take_erlang();
        let mut server = control.serve(listeners);
        server.serve_passed(passing);
        // Heard in any case: what nobody has read would break the conversation at its end.
        if let Err(error) = serving.hear_within::<ServingMessage>(LEFT_MAX).await {
            tracing::warn!("the server before has not left its other ports: {error}");
        }
        if let Some(erlang) = erlang {
            match erlang.start(PORT_PATIENCE).await {
                Ok(task) => server.set_erlang(Some(task)),
                Err(error) => tracing::error!("Erlang nodes are not served: {error:#}"),
            }
        }
        if let Err(error) = serving.say(&SuccessorMessage::Live(Live { pause_ms })).await {
            tracing::debug!(%error, "the server before does not hear that all is well");
        }
        tracing::info!(
            from = facts.encke,
            connections = rest.connections,
            seconds = figures.milliseconds as f64 / 1e3,
            pause_ms,
            "has taken over from the server before"
        );
        server
    }
}

/// Says on disk that all is ours. What is kept since when stands there first: the epoch by itself
/// would make a claim of what an older file says.
fn claim(mut epoch_file: EpochFile, claims: Option<ClaimsBeside>) -> EpochFile {
    if let Some(claims) = claims {
        claims.put_in_place();
    }
    epoch_file.claim();
    epoch_file
}

/// The next word that we know. An error is a sentence of the other's, or that it is not there.
async fn word(serving: &mut Conversation) -> Result<ServingMessage> {
    let is_known = |word: &ServingMessage| !matches!(word, ServingMessage::Unknown);
    match serving.hear_known(WORD_MAX, is_known).await.context("the server that runs")? {
        ServingMessage::Refuse(refusal) => bail!(refusal.why),
        word => Ok(word),
    }
}

fn epoch_of(facts: &EpochFacts) -> Result<Epoch> {
    let tag = Tag::of_bits(facts.tag).context("the server that runs has no epoch")?;
    Ok(Epoch { tag, base: facts.base, until: facts.until })
}

fn listeners(descriptors: Vec<OwnedFd>, has_plain: bool) -> Result<ApiListeners> {
    let mut descriptors = descriptors.into_iter().map(|descriptor| {
        let listener = std::net::TcpListener::from(descriptor);
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    let plain = if has_plain { descriptors.next().transpose()? } else { None };
    let tls = descriptors.next().transpose()?;
    Ok(ApiListeners { plain: plain.map(Arc::new), tls: tls.map(Arc::new) })
}
