//! What the server is called, and whose pages may connect: `--public-host`, `--api-host`,
//! `--allow-origin`, and the names in which it is told its addresses.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use clap::Args;
use engine::Origins;
use proto::request::{Hosts, host_name, name_of, origin};
use server::PublicUrl;

/// The names and origins that a server is told.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NameArgs {
    /// Let browser pages of this origin connect; `*` lets all.
    ///
    /// The server's own pages may always connect. Repeat the option, or give a list with commas.
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin, value_delimiter = ',')]
    allow_origin: Vec<String>,
    /// Name by which clients call the public port; `*` is any.
    ///
    /// Addresses and localhost always work. Requests for other names are refused, because a page
    /// can make its own name lead here. Repeat the option, or give a list with commas.
    #[arg(long, value_name = "NAME", value_parser = parse_any_host, value_delimiter = ',')]
    public_host: Vec<String>,
    /// Name by which programs call the API port.
    ///
    /// Addresses and localhost always work. Repeat the option, or give a list with commas.
    #[arg(long, value_name = "NAME", value_parser = parse_host, value_delimiter = ',')]
    api_host: Vec<String>,
}

impl NameArgs {
    /// The options of `encke serve` that say the same.
    pub(crate) fn options(&self) -> Vec<String> {
        let NameArgs { allow_origin, public_host, api_host } = self;
        let lists =
            [("allow-origin", allow_origin), ("public-host", public_host), ("api-host", api_host)];
        let options = lists
            .into_iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!("--{name}={value}")));
        options.collect()
    }

    /// Whose pages may connect to the public port, and what that is called: by its own names, by
    /// those of the API, since the API's page calls it so, and by those of the pages that may.
    pub(crate) fn origins(
        &self,
        listened: &[&ListenAddress],
        public_url: Option<&PublicUrl>,
    ) -> Origins {
        let public_origin = public_url.and_then(|url| origin(&url.origin()));
        let allowed: Vec<String> = self.allow_origin.iter().cloned().chain(public_origin).collect();
        let pages = allowed.iter().filter_map(|origin| name_of(origin.split_once("://")?.1));
        let own = self.public_host.iter().chain(&self.api_host).cloned();
        let listened = listened.iter().filter_map(|address| address.name.clone());
        let hosts = Hosts::new(own.chain(listened).chain(pages).collect());
        Origins::new(allowed, hosts)
    }

    /// What the API is called.
    pub(crate) fn api_hosts(&self, apis: &[&ListenAddress]) -> Hosts {
        let listened = apis.iter().filter_map(|api| api.name.as_ref());
        Hosts::new(self.api_host.iter().chain(listened).cloned().collect())
    }
}

/// Where to listen, and the name in which that was said, if it was one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ListenAddress {
    pub(crate) address: SocketAddr,
    name: Option<String>,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let address = parse_address(text)?;
        Ok(ListenAddress { address, name: name_of(without_scheme(text)) })
    }
}

/// Where to listen, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Port(pub(crate) Option<ListenAddress>);

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        match text {
            "none" => Ok(Port(None)),
            text => Ok(Port(Some(text.parse()?))),
        }
    }
}

impl Port {
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(|listen| listen.address)
    }
}

/// Reads `127.0.0.1:8000`, `[::1]:8000` or `localhost:8000`.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let hint = "write an address and a port, such as 127.0.0.1:8000";
    let resolved = without_scheme(text).to_socket_addrs();
    let resolved = resolved.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => hint.to_owned(),
        _ => format!("{error}; {hint}"),
    });
    resolved?.next().ok_or_else(|| hint.to_owned())
}

/// `ENCKE_API` is also what clients are told, and they write `http://` or `https://`
/// before it.
fn without_scheme(text: &str) -> &str {
    text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or(text)
}

fn parse_origin(text: &str) -> Result<String, String> {
    let read = if text == "*" { Some(text.to_owned()) } else { origin(text) };
    read.ok_or_else(|| {
        "write an origin as browsers do, scheme://host or scheme://host:port without a path, such \
         as https://example.org (other than ASCII as xn--…), or * for all"
            .into()
    })
}

fn parse_any_host(text: &str) -> Result<String, String> {
    if text == "*" { Ok(text.to_owned()) } else { parse_host(text) }
}

fn parse_host(text: &str) -> Result<String, String> {
    host_name(text).ok_or_else(|| {
        "write a name alone, without a scheme, a port or a path, such as push.example.org (other \
         than ASCII as xn--…); addresses need not be named"
            .into()
    })
}

#[cfg(test)]
mod tests;
