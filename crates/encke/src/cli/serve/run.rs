//! The life of `encke serve`: from its options to its end, and what signals do in between.

use std::cell::Cell;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use engine::EngineConfig;
use server::{Done, Program, ServeConfig, Server};
use tokio::sync::oneshot;

use super::ServeArgs;
use super::announce::announce;
use super::live::{self, LiveSettings};
use super::program::this_program;
use crate::cli::UsageError;
use crate::console::told;
use crate::service::{self, State};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::system;
use crate::threads;

/// Descriptors that a server needs at the least: the control plane has some 40 with TLS, a log on
/// disk, a cluster and an Erlang node, and a worker has as many as are open when it starts.
const DESCRIPTORS_MIN: u64 = 64;

/// Why a server does not serve any more.
enum End {
    /// It was told to end.
    Asked,
    /// Its cluster goes on without it.
    ByItself,
    /// Another process serves in its place.
    Moved(Done),
}

/// Serves until a signal comes.
pub(crate) fn run(args: ServeArgs, settings: &Settings) -> Result<()> {
    server::end_process_on_panic();
    check_descriptors()?;
    // At once: the file may be replaced from now on.
    let program = this_program();
    let mut live = LiveSettings::new(&args, settings);
    server::block_on(async {
        let mut signals = Signals::new()?;
        let mut hangups = Signals::hangups()?;
        let mut upgrades = Signals::upgrades()?;
        let config = config(args.clone(), program)?;
        let mut input = pin!(input_ended(args.until_eof));
        let (server, has_taken_over) = tokio::select! {
            begun = begin(config, args.take_over) => begun?,
            _ = signals.next() => return stopped_early(),
            ended = &mut input => return ended.and_then(|()| stopped_early()),
        };
        match announce(&server, &args) {
            // Whoever read what the process before said may have enough, and streams are open.
            Err(error) if has_taken_over => tracing::warn!("{}", told(&error)),
            announced => announced?,
        }
        service::tell(State::Ready);
        let grace = Cell::new(args.grace);
        let reload = async {
            while hangups.recv().await.is_some() {
                tracing::info!(
                    "SIGHUP: certificates, keys of tokens, apps and settings are read again"
                );
                service::tell(State::Reloading);
                server.reload().await;
                live.reload(&server);
                grace.set(live.grace());
                tracing::info!("SIGHUP: what could be reloaded is in use");
                service::tell(State::Ready);
            }
            pending().await
        };
        let upgrade = async {
            while upgrades.recv().await.is_some() {
                tracing::info!("SIGUSR2: the program is started anew, to take over");
                service::tell(State::Upgrading);
                // Where it has succeeded, that is told first.
                server.upgrade().await;
                service::tell(State::Ready);
            }
            pending().await
        };
        let end = tokio::select! {
            biased;
            done = server.moved() => End::Moved(done),
            _ = signals.next() => End::Asked,
            () = server.ended() => End::ByItself,
            ended = &mut input => ended.map(|()| End::Asked)?,
            () = reload => End::Asked,
            () = upgrade => End::Asked,
        };
        signals.end_at_next();
        finish(server, end, grace.get()).await
    })
}

/// Ends a server that does not serve any more, in `grace` at the most.
async fn finish(server: Server, end: End, grace: Duration) -> Result<()> {
    if let End::Moved(done) = &end {
        if done.ended {
            // A failure, so that whoever started us starts a server again, as after any crash; and
            // at once, since nobody is served any more.
            server.outlive_workers().await?;
            return Err(ended_early(done));
        }
        service::tell(State::Moved(done.pid));
        return server.leave().await;
    }
    tracing::info!("stopping; a second signal ends at once");
    service::tell(State::Stopping);
    server.stop(grace).await?;
    match end {
        End::ByItself => Err(anyhow!(
            "this node is no longer part of its cluster: do what the line above says, and start it \
             again"
        )),
        End::Asked | End::Moved(_) => Ok(()),
    }
}

/// Nobody serves any more.
fn ended_early(Done { pid, version, .. }: &Done) -> anyhow::Error {
    anyhow!(
        "the new program (process {pid}, version {version}) ended after it had taken everything \
         over: see its messages above for why, and start the server"
    )
}

/// Fails where descriptors are few: else whatever is opened first without one would be blamed.
fn check_descriptors() -> Result<()> {
    let limit = system::descriptors()?.soft;
    if limit < DESCRIPTORS_MIN {
        bail!(
            "this process may have {limit} descriptors, and a server needs {DESCRIPTORS_MIN} and \
             one for each connection: raise the limit (ulimit -n, LimitNOFILE)"
        );
    }
    Ok(())
}

/// It was told to end while it started, which may take as long as its cluster is away.
fn stopped_early() -> Result<()> {
    tracing::info!("stopped before it had started");
    Ok(())
}

/// Starts a server, or takes over from one that runs; whether it did that.
async fn begin(config: ServeConfig, takes_over: bool) -> Result<(Server, bool)> {
    // Event ids and tokens count from then, and the dates of answers are none before.
    if !sys::clock::is_set() {
        bail!("this machine's clock stands before 1970: set it (timedatectl), then start again");
    }
    if takes_over {
        if let Some(server) = Server::take_over(&config).await? {
            return Ok((server, true));
        }
        tracing::info!("no server runs with these data that could be taken over: starting anew");
    }
    Ok((Server::start(config).await?, false))
}

/// What the options come to.
fn config(args: ServeArgs, program: Option<Program>) -> Result<ServeConfig> {
    let Some(first) = args.streams().next().map(|listen| listen.address) else {
        let none = "there is no port for streams: give --listen or --tls-listen an address";
        return Err(UsageError(none.to_owned()).into());
    };
    if args.apis().next().is_none() {
        let none = "there is no port for the API: give --api or --tls-api an address";
        return Err(UsageError(none.to_owned()).into());
    }
    let (settings, api_hosts) = live::settings(&args, &args);
    let engine = args.address_limits.engine(args.limits.engine_here(first)?);
    let members_max = args.presence.members_max();
    let engine = EngineConfig { settings, listen: args.listen.address(), members_max, ..engine };
    let cluster = args.cluster.config()?;
    let keep = args.keep.config(engine.history)?;
    let pusher_apps = args.pusher.config();
    let hub = args.mercure.config()?;
    let streams = args.streams.config()?;
    Ok(ServeConfig {
        engine,
        tls_listen: args.tls.tls_listen.address(),
        api: args.api.address(),
        tls_api: args.tls.tls_api.address(),
        certificates: args.tls.pairs()?,
        acme: args.tls.acme()?,
        api_hosts,
        token_cookie: args.tokens.token_cookie.clone(),
        access: args.tokens.access()?,
        public_url: args.public_url,
        data: args.data,
        cluster,
        erlang: args.erlang.config()?,
        presence: args.presence.config()?,
        traces: args.otlp.config(),
        streams,
        pusher_apps,
        hub,
        keep,
        demo: args.demo_page,
        program,
    })
}

/// Waits until standard input ends, whatever comes before; without end where it is not `watched`.
/// It is read by a thread for which the end of the process need not wait.
async fn input_ended(watched: bool) -> Result<()> {
    if !watched {
        return pending().await;
    }
    let (reader, ended) = oneshot::channel::<()>();
    let read = move || {
        // An input that cannot be read is over, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(reader);
    };
    threads::start("input", read)?;
    // Nothing is sent: the reader is dropped.
    let _ = ended.await;
    Ok(())
}
