//! The demo's server: `encke serve` as a process of its own.
//!
//! It ends with its standard input ([`OwnChild`]): in order when the demo closes that, and also
//! when the demo is gone, by whatever. So there is one way to end it, and none to leave it behind.
//!
//! What it logs goes where the demo's own lines go.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use figures::run::Reading;
use rig::{AtDrop, OwnChild};
use serde::Deserialize;
use server::DemoFacts;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;

use super::certificate::{self, Certificate};
use super::child;
use crate::cli::serve::LimitArgs;
use crate::cli::signer::TokenClaimsArgs;
use crate::client::{ApiClient, ServerUrl};

/// How long the server may take to end its connections in order.
const GRACE: Duration = Duration::from_secs(5);

/// How long it may take to tell its figures.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to end altogether before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// What the server is told at start.
pub(super) struct ServerOptions<'a> {
    pub(super) listen: SocketAddr,
    pub(super) api: SocketAddr,
    pub(super) data: &'a Path,
    /// The cluster that it is a node of, if any.
    pub(super) member: Option<Member<'a>>,
    pub(super) limits: &'a LimitArgs,
    /// What tokens are verified with; without it anybody may listen.
    pub(super) token_key: Option<&'a Path>,
    /// Whom the streams' port for TLS shows; without it there is none.
    pub(super) certificate: Option<Certificate>,
    /// What they must say beside the ids.
    pub(super) token_claims: &'a TokenClaimsArgs,
    /// What its page is told.
    pub(super) demo: DemoFacts,
}

/// How nodes reach PostgreSQL.
#[derive(Clone)]
pub(super) struct Database {
    /// Without the password, since others can read a command line.
    pub(super) url: String,
    pub(super) password: String,
}

/// One of many nodes.
pub(super) struct Member<'a> {
    /// Where the cluster's NATS is.
    pub(super) nats: &'a str,
    /// Its name.
    pub(super) node: &'a str,
    /// Where the graph is, if it is not in the node's own store.
    pub(super) database: Option<&'a Database>,
}

/// A server at work. Dropping it kills it.
pub(super) struct ServerProcess {
    child: OwnChild,
    addresses: Addresses,
    url: ServerUrl,
    secured: Option<Secured>,
}

/// Where TLS is spoken.
pub(super) struct Secured {
    port: u16,
    pub(super) certificate: Certificate,
}

impl Secured {
    /// What URLs begin with.
    pub(super) fn base(&self) -> String {
        format!("https://{}:{}", certificate::NAME, self.port)
    }
}

/// What the server says of itself when clients can connect.
#[derive(Debug, Deserialize)]
struct Addresses {
    listen: SocketAddr,
    tls_listen: Option<SocketAddr>,
    api: SocketAddr,
}

impl ServerProcess {
    /// Starts it, and waits until clients can connect.
    pub(super) async fn start(options: ServerOptions<'_>) -> Result<ServerProcess> {
        let program = env::current_exe().context(
            "cannot read /proc/self/exe, this program's file; see that /proc is mounted",
        )?;
        let mut command = Command::new(&program);
        // Whatever the environment says has been heard by the demo and is passed on.
        for (name, _) in env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        command.args(["serve", "--json", "--until-eof"]);
        command.arg(format!("--grace={}", GRACE.as_secs()));
        command.arg(format!("--log-level={}", log_level()));
        // It may hold a token, and others on this machine can see command lines.
        command.env("ENCKE_DEMO_PAGE", serde_json::to_string(&options.demo)?);
        command.arg(format!("--listen={}", options.listen));
        command.arg(format!("--api={}", options.api));
        command.arg("--data").arg(options.data).args(options.limits.options());
        if let Some(Member { nats, node, database }) = options.member {
            command.arg("--cluster=demo");
            command.arg(format!("--nats={nats}")).arg(format!("--node={node}"));
            if let Some(Database { url, password }) = database {
                command.arg(format!("--postgres={url}")).env("PGPASSWORD", password);
            }
        }
        match options.token_key {
            Some(path) => command.arg("--token-key").arg(path).args(options.token_claims.options()),
            // The users are made up, and who gives another address than loopback means it.
            None => command.arg("--open"),
        };
        if let Some(Certificate { file, key }) = &options.certificate {
            let address = SocketAddr::new(options.listen.ip(), 0);
            command.arg(format!("--tls-listen={address}"));
            command.arg("--tls-cert").arg(file).arg("--tls-key").arg(key);
        }
        let mut child = OwnChild::spawn(command.stdout(Stdio::piped()), AtDrop::Kill)
            .with_context(|| format!("cannot start {} as the server", program.display()))?;
        let output = child.take_output().expect("its output is piped");
        let output = ChildStdout::from_std(output).context("cannot read what the server prints")?;
        let mut lines = BufReader::new(output).lines();
        let Some(line) = lines.next_line().await.context("cannot read what the server prints")?
        else {
            let status = child::ended(&mut child).await.with_context(unwatched)?;
            bail!("the server did not start ({status}); its messages are above");
        };
        let addresses: Addresses = serde_json::from_str(&line).with_context(|| {
            let program = program.display();
            format!("{program} is not the server: it printed no addresses but {line:?}")
        })?;
        let url: ServerUrl = addresses.api.to_string().parse().map_err(anyhow::Error::msg)?;
        let port = addresses.tls_listen.map(|address| address.port());
        let secured = options.certificate.zip(port);
        let secured = secured.map(|(certificate, port)| Secured { port, certificate });
        Ok(ServerProcess { child, addresses, url, secured })
    }

    /// Where clients connect.
    pub(super) fn listen(&self) -> SocketAddr {
        self.addresses.listen
    }

    /// Where they connect by TLS, if they may.
    pub(super) fn secured(&self) -> Option<&Secured> {
        self.secured.as_ref()
    }

    /// Where the API is.
    pub(super) fn api(&self) -> SocketAddr {
        self.addresses.api
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// # Errors
    /// It has ended, though nobody asked it to.
    pub(super) fn expect_alive(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(unwatched)? {
            None => Ok(()),
            Some(status) => Err(ended_early(status)),
        }
    }

    /// Its figures at this moment.
    pub(super) async fn figures(&mut self) -> Result<Reading> {
        let ask = async { ApiClient::connect(&self.url).await?.get("/stats").await };
        let figures = match timeout(ANSWER_TIMEOUT, ask).await {
            Ok(figures) => figures,
            Err(_) => Err(anyhow!(
                "the server has not answered for {ANSWER_TIMEOUT:?}; its messages are above"
            )),
        };
        if figures.is_err() {
            // Then that is what to tell: its end may be seen a moment after its silence.
            if let Ok(status) = timeout(Duration::from_secs(1), child::ended(&mut self.child)).await
            {
                return Err(ended_early(status.with_context(unwatched)?));
            }
        }
        figures
    }

    /// Where the API is, for a client.
    pub(super) fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Ends it at once, as a crash does, and waits for that.
    pub(super) async fn kill(mut self) -> Result<()> {
        let pid = self.pid();
        self.child.kill().with_context(|| {
            format!(
                "cannot kill the server, process {pid}; see that no filter of system calls \
                 (seccomp) forbids kill"
            )
        })?;
        child::ended(&mut self.child).await.with_context(unwatched)?;
        Ok(())
    }

    /// Ends it in order, and waits for that.
    pub(super) async fn stop(mut self) -> Result<()> {
        let Some(status) = child::end(&mut self.child, END_TIMEOUT).await? else {
            let seconds = END_TIMEOUT.as_secs();
            bail!("the server did not end within {seconds} s and was killed; look at its messages");
        };
        match status.code() {
            Some(0) => Ok(()),
            _ => bail!("the server failed; its messages are above"),
        }
    }
}

fn unwatched() -> String {
    child::cannot("watch the server")
}

fn ended_early(status: ExitStatus) -> anyhow::Error {
    anyhow!("the server ended too early ({status}); its messages are above")
}

fn is_setting(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    // A demo is no service whose traces anybody collects.
    name.starts_with(b"ENCKE_") || name.starts_with(b"OTEL_")
}

/// The demo's, but that the server's ordinary start and end are no news here.
fn log_level() -> String {
    let level = LevelFilter::current();
    if level == LevelFilter::INFO { LevelFilter::WARN } else { level }.to_string()
}
