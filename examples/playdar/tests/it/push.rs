//! Results that are pushed: comet as both old daemons had it, and Encke's streams.

use std::net::SocketAddr;

use crate::live::Live;

#[tokio::test]
async fn comet_tells_what_its_queries_find() {
    let live = Live::start().await;
    let listen = live.daemon.listen();
    let mut raw = Live::open(listen, "/api/?method=comet&id=s1&mode=raw", "\r\n\r\n").await;
    let qid = live.resolve("Tone in MP3", "&comet=s1").await;
    raw.until("\n\n\r\n").await;
    assert!(raw.heard.contains("\"method\":\"results\""), "{}", raw.heard);
    assert!(raw.heard.contains(&qid) && !raw.heard.contains("file://"), "{}", raw.heard);
    let mut page =
        Live::open(listen, "/api/?method=comet&id=s2", "<html><head></head><body>").await;
    live.resolve("Tone in M4A", "&comet=s2").await;
    page.until("</script>\n\n").await;
    assert!(page.heard.to_lowercase().contains("content-type: multipart/x-mixed-replace"));
    assert!(page.heard.contains("<script type=\"text/javascript\">{"), "{}", page.heard);
}

#[tokio::test]
async fn old_comet_tells_a_list_even_of_a_query_from_before() {
    let live = Live::start().await;
    let qid = live.resolve("Tone in MP3", "&comet=old").await;
    let mut list = Live::open(live.daemon.listen(), "/comet?session=old", "},\r\n").await;
    assert!(list.heard.contains("\r\n[\r\n"), "{}", list.heard);
    assert!(list.heard.contains(&format!("\"query\":\"{qid}\"")), "{}", list.heard);
    let again = live.resolve("Tone in FLAC", "&comet=old").await;
    list.until(&again).await;
}

#[tokio::test]
async fn streams_tell_each_result_and_go_on_where_a_client_was() {
    let live = Live::start().await;
    let base = live.daemon.streams();
    let streams: SocketAddr = base.strip_prefix("http://").unwrap().parse().unwrap();
    let target = "/stream/query:mine";
    let mut stream = Live::open(streams, target, "\r\n\r\n").await;
    live.resolve("Tone in MP3", "&qid=mine").await;
    stream.until("\"track\":\"Tone in MP3\"").await;
    assert!(stream.heard.contains("\"about\":\"query:mine\""), "{}", stream.heard);
    assert!(!stream.heard.contains("file://"), "{}", stream.heard);
    let place = stream.heard.split("\nid: ").nth(1).and_then(|rest| rest.lines().next());
    let place = place.unwrap().to_owned();
    drop(stream);
    // Whoever comes back with a place before is told again what it missed.
    live.resolve("Tone in OGG", "&qid=other").await;
    live.solved("other").await;
    let target = format!("/stream/query:other?last_event_id={place}");
    let missed = Live::open(streams, &target, "\"track\":\"Tone in OGG\"").await;
    assert!(missed.heard.contains("\"about\":\"query:other\""), "{}", missed.heard);
}
