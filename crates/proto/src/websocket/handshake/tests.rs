//! The handshake against the example of the RFC.

use super::*;
use crate::resume::end_head;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn upgrade() -> Upgrade<'static> {
    let (key, version) = (Some(KEY), Some("13"));
    Upgrade { in_connection: true, key, version, ..Upgrade::default() }
}

fn head(upgrade: &Upgrade<'_>) -> String {
    let mut out = Vec::new();
    push_head(&agree(upgrade, true).unwrap(), &mut out);
    end_head(&mut out, None, None);
    String::from_utf8(out).unwrap()
}

/// The example of section 1.3.
#[test]
fn key_of_the_rfc_gets_its_answer() {
    assert_eq!(
        head(&upgrade()),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    );
}

#[test]
fn other_version_or_none_is_426() {
    for version in [None, Some(""), Some("8"), Some("013"), Some("13, 8")] {
        let problem = agree(&Upgrade { version, ..upgrade() }, true).unwrap_err();
        assert_eq!(problem.status, 426, "{version:?}");
    }
}

#[test]
fn connection_without_upgrade_is_400() {
    let problem = agree(&Upgrade { in_connection: false, ..upgrade() }, true).unwrap_err();
    assert_eq!(problem.status, 400);
}

#[test]
fn key_of_another_length_or_alphabet_is_400() {
    let long = "dGhlIHNhbXBsZSBub25jZSE=";
    for key in [None, Some(""), Some("x"), Some(long), Some("dGhlIHNhbXBsZSBub25j!Q==")] {
        let problem = agree(&Upgrade { key, ..upgrade() }, true).unwrap_err();
        assert_eq!(problem.status, 400, "{key:?}");
    }
}

#[test]
fn our_subprotocol_is_chosen_wherever_it_stands() {
    let asking = |list: &'static str| Upgrade { protocols: Some(list.into()), ..upgrade() };
    let chosen = |list| agree(&asking(list), true).map(|agreement| agreement.protocol);
    assert_eq!(agree(&upgrade(), true).map(|agreement| agreement.protocol), Ok(None));
    assert_eq!(chosen("encke"), Ok(Some("encke")));
    assert_eq!(chosen("chat, encke ,superchat"), Ok(Some("encke")));
    assert_eq!(chosen("chat"), Ok(None));
    assert_eq!(chosen("encke.bearer.a.b.c, encke"), Ok(Some("encke")));
    for list in ["", ",", "a b", "encke,", "ü", "encke.bearer.a.b.c"] {
        assert_eq!(chosen(list).unwrap_err().status, 400, "{list}");
    }
    let head = head(&asking("encke"));
    assert!(head.contains("\r\nSec-WebSocket-Protocol: encke\r\n"), "{head}");
}

#[test]
fn compression_is_agreed_on_when_both_want_it() {
    let extensions = Some("permessage-deflate; client_max_window_bits".into());
    let asking = Upgrade { extensions, ..upgrade() };
    assert!(head(&asking).ends_with(
        "\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
         client_no_context_takeover\r\n\r\n"
    ));
    let refused = agree(&asking, false).unwrap();
    assert!(!refused.deflate);
    let mut out = Vec::new();
    push_head(&refused, &mut out);
    assert!(!String::from_utf8(out).unwrap().contains("Extensions"));
    let broken = Upgrade { extensions: Some("permessage-deflate; =".into()), ..upgrade() };
    assert_eq!(agree(&broken, false).unwrap_err().status, 400);
}
