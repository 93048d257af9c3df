//! The command line, and the program's life: start, say where, wait for the end.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs, io};

use anyhow::{Context, Result};
use clap::Parser;
use proto::request::host_name;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;

use crate::daemon::{Daemon, DaemonConfig};
use crate::demo;
use crate::friends::FriendsArgs;
use crate::lan::{self, LanConfig};

/// Playdar on Encke: answers where a song can be heard, as the answers come.
///
/// It looks into the music of this machine, asks programs and, if told to, the local network and
/// friends, and serves the interface of the old daemons to pages and players. Pages need a token
/// that you grant; programs of this machine need none; other machines can only play what they were
/// told of.
#[derive(Debug, Parser)]
#[command(name = "playdar", version, after_help = EXAMPLES)]
struct Cli {
    /// Show it at work, with songs that it makes itself in a temporary folder.
    #[arg(long, env = "PLAYDAR_DEMO")]
    demo: bool,
    /// Look for music in this folder and those in it. May be repeated.
    #[arg(long, value_name = "DIR", env = "PLAYDAR_MUSIC", value_delimiter = ',')]
    music: Vec<PathBuf>,
    /// Serve the HTTP interface here. With an address that others reach, they can play songs, and
    /// nothing else.
    #[arg(long, value_name = "ADDR", env = "PLAYDAR_LISTEN", default_value = "127.0.0.1:60210")]
    listen: SocketAddr,
    /// Serve the streams here, on loopback; port 0 takes a free one, which `stat` names. Whoever
    /// reaches it hears what you listen to, at `/stream/listening`.
    #[arg(long, value_name = "ADDR", env = "PLAYDAR_STREAMS", default_value = "127.0.0.1:0")]
    streams: SocketAddr,
    /// Keep the library and the tokens in this directory [default: ~/.local/share/playdar].
    #[arg(long, value_name = "DIR", env = "PLAYDAR_DATA")]
    data: Option<PathBuf>,
    /// Let pages and players call the daemon by this host's name too. May be repeated.
    #[arg(long, value_name = "NAME", env = "PLAYDAR_HOST", value_delimiter = ',')]
    #[arg(value_parser = parse_host)]
    host: Vec<String>,
    /// What results say they come from [default: the machine's name].
    #[arg(long, value_name = "NAME", env = "PLAYDAR_NAME", value_parser = parse_name)]
    name: Option<String>,
    /// Ask this program too, by the protocol of script resolvers. May be repeated.
    #[arg(long, value_name = "PATH", env = "PLAYDAR_SCRIPT", value_delimiter = ',')]
    script: Vec<PathBuf>,
    /// Ask the local network too, by multicast, and answer it. It tells everybody there what is
    /// looked for, so it is off unless it is asked for.
    #[arg(long, env = "PLAYDAR_LAN")]
    lan: bool,
    /// This machine's address in the local network [default: where the system would send].
    #[arg(long, value_name = "IP", env = "PLAYDAR_LAN_INTERFACE")]
    lan_interface: Option<Ipv4Addr>,
    #[command(flatten)]
    friends: FriendsArgs,
    /// Log from this level on, to standard error: off, error, warn, info, debug.
    #[arg(long, value_name = "LEVEL", env = "PLAYDAR_LOG_LEVEL", default_value = "info")]
    log_level: LevelFilter,
}

const EXAMPLES: &str = "\
Examples:
  playdar --demo                             hear it at once
  playdar --music ~/Music                    serve your music
  playdar --music ~/Music --lan --listen 0.0.0.0:60210
                                             and let the local network play it
  curl '127.0.0.1:60210/api/?method=stat'

Exit codes: 0 done, 1 failed, 2 wrong usage.";

fn parse_host(text: &str) -> Result<String, String> {
    host_name(text).ok_or_else(|| "give a host's name without a port, as music.example".to_owned())
}

fn parse_name(text: &str) -> Result<String, String> {
    let fits = !text.trim().is_empty() && text.len() <= 64 && !text.chars().any(char::is_control);
    if fits { Ok(text.trim().to_owned()) } else { Err("give 1 to 64 bytes of plain text".into()) }
}

/// Runs the command.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt().with_max_level(cli.log_level).with_writer(io::stderr).init();
    let outcome = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the threads; check the limit on them (ulimit -u)")
        .and_then(|runtime| runtime.block_on(serve(cli)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where standard error is gone nobody can be told.
            let _ = writeln!(io::stderr(), "playdar: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(cli: Cli) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    // Removed when it is dropped, at the end.
    let temporary = cli.demo.then(TempDir::new).transpose().context("no temporary folder")?;
    let config = config(cli, temporary.as_ref()).await?;
    let is_demo = temporary.is_some();
    let daemon = Daemon::start(config).await?;
    if is_demo {
        // So that what is printed can be tried at once.
        daemon.scanned().wait_for(Option::is_some).await.context("the songs cannot be read")?;
    }
    announce(&daemon, is_demo)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    daemon.stop().await
}

async fn config(cli: Cli, temporary: Option<&TempDir>) -> Result<DaemonConfig> {
    let (mut music, mut examples) = (cli.music, Value::Null);
    let data = match (cli.data, temporary) {
        (Some(data), _) => data,
        (None, Some(dir)) => dir.path().join("data"),
        (None, None) => default_data()?,
    };
    if let Some(dir) = temporary {
        let folder = dir.path().join("songs");
        music.push(folder.clone());
        examples = tokio::task::spawn_blocking(move || demo::make_songs(&folder)).await??;
    }
    let name = cli.name.unwrap_or_else(machine_name);
    let lan = cli.lan.then(|| LanConfig {
        group: lan::GROUP,
        interface: cli.lan_interface,
        name: name.clone(),
        http_port: cli.listen.port(),
    });
    let friends = cli.friends.config(&name)?;
    let (listen, streams, hosts, scripts) = (cli.listen, cli.streams, cli.host, cli.script);
    Ok(DaemonConfig { listen, streams, data, music, hosts, name, scripts, lan, friends, examples })
}

fn announce(daemon: &Daemon, is_demo: bool) -> Result<()> {
    let (listen, streams) = (daemon.listen(), daemon.streams());
    let mut text = format!(
        "page     http://{listen}/\n\
         API      http://{listen}/api/?method=stat\n\
         streams  {streams}/stream/query:QID\n"
    );
    if is_demo {
        let (artist, track) = demo::FIRST;
        let query = format!("method=resolve&artist={artist}&track={track}").replace(' ', "%20");
        text += &format!("try      curl '{listen}/api/?{query}'\n");
    }
    text += "ready    Ctrl-C ends\n";
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the addresses")
}

fn default_data() -> Result<PathBuf> {
    let of_user = env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let of_home = || env::home_dir().map(|home| home.join(".local/share"));
    let dir = of_user.or_else(of_home).context("there is no home directory: give --data DIR")?;
    Ok(dir.join("playdar"))
}

fn machine_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    parse_name(&name).unwrap_or_else(|_| "playdar".to_owned())
}
