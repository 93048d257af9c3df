//! A hub that somebody else has started, beside which ours is measured in the same run.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use load::{Flood, FloodConfig};
use sys::{clock, process};

use crate::Outcome;
use crate::harness::signed_by;
use crate::hub::{PATH, all_claims, subscribe};

/// What the options say of it.
#[derive(Clone, Default)]
pub(crate) struct ReferenceOptions {
    /// Where its clients listen and publish.
    pub(crate) url: Option<String>,
    /// The file with the secret of its tokens.
    pub(crate) key: Option<String>,
    /// Its process, if its processor time is to be told.
    pub(crate) pid: Option<u32>,
}

/// The hub.
pub(crate) struct Reference {
    url: String,
    pub(crate) address: SocketAddr,
    /// A token that grants all topics.
    pub(crate) token: String,
    pub(crate) pid: Option<u32>,
}

impl ReferenceOptions {
    /// The hub, if one is named.
    pub(crate) fn read(self) -> Outcome<Option<Reference>> {
        let (url, key) = match (self.url, self.key) {
            (None, None) if self.pid.is_none() => return Ok(None),
            (Some(url), Some(key)) => (url, key),
            _ => return Err("--reference and --reference-key go together".into()),
        };
        let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix(PATH));
        let host =
            host.ok_or_else(|| format!("{url} is not of the form http://HOST:PORT{PATH}"))?;
        let address = host.to_socket_addrs()?.next().ok_or_else(|| format!("{host}: nowhere"))?;
        let token = signed_by(fs::read_to_string(key)?.trim_end(), &all_claims());
        Ok(Some(Reference { url, address, token, pid: self.pid }))
    }
}

impl Reference {
    /// Subscribers, by their numbers.
    pub(crate) fn subscribe(&self, query: &str, users: u32) -> Outcome<Flood> {
        let url = format!("{}?{query}", self.url);
        subscribe(FloodConfig { url, users, ..FloodConfig::default() })
    }

    /// Processor time so far; none where its process is not known.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        Ok(self.pid.map(clock::process_cpu_of).transpose()?.unwrap_or_default())
    }
    /// Bytes of its heap and stacks; none where its process is not known.
    pub(crate) fn bytes(&self) -> Outcome<f64> {
        let resident = self.pid.map(process::resident_of).transpose()?;
        Ok(resident.map_or(0.0, |resident| resident.anonymous as f64))
    }
}
