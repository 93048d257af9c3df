//! README and the pages of Start, followed.

use std::fs;

use super::open;
use crate::harness::TOKEN_SECRET;

#[test]
fn readme_shows_a_first_event_and_how_others_may_call() {
    let Some((mut session, blocks)) = open("README.md") else { return };
    let [serve, listen, send] = [&blocks[3], &blocks[4], &blocks[5]];
    session.follow(serve);
    session.follow(listen);
    session.follow(send);
    session.hears("curl -N", &blocks[6].text);
    session.end_server();
    session.follow(&blocks[9]);
    let refused = "curl -s -o /dev/null -w '%{http_code}' http://10.0.0.7:8001/stats";
    assert_eq!(session.run(refused), "401", "with the first key every call needs one");
}

#[test]
fn first_page_of_the_site_shows_a_first_event() {
    let Some((mut session, blocks)) = open("docs/index.md") else { return };
    session.follow(&blocks[0]);
    session.hears("encke listen bob", "{\"photo\":789}");
}

#[test]
fn page_on_installing_shows_a_server_behind_a_proxy() {
    let Some((mut session, blocks)) = open("docs/install.md") else { return };
    session.instead("/etc/encke/token-secret", TOKEN_SECRET);
    session.follow(&blocks[5]);
    let by_name = "curl -s -o /dev/null -w '%{http_code}' -H 'Host: push.example.org' \
                   http://127.0.0.1:8000/stream/bob";
    assert_eq!(session.run(by_name), "401", "the name is known, and a token is asked for");
}

#[test]
fn tutorial_leads_from_a_server_to_a_token() {
    let Some((mut session, blocks)) = open("docs/tutorial.md") else { return };
    session.follow(&blocks[0]);
    session.follow(&blocks[1]);
    session.follow(&blocks[2]);
    session.hears("encke listen bob", "\"hello\"");
    session.follow(&blocks[3]);
    session.hears("encke listen bob", "{\"photo\":789}");
    fs::write(session.folder().join("index.html"), &blocks[4].text).unwrap();
    session.follow(&blocks[5]);
    assert_eq!(session.run("curl -s http://127.0.0.1:8080/"), blocks[4].text);
    session.follow(&blocks[6]);
    session.follow(&blocks[7]);
    session.run("encke send bob again");
    session.hears("encke listen bob --token", "\"again\"");
    let status = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8000/stream/";
    assert_eq!(session.run(&format!("{status}bob")), "401", "without a token");
    let with = format!("{status}rj -H \"Authorization: Bearer $(cat token)\"");
    assert_eq!(session.run(&with), "403", "the token is bob's");
}
