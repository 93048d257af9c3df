//! What a server says when clients can connect: its addresses, and what to do next.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use serde_json::json;
use server::Server;

use crate::console::say;

/// Prints where it is reached.
pub(super) fn announce(server: &Server, json: bool) -> Result<()> {
    let (tls_listen, api, tls_api) = (server.tls_listen(), server.api(), server.tls_api());
    let listen = Some(server.listen()).filter(|listen| Some(*listen) != tls_listen);
    if json {
        let line = json!({
            "listen": listen, "tls_listen": tls_listen, "api": api, "tls_api": tls_api,
            "pid": std::process::id(),
        });
        return Ok(say(line.to_string())?);
    }
    for (scheme, address) in [("http", listen), ("https", tls_listen)] {
        if let Some(address) = address {
            say(format!("streams  {scheme}://{address}/stream/{{id}}"))?;
        }
    }
    for (scheme, address) in [("http", api), ("https", tls_api)] {
        if let Some(address) = address {
            say(format!("API      {scheme}://{address}"))?;
        }
    }
    let here = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()))
        }
        _ => address,
    };
    let of = |plain: Option<SocketAddr>, tls: Option<SocketAddr>| {
        let plain = plain.map(|address| format!("http://{}", here(address)));
        plain.or_else(|| tls.map(|address| format!("https://{}", here(address))))
    };
    let api = of(api, tls_api).unwrap_or_default();
    say(format!("look     {api}/   the dashboard, in a browser"))?;
    let streams = of(listen, tls_listen).unwrap_or_default();
    say(format!("next     encke listen bob --url {streams}"))?;
    Ok(say(format!("         encke send bob hello --api {api}"))?)
}
