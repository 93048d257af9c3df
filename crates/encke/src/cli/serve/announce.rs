//! What a server says when clients can connect: its addresses, and what to do next.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::Result;
use auth::keys::KeyFile;
use serde_json::json;
use server::Server;

use super::ServeArgs;
use crate::cli::tokens::ToListen;
use crate::console::{say, shell_word};

/// Prints where it is reached.
pub(super) fn announce(server: &Server, args: &ServeArgs) -> Result<()> {
    let (tls_listen, api, tls_api) = (server.tls_listen(), server.api(), server.tls_api());
    let listen = Some(server.listen()).filter(|listen| Some(*listen) != tls_listen);
    if args.json {
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
    let streams = of(listen, tls_listen).unwrap_or_default();
    for line in other_protocols(args, &streams) {
        say(line)?;
    }
    let api = of(api, tls_api).unwrap_or_default();
    say(format!("look     {api}/   the dashboard, in a browser"))?;
    let listen = format!("encke listen bob --url {streams}");
    say(match args.tokens.to_listen() {
        ToListen::Nothing => format!("next     {listen}"),
        ToListen::Signing(options) => {
            let options: String =
                options.iter().map(|option| format!(" {}", shell_word(option))).collect();
            format!("next     {listen}{options}")
        }
        ToListen::Token => {
            "next     streams ask for a token of your issuer: ENCKE_TOKEN, or --token @FILE".into()
        }
    })?;
    say(match asks_for_keys(&args.data) {
        false => format!("         encke send bob hello --api {api}"),
        true => {
            let data = shell_word(&args.data.display().to_string()).into_owned();
            // It is a line for a shell as the others are: it makes the key that it shows.
            format!(
                "         ENCKE_KEY=$(encke key new --scope send --data {data}) \
                 encke send bob hello --api {api}"
            )
        }
    })?;
    Ok(())
}

/// Where the other protocols are spoken that were switched on, at the port of `streams`.
fn other_protocols(args: &ServeArgs, streams: &str) -> Vec<String> {
    let apps = streams.replacen("http", "ws", 1);
    // What is wrong with their options has ended the start.
    let is_hub = matches!(args.mercure.config(), Ok(Some(_)));
    let has_durable = matches!(args.streams.config(), Ok(Some(_)));
    [
        (args.pusher.config().is_some(), format!("pusher   {apps}/app/{{key}}")),
        (is_hub, format!("mercure  {streams}/.well-known/mercure")),
        (has_durable, format!("durable  {streams}/v1/stream/{{path}}")),
    ]
    .into_iter()
    .filter_map(|(is_on, line)| is_on.then_some(line))
    .collect()
}

/// Whether the API asks for keys: there are some. What is wrong with their file is told elsewhere.
fn asks_for_keys(data: &Path) -> bool {
    KeyFile::in_dir(data).read().is_ok_and(|keys| keys.is_some_and(|keys| !keys.is_empty()))
}
