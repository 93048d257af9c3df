//! The pages of Build, and that of the API's examples, followed.

use std::fs;

use serde_json::json;

use super::open;
use super::session::Session;
use crate::harness::{TOKEN_SECRET, in_seconds, signed, wait_for};

/// A secret in `secret`, and a server that lets in with tokens of it alone.
fn serve_with_tokens(session: &mut Session) {
    session.run("openssl rand -base64 48 > secret && chmod 600 secret");
    session.begin("encke serve --token-key secret");
}

#[test]
fn page_on_backends_makes_a_key() {
    let Some((mut session, blocks)) = open("docs/backends.md") else { return };
    session.follow(&blocks[1]);
    let listed = session.run("encke key list --data /var/lib/encke");
    assert!(listed.contains("send"), "{listed}");
}

#[test]
fn page_on_the_api_in_five_languages_shows_what_the_api_answers() {
    let Some((mut session, blocks)) = open("docs/api-examples.md") else { return };
    let shell = blocks.iter().filter(|block| ["sh", "console"].contains(&&*block.kind));
    for block in shell {
        session.follow(block);
    }
    session.hears("encke listen bob", "{\"photo\":789}");
}

#[test]
fn page_on_publishing_shows_a_send_of_a_client() {
    let Some((mut session, blocks)) = open("docs/publish.md") else { return };
    serve_with_tokens(&mut session);
    let token = session.run("encke token new --token-key secret --sub bob --send room:7");
    session.instead("<token>", token.trim());
    session.run("encke token new --token-key secret --sub zoe --ids room:7 > token");
    session.begin("encke listen room:7 --token @token");
    session.follow(&blocks[2]);
    session.hears("encke listen", "Hello");
}

#[test]
fn page_on_the_past_shows_it_on_streams_and_in_pages() {
    let Some((mut session, blocks)) = open("docs/past.md") else { return };
    session.begin("encke serve");
    session.run("encke send room:7 hello");
    session.follow(&blocks[0]);
    session.hears("curl -N", "\"hello\"");
    session.hears("encke listen", "\"hello\"");
    session.follow(&blocks[2]);
    let page = session.run("curl -s http://127.0.0.1:8001/events/room:7");
    assert!(page.contains("\"hello\""), "{page}");
    serve_with_tokens(&mut session);
    session.run("TOKEN=$(encke token new --token-key secret --sub bob --history room:7)");
    session.follow(&blocks[3]);
    let status = "curl -s -o /dev/null -w '%{http_code}' -H \"Authorization: Bearer $TOKEN\" \
                  http://127.0.0.1:8000/events/room:7";
    assert_eq!(session.run(status), "200");
}

#[test]
fn page_on_events_that_stay_keeps_them_copies_them_and_lists_them() {
    let Some((mut session, blocks)) = open("docs/keep.md") else { return };
    let serves = blocks[0].commands();
    let [(first, _), (second, _)] = &serves[..] else { panic!("{serves:?}") };
    session.begin(first);
    session.follow(&blocks[1]);
    session.follow(&blocks[3]);
    let kept = session.run("encke log export --data ./encke-data");
    assert_eq!(kept.matches("order:7").count(), 2, "{kept}");
    session.end_server();
    session.run("cp -r encke-data copy");
    session.instead("COPY", "copy");
    session.follow(&blocks[2]);
    let page = session.run("curl -s http://127.0.0.1:8001/events/order:7");
    assert_eq!(page.matches("paid").count(), 2, "{page}");
    session.begin(second);
}

#[test]
fn page_on_presence_shows_who_comes_and_goes_and_how_a_webhook_is_verified() {
    let Some((mut session, blocks)) = open("docs/presence.md") else { return };
    session.begin("encke serve --presence-grace 0");
    let [(command, shown)] = &blocks[1].commands()[..] else { panic!("one command") };
    session.begin(command);
    let listeners = "curl -s http://127.0.0.1:8001/metrics";
    wait_for("somebody listens to presence", || {
        session.run(listeners).contains("encke_presence_listeners{kind=\"api\"} 1")
    });
    session.begin("encke listen bob");
    session.end("encke listen bob");
    session.hears("curl -N", shown);
    session.follow(&blocks[2]);
    let verify = format!(
        "import os\nseconds, body = '1700000000', b'{{\"events\":[]}}'\n\
         secret, signature = open('secret.txt').read().strip(), os.environ['SIGNATURE']\n{}",
        blocks[4].text
    );
    fs::write(session.folder().join("verify.py"), verify).unwrap();
    let sign = "printf '1700000000.{\"events\":[]}' | \
                openssl dgst -sha256 -hmac \"$(cat secret.txt)\" -r | cut -d' ' -f1";
    session.run(&format!("SIGNATURE=$({sign}) python3 verify.py"));
    assert_ne!(session.attempt("SIGNATURE=0 python3 verify.py").code, "0");
}

#[test]
fn page_on_members_lists_a_user_with_its_info() {
    let Some((mut session, blocks)) = open("docs/members.md") else { return };
    serve_with_tokens(&mut session);
    let token = "encke token new --token-key secret --sub bob --ids room:7";
    session.run(&format!("{token} --info '{{\"name\":\"Bob\"}}' > token"));
    session.begin("encke listen room:7 --token @token");
    wait_for("bob is in the room", || session.run("encke members room:7").contains("bob"));
    session.follow(&blocks[3]);
}

#[test]
fn page_on_durable_streams_writes_one_reads_it_and_repeats() {
    let Some((mut session, blocks)) = open("docs/streams.md") else { return };
    session.follow(&blocks[0]);
    session.follow(&blocks[1]);
    let head = "curl -s -I $url | tr -d '\\r' | sed -n 's/^[Ss]tream-[Nn]ext-[Oo]ffset: //p'";
    let offset = session.run(head);
    assert!(!offset.trim().is_empty());
    session.instead("OFFSET", offset.trim());
    session.follow(&blocks[2]);
    session.hears("curl -N", "world");
    session.follow(&blocks[8]);
    session.hears("curl -N \"127.0.0.1:8000", "world");
    session.run("url=127.0.0.1:8001/v1/stream/run/8");
    session.run("curl -f -X PUT -H 'Content-Type: text/plain' $url");
    session.follow(&blocks[4]);
    session.follow(&blocks[4]);
    assert_eq!(session.run("curl -s $url"), "once");
    session.run("url=127.0.0.1:8001/v1/stream/run/9");
    session.run("curl -f -X PUT -H 'Content-Type: text/plain' $url");
    session.follow(&blocks[3]);
    assert_eq!(session.run("curl -s $url"), "1\n2\n3\n");
    session.run("openssl rand -base64 48 > secret.txt && chmod 600 secret.txt");
    session.follow(&blocks[9]);
}

#[test]
fn page_on_pusher_channels_makes_an_app_and_serves_it() {
    let Some((mut session, blocks)) = open("docs/pusher.md") else { return };
    session.follow(&blocks[0]);
    session.follow(&blocks[1]);
}

#[test]
fn page_on_mercure_starts_a_hub_and_publishes() {
    let Some((mut session, blocks)) = open("docs/mercure.md") else { return };
    session.follow(&blocks[0]);
    // The same form, and one that tokens can be signed with here.
    fs::copy(TOKEN_SECRET, session.folder().join("mercure.key")).unwrap();
    session.follow(&blocks[1]);
    session.begin(
        "curl -N 'http://127.0.0.1:8000/.well-known/mercure?topic=https://example.com/books/\
         %7Bid%7D'",
    );
    let claims = json!({ "mercure": { "publish": ["*"] }, "exp": in_seconds(3600) });
    session.run(&format!("TOKEN={}", signed(&claims)));
    session.follow(&blocks[3]);
    session.hears("curl -N", "data: {\"status\":\"sold\"}");
}

#[test]
fn page_of_the_browser_client_sends_by_curl() {
    let Some((mut session, blocks)) = open("clients/js/README.md") else { return };
    session.begin("encke serve");
    session.begin("encke listen bob");
    session.follow(&blocks[1]);
    session.hears("encke listen bob", "\"hello\"");
}

#[test]
fn page_on_ketama_looks_a_key_up() {
    let Some((mut session, blocks)) = open("docs/ketama.md") else { return };
    fs::write(session.folder().join("servers.txt"), &blocks[0].text).unwrap();
    session.follow(&blocks[2]);
}
