//! What a server says when clients can connect: its addresses, and what to do next.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::Result;
use auth::keys::KeyFile;
use serde_json::json;
use server::Server;

use super::ServeArgs;
use crate::cli::tokens::ToListen;
use crate::console::say;

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
    let api = of(api, tls_api).unwrap_or_default();
    say(format!("look     {api}/   the dashboard, in a browser"))?;
    let streams = of(listen, tls_listen).unwrap_or_default();
    let listen = format!("encke listen bob --url {streams}");
    say(match args.tokens.to_listen() {
        ToListen::Nothing => format!("next     {listen}"),
        ToListen::Signing(options) => {
            let options: String =
                options.iter().map(|option| format!(" {}", quoted(option))).collect();
            format!("next     {listen}{options}")
        }
        ToListen::Token => {
            "next     streams ask for a token of your issuer: ENCKE_TOKEN, or --token @FILE".into()
        }
    })?;
    say(match asks_for_keys(&args.data) {
        false => format!("         encke send bob hello --api {api}"),
        true => {
            let data = quoted(&args.data.display().to_string()).into_owned();
            format!(
                "         encke key new --scope send --data {data}   a key, which ENCKE_KEY shows \
                 to {api}"
            )
        }
    })?;
    Ok(())
}

/// Whether the API asks for keys: there are some. What is wrong with their file is told elsewhere.
fn asks_for_keys(data: &Path) -> bool {
    KeyFile::in_dir(data).read().is_ok_and(|keys| keys.is_some_and(|keys| !keys.is_empty()))
}

/// `text` as a shell takes it for one word (POSIX, Shell Command Language, section 2.2.2).
fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_is_quoted_where_a_shell_would_cut_it() {
        for (text, word) in [
            ("/var/lib/encke-data", "/var/lib/encke-data"),
            ("--token-issuer=https://a.b/", "--token-issuer=https://a.b/"),
            ("my data", "'my data'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }
}
