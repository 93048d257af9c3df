//! What a server cannot take over from another one is told before anything moves.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use engine::workers::fair_capacity;

use super::messages::Facts;
use crate::ports::ApiAddresses;
use crate::{ServeConfig, StreamAccess};

/// Where the server that takes over is reached: where the one before is, if that is what is wanted.
/// An error says in a sentence why it cannot take over what `facts` tell, with so many descriptors
/// to each of its workers.
pub(crate) fn check(facts: &Facts, config: &ServeConfig, descriptors: u64) -> Result<ApiAddresses> {
    if config.cluster.is_some() {
        bail!(
            "the new settings make this a node of a cluster (--nats): nodes are not upgraded in \
             place; end this one and start the new one, its clients go to the others"
        );
    }
    if config.demo.is_some() {
        bail!("encke demo is not upgraded in place: end it and start it anew");
    }
    same_port("--listen", config.engine.listen, facts.listen)?;
    same_port("--tls-listen", config.tls_listen, facts.tls_listen)?;
    same_port("--api", config.api, facts.api)?;
    same_port("--tls-api", config.tls_api, facts.tls_api)?;
    let has_tokens = match &config.access {
        StreamAccess::Tokens(_) => true,
        StreamAccess::Open | StreamAccess::Unsaid => false,
    };
    match (facts.has_tokens, has_tokens) {
        (true, false) => bail!(
            "streams need tokens now, and by the new settings they would need none, so that nobody \
             would end them when their tokens end: give --token-key or --token-jwks, or restart \
             the server"
        ),
        (false, true) => bail!(
            "streams need no tokens now, and by the new settings they would need some, which those \
             that are open have not shown: restart the server"
        ),
        _ => {}
    }
    places(facts, config, descriptors)?;
    let is = config.engine.backlog_bytes_max;
    if is < facts.backlog_bytes_max {
        bail!(
            "--max-backlog would be {is} bytes and is {} now: streams for which more waits would \
             be closed; raise it, or restart the server",
            facts.backlog_bytes_max
        );
    }
    let is = config.engine.buffered_bytes_max as u64;
    if is < facts.buffered_bytes {
        bail!(
            "--max-buffered would be {is} bytes, and {} are kept for clients now: raise it",
            facts.buffered_bytes
        );
    }
    Ok(ApiAddresses { plain: facts.api, tls: facts.tls_api })
}

/// Whether all connections have places.
fn places(facts: &Facts, config: &ServeConfig, descriptors: u64) -> Result<()> {
    let (connections, most) = (facts.connections, config.engine.connections_max as u64);
    if most < connections {
        bail!(
            "there are {connections} connections, and --max-connections would be {most}: raise \
             it, or wait until there are fewer"
        );
    }
    let workers = config.engine.workers.max(1) as u64;
    let room = workers.saturating_mul(fair_capacity(descriptors));
    if room < connections {
        bail!(
            "there are {connections} connections, and {workers} workers with {descriptors} \
             descriptors each have places for about {room}: raise --workers, or the limit \
             (ulimit -n)"
        );
    }
    Ok(())
}

/// Whether a port stays what it is. Port 0 is any.
fn same_port(option: &str, wanted: Option<SocketAddr>, is: Option<SocketAddr>) -> Result<()> {
    let text = |address: Option<SocketAddr>| match address {
        Some(address) => address.to_string(),
        None => "none".to_owned(),
    };
    let same = match (wanted, is) {
        (Some(wanted), Some(is)) => {
            wanted.ip() == is.ip() && [0, is.port()].contains(&wanted.port())
        }
        (wanted, is) => wanted == is,
    };
    if !same {
        bail!(
            "{option} would be {} and is {} now: an upgrade moves streams to no other port; leave \
             it as it is, or restart the server",
            text(wanted),
            text(is)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::config;

    fn facts() -> Facts {
        Facts {
            listen: "127.0.0.1:8000".parse().ok(),
            api: "127.0.0.1:8001".parse().ok(),
            connections: 100,
            backlog_bytes_max: 65_536,
            ..Facts::default()
        }
    }

    fn refused(facts: &Facts, change: impl FnOnce(&mut ServeConfig)) -> String {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        change(&mut config);
        check(facts, &config, 1_000).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_taken_is_told_in_a_sentence() {
        assert_eq!(refused(&facts(), |_| {}), "", "port 0 is any");
        let few = refused(&facts(), |config| config.engine.connections_max = 99);
        assert!(few.contains("100 connections") && few.contains("--max-connections"), "{few}");
        let many = Facts { connections: 1_000, ..facts() };
        assert!(refused(&many, |_| {}).contains("--workers"));
        assert_eq!(refused(&many, |config| config.engine.workers = 2), "");
        let elsewhere = "127.0.0.1:9000".parse().ok();
        let moved = refused(&facts(), |config| config.engine.listen = elsewhere);
        assert!(moved.starts_with("--listen would be 127.0.0.1:9000"), "{moved}");
        let gone = refused(&Facts { tls_listen: elsewhere, ..facts() }, |_| {});
        assert!(gone.starts_with("--tls-listen would be none"), "{gone}");
        let tokens = refused(&Facts { has_tokens: true, ..facts() }, |_| {});
        assert!(tokens.contains("--token-key"), "{tokens}");
        let short = refused(&facts(), |config| config.engine.backlog_bytes_max = 4_096);
        assert!(short.contains("--max-backlog"), "{short}");
        let full = Facts { buffered_bytes: u64::MAX, ..facts() };
        assert!(refused(&full, |_| {}).contains("--max-buffered"));
    }
}
