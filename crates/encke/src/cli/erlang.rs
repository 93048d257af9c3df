//! The options of `encke serve` that make it a node among Erlang nodes.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use erlang::{NODES_MAX, NodeConfig, SETUP_TIMEOUT, epmd, is_node_name};
use server::ErlangConfig;

use crate::units::{parse_bytes, parse_ip, parse_seconds, whole};

/// The least queue that is of use: some thousand messages.
const QUEUE_BYTES_MIN: usize = 64 * 1024;

/// The variable by which Erlang's own programs are told where epmd listens.
const EPMD_PORT: &str = "ERL_EPMD_PORT";

/// The longest cookie: an atom of Erlang's.
const COOKIE_CHARS_MAX: usize = 255;

/// Encke as a node among Erlang nodes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Erlang")]
pub(crate) struct ErlangArgs {
    /// Be a hidden Erlang node of this name.
    ///
    /// A host with a dot makes it a long name, as with erl -name.
    #[arg(long, value_name = "NAME@HOST", value_parser = parse_node)]
    #[arg(requires = "erlang_cookie_file")]
    erlang_node: Option<String>,
    /// File with the cookie of the nodes, such as ~/.erlang.cookie.
    #[arg(long, value_name = "FILE", requires = "erlang_node")]
    erlang_cookie_file: Option<PathBuf>,
    /// Connect to this node, and again whenever that connection ends.
    ///
    /// Repeat the option, or give a list with commas.
    #[arg(long, value_name = "NAME@HOST", value_parser = parse_node, value_delimiter = ',')]
    #[arg(requires = "erlang_node")]
    erlang_connect: Vec<String>,
    /// Address where nodes connect.
    ///
    /// Default: the address of HOST.
    #[arg(long, value_name = "IP", requires = "erlang_node")]
    #[arg(value_parser = parse_ip)]
    erlang_listen: Option<IpAddr>,
    /// Port where nodes connect; 0 takes a free one, which epmd tells them.
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "erlang_node")]
    #[arg(value_parser = whole(0..=u16::MAX))]
    erlang_port: u16,
    /// Silence after which a node counts as gone, in seconds, as Erlang's net_ticktime.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_tick_time)]
    #[arg(requires = "erlang_node")]
    erlang_ticktime: Duration,
    /// Bytes that may wait for each node, in either direction.
    ///
    /// Past it, what the node sends is refused, and a node that does not take what it is sent is
    /// disconnected.
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = parse_queue)]
    #[arg(requires = "erlang_node")]
    erlang_queue: usize,
}

impl ErlangArgs {
    /// The node's settings; `None` unless it is to be one.
    pub(crate) fn config(self) -> Result<Option<ErlangConfig>> {
        let (Some(name), Some(file)) = (self.erlang_node, self.erlang_cookie_file) else {
            return Ok(None);
        };
        let node = NodeConfig {
            name: name.into(),
            cookie: read_cookie(&file)?,
            listen: self.erlang_listen,
            port: self.erlang_port,
            epmd: epmd_port(std::env::var(EPMD_PORT).ok())?,
            tick_time: self.erlang_ticktime,
            setup_timeout: SETUP_TIMEOUT,
            queue_bytes_max: self.erlang_queue,
            nodes_max: NODES_MAX,
        };
        Ok(Some(ErlangConfig { node, connect: self.erlang_connect }))
    }
}

fn read_cookie(file: &Path) -> Result<Box<str>> {
    let text = fs::read_to_string(file);
    let makes_it = match &text {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            " (Erlang makes ~/.erlang.cookie when a node with a name first starts)"
        }
        _ => "",
    };
    let text = text.with_context(|| {
        let file = file.display();
        format!("cannot read the cookie in {file}; check --erlang-cookie-file{makes_it}")
    })?;
    // Erlang's own reader takes the first line, without the blanks around it.
    let cookie = text.lines().next().unwrap_or_default().trim();
    if cookie.is_empty() {
        bail!("{} holds no cookie: write it into the first line, which is empty", file.display());
    }
    if cookie.chars().count() > COOKIE_CHARS_MAX {
        bail!(
            "{} holds no cookie: its first line has more than {COOKIE_CHARS_MAX} characters, so \
             shorten it",
            file.display()
        );
    }
    Ok(cookie.into())
}

fn epmd_port(variable: Option<String>) -> Result<u16> {
    let Some(text) = variable else { return Ok(epmd::PORT) };
    text.parse().map_err(|_| anyhow!("{EPMD_PORT} is {text}: write a port, from 0 to 65535"))
}

fn parse_node(text: &str) -> Result<String, String> {
    if is_node_name(text) {
        return Ok(text.to_owned());
    }
    Err("write a node's whole name, such as encke@127.0.0.1".into())
}

fn parse_tick_time(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if time < Duration::from_secs(1) {
        return Err("write at least 1 s: a node that is busy must have time to tick".into());
    }
    Ok(time)
}

fn parse_queue(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if bytes < QUEUE_BYTES_MIN {
        return Err(format!("write at least {QUEUE_BYTES_MIN} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn cookie(content: &str) -> Result<Box<str>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        read_cookie(file.path())
    }

    #[test]
    fn cookie_is_the_first_line_without_blanks() {
        for text in ["secret", "secret\n", "  secret \r\nmore"] {
            assert_eq!(&*cookie(text).unwrap(), "secret", "{text:?}");
        }
        for text in ["", "\nsecret", " \n", &"x".repeat(256)] {
            assert!(cookie(text).unwrap_err().to_string().contains("holds no cookie"), "{text:?}");
        }
        let missing = read_cookie(Path::new("/nowhere/cookie")).unwrap_err();
        assert!(missing.to_string().contains("--erlang-cookie-file"), "{missing}");
    }

    #[test]
    fn values_that_make_no_node_are_refused() {
        assert!(parse_node("encke").is_err() && parse_node("encke@127.0.0.1").is_ok());
        assert!(parse_tick_time("0.5").is_err() && parse_queue("1KiB").is_err());
        assert_eq!(epmd_port(None).unwrap(), 4369);
        assert_eq!(epmd_port(Some("4400".into())).unwrap(), 4400);
        assert!(epmd_port(Some("x".into())).is_err());
    }
}
